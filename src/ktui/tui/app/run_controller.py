"""What all parts of the app do, and the attached run: follows its journal, sends commands."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual.notifications import SeverityLevel

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import SettingKey
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.catalog import Movers, OtherRun, OtherRuns
from ktui.execution.host.client import RunClient, undo_last, write_note
from ktui.execution.host.launch import rewrite_rollback
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Add, Command, Continue, Pause, SetLimits
from ktui.execution.run.plans import tool_commands
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.inputfile import FileProblem
from ktui.progress.timeline import Event, Progress, Timeline, in_time_order
from ktui.tui.app.terminal import Alerts
from ktui.tui.poll import load_history
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun, RunStatus
from ktui.tui.run_view.messages import foreign_moves
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.questions import ConfirmScreen, NotePrompt, ToolCommandsScreen
from ktui.tui.screens.run.change_screen import LimitsScreen, ThrottleScreen
from ktui.tui.widgets.services import RunActs, ShowsPartition, ShowsRun, services

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


class Controller:
    """A part of the app that carries out what keys ask for."""

    def __init__(self, app: KtuiApp) -> None:
        self._app = app

    def warn(self, words: str, title: str = "") -> None:
        self._app.notify(words, title=title, severity="warning")

    def fail(self, problem: Exception | str, title: str = "") -> None:
        self._app.notify(str(problem), title=title, severity="error")

    def later(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Do this in a worker; the app reports a defect in it, and goes on."""
        self._app.run_worker(work, group=group, exit_on_error=False)

    def confirm(self, title: str, words: str, act: Callable[[], None]) -> None:
        """Act once the operator has said yes."""

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the screen's answer
            if yes:
                act()

        self._app.push_screen(ConfirmScreen(title, words), answered)


_OTHERS_EVERY_S = 5.0  # seconds between two reads of the journals of other runs


class RunController(Controller, RunActs):
    """Follows one run, sends commands to its engine, and reports the answers."""

    def __init__(self, app: KtuiApp, clock: Clock, alerts: Alerts) -> None:
        super().__init__(app)
        self._clock, self._alerts = clock, alerts
        self.attached: AttachedRun | None = None
        self._status: RunStatus | None = None
        self._foreign: list[Timeline] | None = None
        self._changes = 0
        self._merged: tuple[tuple[Event, ...], int, tuple[Event, ...]] = ((), 0, ())
        """Events of the cluster, the changes of the run by then, and all events merged."""
        self._others: OtherRuns | None = None
        self._others_read_s = -_OTHERS_EVERY_S
        self._foreign_read: set[TopicPartition] = set()
        """The foreign moves by the last read, which has found which of them are of other runs."""
        self.others: Sequence[OtherRun] = ()
        """The other runs of its cluster that live or wait, the live ones first."""
        self._commands: dict[int, str] = {}

    @property
    def status(self) -> RunStatus | None:
        if self._status is None and self.attached is not None:
            self._status = self.attached.status
        return self._status

    @property
    def foreign(self) -> Sequence[Timeline]:
        attached = self.attached
        if attached is None:
            return ()
        if self._foreign is None:
            self._foreign = foreign_moves(attached.run, self._app.progress)
        return self._foreign

    async def attach(self, folder: RunDir) -> None:
        try:
            attached, touched = await asyncio.to_thread(_open, folder, self._clock)
        except RunProblem as problem:
            self.fail(problem)
            return
        self._follow(attached)
        if wrong_cluster := self._wrong_cluster():
            self._follow(None)
            self.fail(wrong_cluster)
            touched = set()
        self._show_run(touched)
        self._app.screen.refresh_bindings()
        self._app.refresh_screens()
        if self.attached is not None:
            self.later(self._load_history(self.attached), "history")

    def _wrong_cluster(self) -> str:
        attached, seen = self.attached, self._app.cluster_id
        started = None if attached is None else attached.run.started
        if attached is None or started is None or seen in (None, started.cluster_id):
            return ""
        return f"Run {attached.name} is of cluster {started.cluster_id}; this view is on {seen}."

    async def _load_history(self, attached: AttachedRun) -> None:
        self._app.poll_loop.expect_history()
        attached.expect_estimate()
        past = estimate = None
        try:
            past = await asyncio.to_thread(load_history, attached.folder, self._clock)
        except (FileProblem, RunProblem) as problem:
            words = f"What was seen of run {attached.name} before is not shown: {problem}"
            self._app.report_news(words, "warning")
        if attached is self.attached:
            self._app.poll_loop.add_history(past)
        elif self.attached is None:  # else the history of another run is being read
            self._app.poll_loop.add_history(None)
        if past is not None:
            with suppress(RunProblem):  # the journal has just been read
                estimate = await asyncio.to_thread(attached.recorded_estimate)
        attached.use_estimate(estimate)

    def detach(self) -> None:
        self._follow(None)
        self._show_run(set())

    def close(self) -> None:
        if self._others is not None:
            self._others.close()
            self._others = None
        self._follow(None)

    def _follow(self, attached: AttachedRun | None) -> None:
        if self.attached is not None:
            self.attached.close()
        self.attached = attached
        self._status, self._foreign = None, None
        if self._others is not None:  # in a thread, for it may be reading
            self.later(asyncio.to_thread(self._others.close), "movers")
        self._others, self._others_read_s, self.others = None, -_OTHERS_EVERY_S, ()
        self._alerts.follow()
        self._changes += 1

    def _show_run(self, touched: set[TopicPartition]) -> None:
        for screen in self._app.screen_stack:
            if isinstance(screen, ShowsRun):
                screen.show_run(self.attached, touched)

    def refresh(self) -> None:
        attached = self.attached
        if attached is None:
            return
        entries, touched = attached.refresh()
        self._changes += bool(entries)
        self._alerts.note_entries(attached.run, entries, owned=attached.status.owned)
        attached.note_poll(self._app.progress)
        self._find_movers(attached)
        self._status, self._foreign = None, None
        self._show_run(touched)
        self._report_answers(attached)
        self._app.poll_loop.settings_changed(*attached.throttle_news.changed())

    def _find_movers(self, attached: AttachedRun) -> None:
        now_s, started = self._clock.monotonic(), attached.run.started
        foreign = {move.tp for move in self.foreign}
        due = now_s - self._others_read_s >= _OTHERS_EVERY_S
        if started is not None and (due or foreign - self._foreign_read):
            self._others_read_s, self._foreign_read = now_s, foreign
            if self._others is None:
                self._others = OtherRuns.beside(attached.folder, started.cluster_id)
            self.later(self._read_others(attached, self._others), "movers")

    async def _read_others(self, attached: AttachedRun, others: OtherRuns) -> None:
        movers = await asyncio.to_thread(others.movers)
        alive = await asyncio.to_thread(others.alive)
        if attached is not self.attached:
            return
        touched = attached.rows.take_others(alive)
        if movers != attached.rows.movers or touched or alive != self.others:
            attached.rows.movers, self.others = movers, alive
            self._show_run(touched | set(movers))
            self._app.draw_screens()

    @property
    def movers(self) -> Movers:
        return {} if self.attached is None else self.attached.rows.movers

    @property
    def foreign_of_runs(self) -> Mapping[str, int]:
        movers = self.movers
        return Counter(movers[move.tp] for move in self.foreign if move.tp in movers)

    def mover(self, tp: TopicPartition) -> str | None:
        return self.movers.get(tp)

    @property
    def other_under_cursor(self) -> str:
        """The other run that moves the partition under the cursor; empty where none does."""
        shows = isinstance(self._app.screen, ShowsPartition)
        selected = self._app.selected if shows else None
        return "" if selected is None else self.mover(selected) or ""

    @property
    def next_other(self) -> OtherRun | None:
        """The run that the next key shows: that of the row under the cursor, else by name."""
        here, name = self.other_under_cursor, "" if self.attached is None else self.attached.name
        in_turn = sorted(self.others, key=lambda each: (each.name != here, each.name <= name))
        return next(iter(in_turn), None)

    @property
    def makes_plan(self) -> bool:
        """Whether a plan is being made for the shown run, which therefore stays."""
        return any(isinstance(screen, PlanScreen) for screen in self._app.screen_stack)

    def show_next_run(self) -> None:
        following = self.next_other
        if self.attached is None or following is None:
            self.warn(messages.NO_RUN if self.attached is None else messages.NO_OTHER_RUN)
            return
        if self.makes_plan:
            self.warn(messages.LEAVE_PLAN)
            return
        folder = StateDir(self.attached.folder.path.parent.parent).run(following.name)
        self._app.attach_to(folder)

    def merge_events(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        if self.attached is None:
            return events
        known, changes, merged = self._merged
        if known is not events or changes != self._changes:
            merged = tuple(in_time_order(self.attached.events, events))
            self._merged = (events, self._changes, merged)
        return merged

    def with_requests(self, progress: Progress) -> Progress:
        attached = self.attached
        return progress if attached is None else with_requested_replicas(progress, attached.run)

    @property
    def throttles(self) -> Mapping[SettingKey, frozenset[str]]:
        run = None if self.attached is None else self.attached.run
        if run is None or run.ended:
            return {}
        return {key: ours.values for key, ours in run.throttled.ours.items()}

    def ask(self, command: Command, what: str) -> None:
        self.later(self.ask_for(command, what), "asking")

    async def ask_for(self, command: Command, what: str) -> None:
        attached = self.attached
        if attached is None:
            return
        try:
            await services(self._app).check_permitted(attached.run, command)
            number = await asyncio.to_thread(attached.ask, command)
        except RunProblem as problem:
            self.fail(problem, what)
        else:
            self.await_answers([number], what)

    def await_answers(self, numbers: Iterable[int], what: str) -> None:
        self._commands |= dict.fromkeys(numbers, what)

    def _report_answers(self, attached: AttachedRun) -> None:
        for number, what in list(self._commands.items()):
            try:
                asked = attached.answer_to(number)
            except RunProblem as problem:
                del self._commands[number]
                self.fail(problem, what)
                continue
            if (answer := asked.answer) is None:
                continue
            del self._commands[number]
            severity: SeverityLevel = "information" if answer.accepted else "error"
            self._app.notify(answer.words, title=what, severity=severity)
            if answer.accepted and isinstance(asked.command, Add):
                self._app.run_worker(self._write_rollback(attached), exit_on_error=False)

    async def _write_rollback(self, attached: AttachedRun) -> None:
        try:
            await asyncio.to_thread(rewrite_rollback, attached.folder)
        except RunProblem as problem:
            self.warn(str(problem))

    def why_not(self, *, without_engine: bool = False) -> str | None:
        if self.attached is None:
            return messages.NO_RUN
        status = self.attached.status
        unchangeable = None if without_engine else messages.why_unchangeable(status)
        return self._app.forbidden or (unchangeable and self.elsewhere) or unchangeable

    @property
    def elsewhere(self) -> str:
        """Where keys of the run would have to act instead; empty where they act on the shown one.

        They would on the row of another run, and on any once the shown run has ended.
        """
        attached, here = self.attached, self.other_under_cursor
        if attached is None or not self.others:
            return ""
        if here and not self._app.marked:
            return messages.belongs_to(self._app.selected, here)
        return messages.look_at_others(attached.name, self.others) if attached.run.ended else ""

    def may_change(self) -> AttachedRun | None:
        if (problem := self.why_not()) is not None:
            self.warn(problem)
            return None
        return self.attached

    def _may_change_here(self) -> AttachedRun | None:
        """As for a key, which is about the row under the cursor."""
        if self._app.forbidden is None and self.elsewhere:
            self.warn(self.elsewhere)
            return None
        return self.may_change()

    async def show_limits(self) -> None:
        await self._open(LimitsScreen(write=self._app.forbidden is None))

    async def show_throttle(self) -> None:
        await self._open(ThrottleScreen(write=self._app.forbidden is None))

    async def undo(self) -> None:
        attached = self.may_change()
        if attached is None:
            return
        try:
            undo = undo_last(attached.run)
        except RunRefused as why:
            self.warn(str(why), "undo")
            return
        of_limits = isinstance(undo.command, SetLimits)
        screen = LimitsScreen(write=True) if of_limits else ThrottleScreen(write=True)
        await self._open(screen)
        screen.action_undo()

    async def show_tool_commands(self) -> None:
        if self.attached is None:
            self.warn(messages.NO_RUN)
            return
        await self._app.push_screen(ToolCommandsScreen(tool_commands(self.attached.run)))

    async def _open(self, screen: LimitsScreen | ThrottleScreen) -> None:
        if self.attached is None or self.elsewhere:
            self.warn(self.elsewhere or messages.NO_RUN)
            return
        await self._app.push_screen(screen)
        screen.show_run(self.attached, set())

    def pause(self) -> None:
        attached = self._may_change_here()
        if attached is not None:
            self.confirm_pause(Continue() if attached.run.pauses.whole else Pause())

    def confirm_pause(self, command: Pause | Continue) -> None:
        attached = self.may_change()
        if attached is None:
            return
        status, paused = attached.status, isinstance(command, Continue)
        title = f"Let run {status.name} go on?" if paused else f"Pause run {status.name}?"
        what = f"continue {status.name}" if paused else f"pause {status.name}"

        words = messages.pause_consequences(status, paused=paused)
        self.confirm(title, words, lambda: self.ask(command, what))

    def write_note(self) -> None:
        attached = self.attached
        if attached is None or self._app.forbidden is not None:
            self.warn(messages.NO_RUN if attached is None else self._app.forbidden or "")
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self.later(self._write_note(attached, text), "noting")

        self._app.push_screen(NotePrompt(attached.name), answered)

    async def _write_note(self, attached: AttachedRun, text: str) -> None:
        client = RunClient(attached.folder, self._clock)
        try:
            await asyncio.to_thread(write_note, client, text, self._clock)
        except RunProblem as problem:
            self.fail(problem, "note")
        else:
            self._app.notify("noted among the events of the run", title="note")

    def pause_partition(self, tp: TopicPartition | None) -> None:
        attached = self._may_change_here()
        if attached is None:
            return
        run = attached.run
        if tp is None or tp not in run.tracks:
            self.warn("There is no partition of the run under the cursor.")
        elif tp in run.pauses.partitions:
            self.ask(Continue(partitions=(tp,)), f"continue {tp}")
        else:
            self.ask(Pause(partitions=(tp,)), f"pause {tp}")


def _open(folder: RunDir, clock: Clock) -> tuple[AttachedRun, set[TopicPartition]]:
    attached = AttachedRun(folder, clock)
    _, touched = attached.refresh()
    return attached, touched
