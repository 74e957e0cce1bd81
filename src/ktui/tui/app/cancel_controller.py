"""Cancels of the run's partitions and of foreign reassignments, and the cancel gate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.notifications import SeverityLevel

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunProblem
from ktui.execution.foreign_cancels import ListedReassignment, listed_reassignments
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import CancelGateFile, this_process
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import CancelMoves, Pause
from ktui.execution.run.scope import partitions_on
from ktui.tui.app.run_controller import Controller
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.cancel_choice import (
    CancelAction,
    DialogChoice,
    DialogScope,
    broker_scope,
    command_scope,
    scopes,
)
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.screens.run.cancel import CancelScreen

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


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
