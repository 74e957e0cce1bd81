"""What the app does with the run that it is attached to: it follows it, and asks things of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.resources import SettingKey
from ktui.execution.errors import RunProblem
from ktui.execution.host.rollback_plan import write_rollback_anew
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Add, Command, Continue, Pause
from ktui.fileproblem import FileProblem
from ktui.progress.timeline import Progress
from ktui.tui.app.notifications import NewsApp
from ktui.tui.poll.backfill import history
from ktui.tui.poll.requested_replicas import informed
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun, RunStatus
from ktui.tui.run_view.attachment import RunDesk
from ktui.tui.screens.run.confirm import ConfirmScreen
from ktui.tui.screens.run.limits import LimitsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.services import ShowsRun


class RunApp(NewsApp):
    """The part of the app that is about the run that is shown.

    Args:
        clock: time.
        write: whether the operator may change anything from here.
    """

    def __init__(self, *, clock: Clock, write: bool) -> None:
        super().__init__()
        self.clock = clock
        self.write = write
        self.why_read_only: str | None = None
        """Why nothing may be changed from here, where the usual words would not be true."""
        self.desk = RunDesk(clock)
        self._commands: dict[int, str] = {}
        """Those asked for and not answered yet, and what each is called."""

    @property
    def read_only_words(self) -> str:
        """What is told where nothing may be changed from here."""
        return self.why_read_only or messages.READ_ONLY

    @property
    def attached(self) -> AttachedRun | None:
        """The run that the view is attached to."""
        return self.desk.attached

    @property
    def run_status(self) -> RunStatus | None:
        """How that run is."""
        return None if self.attached is None else self.attached.status

    async def attach(self, folder: RunDir) -> None:
        """Attach the view to a run, and show it."""
        try:
            touched = await self.desk.attach(folder)
        except RunProblem as problem:
            self.tell(str(problem), severity="error")
            return
        if problem_words := self._elsewhere():
            self.desk.detach()
            self.tell(problem_words, severity="error")
            touched = set()
        self.hand_out_run(touched)
        self.screen.refresh_bindings()
        self.show_again()
        if self.attached is not None:
            self.run_worker(self._recall(self.attached), group="recall", exit_on_error=False)

    async def _recall(self, attached: AttachedRun) -> None:
        """Take in what was recorded of the run before."""
        try:
            past = await asyncio.to_thread(history, attached.folder, self.clock)
        except (FileProblem, RunProblem) as problem:
            words = f"What was seen of run {attached.name} before is not shown: {problem}"
            self.tell(words, severity="warning")
            return
        if past is not None and attached is self.attached:
            self.begin_with(past)

    def begin_with(self, past: Progress) -> None:
        """Take what was seen before as what this view begins with."""
        raise NotImplementedError

    def _elsewhere(self) -> str:
        """Say that the run is not of the cluster that is seen; empty where it is."""
        attached, seen = self.attached, self.cluster_id
        begun = None if attached is None else attached.run.started
        if attached is None or begun is None or seen in (None, begun.cluster_id):
            return ""
        return f"Run {attached.name} is of cluster {begun.cluster_id}; this view is on {seen}."

    @property
    def cluster_id(self) -> str | None:
        """The cluster that is seen; None until it was."""
        raise NotImplementedError

    def show_again(self) -> None:
        """Hand every screen what is known."""
        raise NotImplementedError

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have settings that the run has changed read again in the next look."""
        raise NotImplementedError

    def hand_out_run(self, touched: set[TopicPartition]) -> None:
        """Hand the run to every screen that draws it."""
        for screen in self.screen_stack:
            if isinstance(screen, ShowsRun):
                screen.show_run(self.attached, touched)

    def refresh_run(self, progress: Progress) -> None:
        """Read what is new of the run, and what became of what was asked of it."""
        touched = self.desk.refresh(progress)
        if self.attached is not None:
            self.hand_out_run(touched)
            self._tell_answers(self.attached)
            self.settings_changed(*self.attached.throttle_news.changed())

    def informed(self, progress: Progress) -> Progress:
        """Give what was seen with what the run has asked for."""
        return progress if self.attached is None else informed(progress, self.attached.run)

    @property
    def throttles_of_run(self) -> Mapping[SettingKey, frozenset[str]]:
        """What the run has set of throttles, by setting."""
        run = None if self.attached is None else self.attached.run
        if run is None or run.ended:
            return {}
        return {key: ours.values for key, ours in run.throttled.ours.items()}

    def ask(self, command: Command, what: str) -> None:
        """Ask something of the process that owns the run; its answer is told when it comes."""
        self.run_worker(self.ask_for(command, what), group="asking", exit_on_error=False)

    async def ask_for(self, command: Command, what: str) -> None:
        """Write down what is asked of the run; its answer is told when it comes."""
        attached = self.attached
        if attached is None:
            return
        try:
            number = await asyncio.to_thread(attached.ask, command)
        except RunProblem as problem:
            self.tell(str(problem), title=what, severity="error")
        else:
            self.await_answers([number], what)

    def await_answers(self, numbers: Iterable[int], what: str) -> None:
        """Tell the answers to commands, once they are there."""
        self._commands |= dict.fromkeys(numbers, what)

    def _tell_answers(self, attached: AttachedRun) -> None:
        for number, what in list(self._commands.items()):
            try:
                asked = attached.answer_to(number)
            except RunProblem as problem:
                del self._commands[number]
                self.tell(str(problem), title=what, severity="error")
                continue
            if (answer := asked.answer) is None:
                continue
            del self._commands[number]
            severity = "information" if answer.accepted else "error"
            self.tell(answer.words, title=what, severity=severity)
            if answer.accepted and isinstance(asked.command, Add):
                self.run_worker(self._write_way_back(attached), exit_on_error=False)

    async def _write_way_back(self, attached: AttachedRun) -> None:
        """Put what an extra plan brought into the plan that leads back."""
        try:
            await asyncio.to_thread(write_rollback_anew, attached.folder)
        except RunProblem as problem:
            self.tell(str(problem), severity="warning")

    def may_change(self, status: RunStatus | None) -> RunStatus | None:
        """Give the run if something may be asked of it now; else tell why not."""
        if status is None:
            problem: str | None = messages.NO_RUN
        else:
            problem = messages.unchangeable(status) if self.write else self.read_only_words
        if problem is not None:
            self.tell(problem, severity="warning")
            return None
        return status

    async def action_show_limits(self) -> None:
        """Show the limits of the run, to change them."""
        status = self.run_status
        if status is None or self.attached is None:
            self.tell(messages.NO_RUN, severity="warning")
            return
        screen = LimitsScreen(write=self.write)
        await self.push_screen(screen)
        screen.show_run(self.attached, set())

    async def action_show_throttle(self) -> None:
        """Show the throttle of the run, to change it."""
        if self.attached is None:
            self.tell(messages.NO_RUN, severity="warning")
            return
        screen = ThrottleScreen(write=self.write)
        await self.push_screen(screen)
        screen.show_run(self.attached, set())

    def action_pause(self) -> None:
        """Pause the run, or let it go on, once the operator has said yes."""
        status = self.may_change(self.run_status)
        if status is None or self.attached is None:
            return
        paused = bool(self.attached.run.pauses.whole)
        title = f"Let run {status.name} go on?" if paused else f"Pause run {status.name}?"
        command: Command = Continue() if paused else Pause()
        what = f"continue {status.name}" if paused else f"pause {status.name}"

        words = messages.pausing(status, paused=paused)

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the screen's answer
            if yes:
                self.ask(command, what)

        self.push_screen(ConfirmScreen(title, words), answered)

    def pause_partition(self, tp: TopicPartition | None) -> None:
        """Pause a partition of the run, or let it go on."""
        status = self.may_change(self.run_status)
        if status is None or self.attached is None:
            return
        run = self.attached.run
        if tp is None or tp not in run.tracks:
            self.tell("There is no partition of the run under the cursor.", severity="warning")
        elif tp in run.pauses.partitions:
            self.ask(Continue(partitions=(tp,)), f"continue {tp}")
        else:
            self.ask(Pause(partitions=(tp,)), f"pause {tp}")
