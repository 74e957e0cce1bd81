"""All runs: how they are found, listed, started and resumed, and what of them is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.notifications import SeverityLevel
from textual.worker import WorkType

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunProblem
from ktui.execution.engine.add_plan import CheckedExtraPlan
from ktui.execution.forecast.run_progress import live_and_resumable
from ktui.execution.foreign_cancels import ListedReassignment, listed_reassignments
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import CancelGateFile, live_runs, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import CancelMoves, Pause
from ktui.execution.run.scope import partitions_on
from ktui.tui.app.run_controller import Controller
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.messages import (
    CancelAction,
    DialogChoice,
    DialogScope,
    broker_scope,
    command_scope,
    scopes,
)
from ktui.tui.run_view.plan_request import PlanRequest
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.plan import PlanOutcome, PlanScreen, SwitchPlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.questions import ResumeChoice, ResumeOfferScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.runs import InsightsScreen, RunsScreen

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


class RunCatalog(Controller):
    """Finds and lists the cluster's runs, and has engines started for them."""

    def __init__(
        self,
        app: KtuiApp,
        *,
        state_dir: StateDir | None,
        engines: EngineLauncher | None,
        place: str | None = None,
    ) -> None:
        super().__init__(app)
        self._run, self._place = app.run_controller, place
        self.state_dir, self.engines = state_dir, engines
        self._first: RunDir | None = None
        self._offered = False
        self._live: set[str] = set()

    def attach_first(self, folder: Path) -> None:
        self._first = RunDir(folder)
        self.attach_to(self._first)

    def attach_to(self, folder: RunDir) -> None:
        self.later(self.attach(folder), "attach")

    async def attach(self, folder: RunDir) -> None:
        """Follow a run. From then on no other run is offered."""
        self._offered = True
        await self._run.attach(folder)

    def find_runs(self) -> None:
        self._offer(self._app.cluster_id)
        self._find_new_runs(self._app.cluster_id)

    def _offer(self, cluster_id: str | None) -> None:
        if self._offered or self.state_dir is None or cluster_id is None:
            return
        self._offered = True
        if self._first is None:
            self.later(self._attach_or_offer(self.state_dir, cluster_id), "attach")

    async def _attach_or_offer(self, state_dir: StateDir, cluster_id: str) -> None:
        try:
            live, waiting = await asyncio.to_thread(live_and_resumable, state_dir, cluster_id)
        except RunProblem as error:
            self._app.report_news(str(error), "warning")
            return
        if live:
            more = f" of {len(live)} live ones; r shows all" if len(live) > 1 else ""
            self._app.report_news(f"Attached to run {live[0].name}{more}.")
            await self.attach(state_dir.run(live[0].name))
            for left in waiting:
                if left.extra_replicas is not None:
                    words = f"Run {left.name} has no engine: {left.extra_replicas}."
                    self._app.report_news(words, "warning")
        elif waiting:
            run, problem = state_dir.run(waiting[0].name), self.resume_problem

            def chosen(choice: ResumeChoice | None) -> None:
                if choice is ResumeChoice.RESUME:
                    self.resume(run)
                elif choice is ResumeChoice.LOOK:
                    self.attach_to(run)

            await self._app.push_screen(ResumeOfferScreen(waiting, problem), chosen)

    def _find_new_runs(self, cluster_id: str | None) -> None:
        if not self._offered or self.state_dir is None or cluster_id is None:
            return
        if {"attach", "starting", "newcomers"} & {w.group for w in self._app.workers}:
            return
        starts_one = isinstance(self._app.screen, PlanScreen)  # its own run is not reported
        status = self._run.status
        if (status is None or not status.owned) and not starts_one:
            reporting: WorkType[None] = partial(self._report_new_runs, self.state_dir, cluster_id)
            self._app.run_worker(reporting, group="newcomers", exit_on_error=False)

    async def _report_new_runs(self, state_dir: StateDir, cluster_id: str) -> None:
        try:
            live = await asyncio.to_thread(live_runs, state_dir, cluster_id)
        except RunProblem:  # such as a run that is just being taken over: the next call finds it
            return
        known, self._live = self._live, {run.name for run in live}
        attached = self._run.attached
        new = self._live - known - (set() if attached is None else {attached.name})
        for name in sorted(new):
            self._app.report_news(f"Run {name} of this cluster is live now; r shows all runs.")

    @property
    def resume_problem(self) -> str | None:
        return self._app.forbidden or (messages.NO_ENGINES if self.engines is None else None)

    def resume(self, run: RunDir) -> None:
        problem = self.resume_problem
        if problem is not None or self.engines is None:
            self.warn(problem or "")
            return
        self.later(self._resume(self.engines, run), "starting")

    async def _resume(self, engines: EngineLauncher, run: RunDir) -> None:
        self._app.notify(f"Resuming run {run.name} …")
        try:
            await engines.resume(run)
        except Exception as error:  # noqa: BLE001 - reported as it is; the view goes on
            self.fail(error, f"resume {run.name}")
        await self.attach(run)

    async def show_runs(self) -> None:
        if self.state_dir is None:
            self.warn("There is no state directory here, so there are no runs to show.")
        else:
            place = self._place or str(self.state_dir.path)
            screen = RunsScreen(self.state_dir, place=place, may_resume=self.resume_problem)
            await self._app.push_screen(screen)

    async def show_insights(self) -> None:
        if self.state_dir is None:
            self.warn("There is no state directory here, so there are no insights to show.")
        else:
            await self._app.push_screen(InsightsScreen(self.state_dir, self._app.cluster_id))

    async def choose_plan(self, *, adds: bool = True, request: PlanRequest | None = None) -> None:
        engines, state_dir, problem = self.engines, self.state_dir, self.resume_problem
        if problem is not None or engines is None or state_dir is None:
            self.warn(problem or messages.NO_ENGINES)
            return
        attached = self._run.attached
        takes_plans = attached is not None and attached.status.owned
        screen: PlanScreen
        if attached is not None and takes_plans and adds:
            screen = AddScreen(engines, state_dir, attached, request=request)
        else:
            attached_run = attached.name if attached is not None and takes_plans else ""
            screen = StartScreen(engines, state_dir, attached_run=attached_run, request=request)

        def decided(outcome: PlanOutcome | None) -> None:
            if isinstance(outcome, SwitchPlanScreen):
                self.later(self.choose_plan(adds=not adds, request=outcome.request), "choosing")
            elif isinstance(outcome, CheckedExtraPlan):
                self.later(self._add(outcome), "asking")
            elif outcome is not None:
                self.attach_to(outcome)

        await self._app.push_screen(screen, decided)

    async def _add(self, extra: CheckedExtraPlan) -> None:
        what, attached = f"add {extra.name}", self._run.attached
        if attached is None or attached.name != extra.run.name:
            self.fail(f"The view no longer shows run {extra.run.name}: nothing was added.", what)
            return
        self._app.notify(f"Requested from run {extra.run.name} …", title=what)
        await self._run.ask_for(await asyncio.to_thread(extra.command), what)


def _usual_action(attached: AttachedRun) -> CancelAction:
    ended = attached.status.state is RunState.ENDED
    return CancelAction.ROLLBACK if ended else CancelAction.STOP


class CancelController(Controller):
    """Opens the cancel dialogs, and carries out what the operator chooses."""

    def __init__(self, app: KtuiApp, clock: Clock) -> None:
        super().__init__(app)
        self._clock = clock
        self._run, self._runs = app.run_controller, app.run_catalog

    async def cancel(self) -> None:
        attached, marked = self._run.attached, self._app.marked
        selected = self._app.selected
        foreign = None if selected is None else self._foreign_reassignments().get(selected)
        if attached is None:
            hint = f" {messages.foreign_hint(None)}" if foreign is not None else ""
            self.warn(f"{messages.NO_RUN}{hint}")
        elif foreign is not None and not (foreign.tp in attached.run.tracks or marked):
            hint = messages.foreign_hint(self._run.mover(foreign.tp))
            self.warn(f"{foreign.tp} is not in run {attached.name}. {hint}")
        elif elsewhere := self._run.elsewhere:
            back = messages.ROLLS_BACK.format(attached.name) if attached.run.ended else ""
            self.warn(f"{elsewhere} {back}".rstrip())
        else:
            await self.open_dialog(attached, _usual_action(attached))

    async def preview(self, cancel: CancelMoves) -> None:
        if self._run.attached is not None:
            scope = command_scope(self._run.attached.run, cancel)
            action = next(each for each in CancelAction if each.kind is cancel.kind)
            await self._show_dialog(self._run.attached, [scope], action)

    async def cancel_on_broker(self, broker: int) -> None:
        attached = self._run.attached
        if attached is None:
            self.warn(messages.NO_RUN)
            return
        partitions = partitions_on(attached.run, [broker])
        if not partitions:
            self.warn(messages.NOT_ON_BROKER.format(attached.name, broker))
            return
        scope = broker_scope(broker, partitions)
        await self._show_dialog(attached, [scope], _usual_action(attached))

    async def open_dialog(
        self, attached: AttachedRun, action: CancelAction, *, whole: bool = False
    ) -> None:
        choices = scopes(attached.run, self._app.selected, self._app.marked)
        await self._show_dialog(attached, choices[-1:] if whole else choices, action)

    async def _show_dialog(
        self, attached: AttachedRun, choices: Sequence[DialogScope], action: CancelAction
    ) -> None:
        def answered(chosen: DialogChoice | None) -> None:
            if chosen is not None and self._run.attached is not None:
                self.later(self._carry_out(self._run.attached, chosen), "asking")

        screen = CancelScreen(attached, choices, action, self._app.forbidden)
        await self._app.push_screen(screen, answered)
        screen.show_progress()

    def roll_back_all(self, folder: RunDir) -> None:
        self.later(self._roll_back_all(folder), "attach")

    async def _roll_back_all(self, folder: RunDir) -> None:
        await self._runs.attach(folder)
        if self._run.attached is not None and self._run.attached.name == folder.name:
            await self.open_dialog(self._run.attached, CancelAction.ROLLBACK, whole=True)

    async def _carry_out(self, attached: AttachedRun, chosen: DialogChoice) -> None:
        """Send the cancel. A run without an engine is resumed for it, and its rest is paused."""
        if attached.status.owned:
            try:
                await asyncio.to_thread(self._shut_gate_for, attached, chosen)
            except RunProblem as problem:
                self.fail(problem, chosen.what)
                return
            self._run.ask(chosen.command, chosen.what)
        elif self._runs.engines is None:
            self.fail(messages.NO_ENGINES, chosen.what)
        else:
            await self._resume_for(self._runs.engines, attached, chosen)

    async def _resume_for(
        self, engines: EngineLauncher, attached: AttachedRun, chosen: DialogChoice
    ) -> None:
        ended = attached.status.state is RunState.ENDED
        pauses = not (ended or chosen.scope.whole)  # a cancel of the whole run leaves no rest
        numbers = []

        def ask() -> None:
            self._shut_gate_for(attached, chosen)  # nothing blocks the run any more
            if pauses:
                attached.ask(Pause())
            numbers.append(attached.ask(chosen.command))

        try:
            await engines.resume(attached.folder, ask)
        except (ClusterError, RunProblem) as problem:
            self.fail(problem, chosen.what)
        self._run.await_answers(numbers, chosen.what)

    @property
    def gate(self) -> str:
        """The person who shut the cluster's cancel gate, as "by ..."; empty while it is open.

        A problem with the gate's file takes its place.
        """
        try:
            shut = None if self._gate_file is None else self._gate_file.state()
        except RunProblem as problem:
            return str(problem)
        if shut is not None:
            return f"by {shut.who}"
        status = self._run.status
        who = status is not None and status.owned and status.cancel_gate_by
        return f"by {who}" if who else ""

    @property
    def _gate_file(self) -> CancelGateFile | None:
        if self._runs.state_dir is None or self._app.cluster_id is None:
            return None
        return CancelGateFile(self._runs.state_dir, self._app.cluster_id)

    def _shut_gate_for(self, attached: AttachedRun, chosen: DialogChoice) -> None:
        if self._gate_file is not None and chosen.shuts_gate(attached.status):
            reason = f"{chosen.what} of run {attached.name}"
            self._gate_file.shut(self._clock.now(), this_process().short, reason)

    def open_gate(self) -> None:
        gate = self._gate_file
        if self._app.forbidden is not None:
            self.warn(self._app.forbidden)
        elif gate is None or gate.words() is None:
            self._app.notify("The cancel gate of this cluster is open.")
        else:
            words = messages.OPENING_GATE.format(gate.words())
            self.confirm("Open the cancel gate?", words, lambda: self._remove_gate(gate))

    def _remove_gate(self, gate: CancelGateFile) -> None:
        try:
            gate.open()
        except RunProblem as problem:
            self.fail(problem)
        else:
            self._app.notify("The cancel gate is open: runs may submit again.")

    def _foreign_reassignments(self) -> dict[TopicPartition, ListedReassignment]:
        seen, attached = self._app.progress.last, self._run.attached
        if seen is None:
            return {}
        tracks = {} if attached is None else attached.run.tracks
        listed = listed_reassignments(seen)
        ours = {tp for tp in listed if tp in tracks and tracks[tp].step is not None}
        return {tp: move for tp, move in listed.items() if tp not in ours}

    def _chosen_foreign(self) -> list[ListedReassignment]:
        """Return what X is about: the foreign ones of the marked, else that under the cursor."""
        chosen = self._app.marked or (self._app.selected,)
        return [move for tp, move in self._foreign_reassignments().items() if tp in chosen]

    def _why_not_foreign(self, move: ListedReassignment) -> str | None:
        mover = self._run.mover(move.tp)
        return move.refused if mover is None else messages.foreign_hint(mover).removesuffix(".")

    @property
    def may_cancel_foreign(self) -> bool:
        if self._runs.resume_problem is not None:
            return False
        return any(self._why_not_foreign(move) is None for move in self._chosen_foreign())

    def cancel_foreign(self) -> None:
        found, engines = self._chosen_foreign(), self._runs.engines
        moves = [move for move in found if self._why_not_foreign(move) is None]
        if self._app.forbidden is not None or engines is None:
            self.warn(self._app.forbidden or messages.NO_ENGINES)
        elif not found:
            self.warn(messages.NOT_FOREIGN)
        elif not moves:
            first = found[0]
            self.warn(f"{first.tp}: {self._why_not_foreign(first)}.")
        else:
            what = messages.foreign_scope(moves)

            def cancel() -> None:
                self.later(self._cancel_foreign(engines, moves, f"cancel {what}"), "asking")

            left_out = len(self._app.marked) - len(moves) if self._app.marked else 0
            words = messages.cancel_consequences(moves, left_out)
            self.confirm(f"Cancel {what}?", words, cancel)

    async def _cancel_foreign(
        self, engines: EngineLauncher, moves: Sequence[ListedReassignment], what: str
    ) -> None:
        try:
            settled = await engines.cancel_foreign(moves)
        except (ClusterError, RunProblem) as problem:
            self.fail(problem, what)
            return
        as_asked = all(each.as_asked for each in settled.values())
        severity: SeverityLevel = "information" if as_asked else "warning"
        self._app.notify(messages.foreign_outcomes(settled), title=what, severity=severity)
