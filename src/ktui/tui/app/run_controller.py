"""The attached run: follows its journal, and sends it commands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from textual.app import App
from textual.notifications import SeverityLevel

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.resources import SettingKey
from ktui.execution.errors import RunProblem
from ktui.execution.host.rollback_plan import rewrite_rollback
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Add, Command, Continue, Pause
from ktui.fileproblem import FileProblem
from ktui.progress.timeline import Progress
from ktui.tui.app.feed import Feed, Permission
from ktui.tui.poll.backfill import load_history
from ktui.tui.poll.requested_replicas import with_requested_replicas
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun, RunStatus
from ktui.tui.run_view.attachment import AttachedRunSlot
from ktui.tui.screens.run.confirm import ConfirmScreen
from ktui.tui.screens.run.limits import LimitsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.shows import ShowsRun


class RunController:
    """Follows one run, sends commands to its engine, and reports the answers.

    Args:
        app: shows screens and notifications.
        clock: the clock.
        feed: the polling side of the app.
        permission: whether anything may be changed from here.
    """

    def __init__(self, app: App[Any], clock: Clock, feed: Feed, permission: Permission) -> None:
        self._app, self._clock, self._feed = app, clock, feed
        self._permission = permission
        self.desk = AttachedRunSlot(clock)
        self._commands: dict[int, str] = {}
        """Commands without an answer yet, by number, each with its name in notifications."""

    @property
    def attached(self) -> AttachedRun | None:
        """The run that the view follows."""
        return self.desk.attached

    @property
    def status(self) -> RunStatus | None:
        """The status of that run."""
        return None if self.attached is None else self.attached.status

    async def attach(self, folder: RunDir) -> None:
        """Follow a run, and show it."""
        try:
            touched = await self.desk.attach(folder)
        except RunProblem as problem:
            self._app.notify(str(problem), severity="error")
            return
        if wrong_cluster := self._wrong_cluster():
            self.desk.detach()
            self._app.notify(wrong_cluster, severity="error")
            touched = set()
        self.hand_out(touched)
        self._app.screen.refresh_bindings()
        self._feed.show_again()
        if self.attached is not None:
            recalling = self._load_history(self.attached)
            self._app.run_worker(recalling, group="recall", exit_on_error=False)

    def _wrong_cluster(self) -> str:
        """Return why the run does not belong to this view; empty where it does."""
        attached, seen = self.attached, self._feed.cluster_id
        started = None if attached is None else attached.run.started
        if attached is None or started is None or seen in (None, started.cluster_id):
            return ""
        return f"Run {attached.name} is of cluster {started.cluster_id}; this view is on {seen}."

    async def _load_history(self, attached: AttachedRun) -> None:
        try:
            past = await asyncio.to_thread(load_history, attached.folder, self._clock)
        except (FileProblem, RunProblem) as problem:
            words = f"What was seen of run {attached.name} before is not shown: {problem}"
            self._app.notify(words, severity="warning")
            return
        if past is not None and attached is self.attached:
            self._feed.begin_with(past)

    def detach(self) -> None:
        """Stop following the run."""
        self.desk.detach()
        self.hand_out(set())

    def hand_out(self, touched: set[TopicPartition]) -> None:
        """Hand the run to every screen that draws it."""
        for screen in self._app.screen_stack:
            if isinstance(screen, ShowsRun):
                screen.show_run(self.attached, touched)

    def refresh(self, progress: Progress) -> None:
        """Read new events of the run, and the answers to commands."""
        touched = self.desk.refresh(progress)
        if self.attached is not None:
            self.hand_out(touched)
            self._report_answers(self.attached)
            self._feed.settings_changed(*self.attached.throttle_news.changed())

    def informed(self, progress: Progress) -> Progress:
        """Return the progress completed with the replicas that the run has requested."""
        return (
            progress
            if self.attached is None
            else with_requested_replicas(progress, self.attached.run)
        )

    @property
    def throttles(self) -> Mapping[SettingKey, frozenset[str]]:
        """The throttle settings that the run has set; none once it has ended."""
        run = None if self.attached is None else self.attached.run
        if run is None or run.ended:
            return {}
        return {key: ours.values for key, ours in run.throttled.ours.items()}

    # ------------------------------------------------------------------- commands

    def ask(self, command: Command, what: str) -> None:
        """Send a command to the run's engine; report the answer when it comes."""
        self._app.run_worker(self.ask_for(command, what), group="asking", exit_on_error=False)

    async def ask_for(self, command: Command, what: str) -> None:
        """Write a command into the journal; report the answer when it comes."""
        attached = self.attached
        if attached is None:
            return
        try:
            number = await asyncio.to_thread(attached.ask, command)
        except RunProblem as problem:
            self._app.notify(str(problem), title=what, severity="error")
        else:
            self.await_answers([number], what)

    def await_answers(self, numbers: Iterable[int], what: str) -> None:
        """Report the answers to these commands when they come."""
        self._commands |= dict.fromkeys(numbers, what)

    def _report_answers(self, attached: AttachedRun) -> None:
        for number, what in list(self._commands.items()):
            try:
                asked = attached.answer_to(number)
            except RunProblem as problem:
                del self._commands[number]
                self._app.notify(str(problem), title=what, severity="error")
                continue
            if (answer := asked.answer) is None:
                continue
            del self._commands[number]
            severity: SeverityLevel = "information" if answer.accepted else "error"
            self._app.notify(answer.words, title=what, severity=severity)
            if answer.accepted and isinstance(asked.command, Add):
                self._app.run_worker(self._write_rollback(attached), exit_on_error=False)

    async def _write_rollback(self, attached: AttachedRun) -> None:
        """Rewrite the rollback plan, so that it includes the partitions of an extra plan."""
        try:
            await asyncio.to_thread(rewrite_rollback, attached.folder)
        except RunProblem as problem:
            self._app.notify(str(problem), severity="warning")

    def may_change(self) -> AttachedRun | None:
        """Return the run if commands may be sent to it; else notify why not."""
        attached = self.attached
        if attached is None:
            problem: str | None = messages.NO_RUN
        else:
            problem = self._permission.problem or messages.why_unchangeable(attached.status)
        if problem is not None:
            self._app.notify(problem, severity="warning")
            return None
        return attached

    # -------------------------------------------------------------------- actions

    async def show_limits(self) -> None:
        """Open the Limits screen."""
        await self._open(LimitsScreen(write=self._permission.write))

    async def show_throttle(self) -> None:
        """Open the Throttle screen."""
        await self._open(ThrottleScreen(write=self._permission.write))

    async def _open(self, screen: LimitsScreen | ThrottleScreen) -> None:
        if self.attached is None:
            self._app.notify(messages.NO_RUN, severity="warning")
            return
        await self._app.push_screen(screen)
        screen.show_run(self.attached, set())

    def pause(self) -> None:
        """Pause the run, or continue it, once the operator has confirmed."""
        attached = self.may_change()
        if attached is None:
            return
        status, paused = attached.status, bool(attached.run.pauses.whole)
        title = f"Let run {status.name} go on?" if paused else f"Pause run {status.name}?"
        command: Command = Continue() if paused else Pause()
        what = f"continue {status.name}" if paused else f"pause {status.name}"

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the screen's answer
            if yes:
                self.ask(command, what)

        words = messages.pause_consequences(status, paused=paused)
        self._app.push_screen(ConfirmScreen(title, words), answered)

    def pause_partition(self, tp: TopicPartition | None) -> None:
        """Pause a partition of the run, or continue it."""
        attached = self.may_change()
        if attached is None:
            return
        run = attached.run
        if tp is None or tp not in run.tracks:
            words = "There is no partition of the run under the cursor."
            self._app.notify(words, severity="warning")
        elif tp in run.pauses.partitions:
            self.ask(Continue(partitions=(tp,)), f"continue {tp}")
        else:
            self.ask(Pause(partitions=(tp,)), f"pause {tp}")
