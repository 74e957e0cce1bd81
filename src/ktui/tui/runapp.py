"""What the app does with runs: it follows one, asks things of it, and has others started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from textual.app import App

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.execution.commands import Answer, Command, Continue, Pause
from ktui.execution.problem import RunProblem
from ktui.execution.statedir import RunDir, StateDir
from ktui.progress.timeline import Progress
from ktui.tui import run_sentences
from ktui.tui.runs.attached import AttachedRun, RunStatus
from ktui.tui.runs.desk import RunDesk, unfinished
from ktui.tui.runs.engines import Engines
from ktui.tui.runs.targets import informed
from ktui.tui.screens.confirm import ConfirmScreen
from ktui.tui.screens.limits import LimitsScreen
from ktui.tui.screens.offer import Choice, OfferScreen
from ktui.tui.screens.runs import RunsScreen
from ktui.tui.screens.start import StartScreen


@runtime_checkable
class ShowsRun(Protocol):
    """A screen that draws a run."""

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        """Take in how the run is now, and which partitions stand otherwise than before."""
        ...


class RunApp(App[None]):
    """The part of the app that is about runs.

    Args:
        clock: time.
        write: whether the operator may change anything from here.
        state_dir: where runs are remembered; None for nowhere.
        run: the folder of the run to begin with.
        engines: starts and resumes runs; None where that cannot be done from here.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        write: bool,
        state_dir: StateDir | None,
        run: Path | None,
        engines: Engines | None,
    ) -> None:
        super().__init__()
        self.clock = clock
        self.write, self.state_dir, self.engines = write, state_dir, engines
        self.desk = RunDesk(clock)
        self._first_run = None if run is None else RunDir(run)
        self._offered = False
        self._commands: dict[int, str] = {}
        """Those asked for and not answered yet, and what each is called."""

    @property
    def attached(self) -> AttachedRun | None:
        """The run that the view is attached to."""
        return self.desk.attached

    @property
    def run_status(self) -> RunStatus | None:
        """How that run is."""
        return None if self.attached is None else self.attached.status

    def begin_with_run(self) -> None:
        """Attach to the run that was named at the start."""
        if self._first_run is not None:
            self.run_worker(self.attach(self._first_run), group="attach", exit_on_error=False)

    async def attach(self, folder: RunDir) -> None:
        """Attach the view to a run, and show it."""
        try:
            touched = await self.desk.attach(folder)
        except RunProblem as problem:
            self.tell(str(problem), severity="error")
            return
        self._offered = True
        if problem_words := self._elsewhere():
            self.desk.detach()
            self.tell(problem_words, severity="error")
            touched = set()
        self.hand_out_run(touched)
        self.screen.refresh_bindings()
        self.show_again()

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
        self._offer(progress)
        self._look_for_newcomers(self.cluster_id)

    def informed(self, progress: Progress) -> Progress:
        """Give what was seen with what the run has asked for."""
        return progress if self.attached is None else informed(progress, self.attached.run)

    def tell(self, words: str, **how: Any) -> None:
        """Tell the operator something, as it is."""
        self.notify(words, markup=False, **how)

    def ask(self, command: Command, what: str) -> None:
        """Ask something of the process that owns the run; its answer is told when it comes."""
        self.run_worker(self._ask(command, what), group="asking", exit_on_error=False)

    async def _ask(self, command: Command, what: str) -> None:
        attached = self.attached
        if attached is None:
            return
        try:
            number = await asyncio.to_thread(attached.ask, command)
        except RunProblem as problem:
            self.tell(str(problem), title=what, severity="error")
        else:
            self._commands[number] = what

    def _tell_answers(self, attached: AttachedRun) -> None:
        for number, what in list(self._commands.items()):
            try:
                answer = attached.answer_to(number).answer
            except RunProblem as problem:
                answer = Answer(accepted=False, words=str(problem))
            if answer is not None:
                del self._commands[number]
                severity = "information" if answer.accepted else "error"
                self.tell(answer.words, title=what, severity=severity)

    def may_change(self, status: RunStatus | None) -> RunStatus | None:
        """Give the run if something may be asked of it now; else tell why not."""
        if status is None:
            problem: str | None = run_sentences.NO_RUN
        else:
            problem = run_sentences.unchangeable(status) if self.write else run_sentences.READ_ONLY
        if problem is not None:
            self.tell(problem, severity="warning")
            return None
        return status

    async def action_show_limits(self) -> None:
        """Show the limits of the run, to change them."""
        status = self.run_status
        if status is None or self.attached is None:
            self.tell(run_sentences.NO_RUN, severity="warning")
            return
        screen = LimitsScreen(write=self.write)
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

        words = run_sentences.pausing(status, paused=paused)

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

    async def action_show_runs(self) -> None:
        """Show all runs there are."""
        if self.state_dir is None:
            self.tell("No state directory is known here, so no runs are.", severity="warning")
        else:
            await self.push_screen(RunsScreen(self.state_dir, may_resume=self.resume_problem()))

    def resume_problem(self) -> str | None:
        """Say why nothing can be started or resumed from here; None if it can."""
        if not self.write:
            return run_sentences.READ_ONLY
        return None if self.engines is not None else run_sentences.NO_ENGINES

    def resume(self, run: RunDir) -> None:
        """Have a run gone on with, and show it."""
        problem = self.resume_problem()
        if problem is not None or self.engines is None:
            self.tell(problem or "", severity="warning")
            return
        self.run_worker(self._resume(self.engines, run), group="starting", exit_on_error=False)

    async def _resume(self, engines: Engines, run: RunDir) -> None:
        self.tell(f"Run {run.name} is being taken up …")
        try:
            await engines.resume(run)
        except Exception as error:  # noqa: BLE001 - told as it is; the view goes on
            self.tell(str(error), title=f"resume {run.name}", severity="error")
        await self.attach(run)

    async def action_start_plan(self) -> None:
        """Open the screen on which a plan is chosen, looked at, and started."""
        problem = self.resume_problem()
        if problem is not None or self.engines is None or self.state_dir is None:
            self.tell(problem or run_sentences.NO_ENGINES, severity="warning")
            return

        def started(run: RunDir | None) -> None:
            if run is not None:
                self.run_worker(self.attach(run), group="attach", exit_on_error=False)

        await self.push_screen(StartScreen(self.engines, self.state_dir), started)

    def _look_for_newcomers(self, cluster_id: str | None) -> None:
        """While no live run is shown, see whether one has come, and tell of it."""
        if not self._offered or self.state_dir is None or cluster_id is None:
            return
        if {"attach", "starting", "newcomers"} & {w.group for w in self.workers}:
            return
        if self.desk.idle and not isinstance(self.screen, StartScreen):
            telling = self._tell_newcomers(self.state_dir, cluster_id)
            self.run_worker(telling, group="newcomers", exit_on_error=False)

    async def _tell_newcomers(self, state_dir: StateDir, cluster_id: str) -> None:
        for name in await self.desk.newcomers(state_dir, cluster_id):
            self.tell(f"Run {name} of this cluster is live now; r shows all runs.")

    def _offer(self, progress: Progress) -> None:
        """Once the cluster is known: attach to its live run, or offer one that waits."""
        if self._offered or self.state_dir is None or progress.last is None:
            return
        self._offered = True
        if self._first_run is None:
            offering = self._found(self.state_dir, progress.last.cluster_id)
            self.run_worker(offering, group="attach", exit_on_error=False)

    async def _found(self, state_dir: StateDir, cluster_id: str) -> None:
        try:
            live, waiting = await asyncio.to_thread(unfinished, state_dir, cluster_id)
        except RunProblem as error:
            self.tell(str(error), severity="warning")
            return
        if live:
            more = f" of {len(live)} live ones; r shows all" if len(live) > 1 else ""
            self.tell(f"Attached to run {live[0].name}{more}.")
            await self.attach(state_dir.run(live[0].name))
        elif waiting:
            run, problem = state_dir.run(waiting[0].name), self.resume_problem()

            def chosen(choice: Choice | None) -> None:
                if choice is Choice.RESUME:
                    self.resume(run)
                elif choice is Choice.LOOK:
                    self.run_worker(self.attach(run), group="attach", exit_on_error=False)

            await self.push_screen(OfferScreen(waiting, problem), chosen)
