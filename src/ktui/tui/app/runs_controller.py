"""What the app does with the runs there are: it finds them, lists them, and has them carried on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ktui.cluster.clock import Clock
from ktui.execution.engine.add_plan import Extra
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.progress.timeline import Progress
from ktui.tui.app.run_controller import RunApp
from ktui.tui.run_view import messages
from ktui.tui.run_view.attachment import unfinished
from ktui.tui.run_view.launchers import Engines
from ktui.tui.screens.insights import InsightsScreen
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.plan import OtherWay, PlanOutcome, PlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.run.resume_offer import OfferScreen, ResumeChoice
from ktui.tui.screens.runs import RunsScreen


class RunsApp(RunApp):
    """The part of the app that is about all runs.

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
        super().__init__(clock=clock, write=write)
        self.state_dir, self.engines = state_dir, engines
        self._first_run = None if run is None else RunDir(run)
        self._offered = False

    def begin_with_run(self) -> None:
        """Attach to the run that was named at the start."""
        if self._first_run is not None:
            self.run_worker(self.attach(self._first_run), group="attach", exit_on_error=False)

    async def attach(self, folder: RunDir) -> None:
        """Attach the view to a run, and show it; none is offered any more."""
        self._offered = True
        await super().attach(folder)

    def refresh_run(self, progress: Progress) -> None:
        """Read what is new of the run, and see whether there are others to be told of."""
        super().refresh_run(progress)
        self._offer(progress)
        self._look_for_newcomers(self.cluster_id)

    async def action_show_runs(self) -> None:
        """Show all runs there are."""
        if self.state_dir is None:
            self.tell("No state directory is known here, so no runs are.", severity="warning")
        else:
            place, problem = self.place_of_runs(self.state_dir), self.resume_problem()
            await self.push_screen(RunsScreen(self.state_dir, place=place, may_resume=problem))

    def place_of_runs(self, state_dir: StateDir) -> str:
        """Say where the runs are."""
        return str(state_dir.path)

    async def action_show_insights(self) -> None:
        """Show what earlier runs tell of this cluster."""
        if self.state_dir is None:
            self.tell("No state directory is known here, so no insights are.", severity="warning")
        else:
            await self.push_screen(InsightsScreen(self.state_dir, self.cluster_id))

    def resume_problem(self) -> str | None:
        """Say why nothing can be started or resumed from here; None if it can."""
        if not self.write:
            return self.read_only_words
        return None if self.engines is not None else messages.NO_ENGINES

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
        """Choose a plan: for the run that is shown, if it is live, else for a run of its own."""
        await self._choose_plan(adds=True)

    async def _choose_plan(self, *, adds: bool, path: str = "") -> None:
        """Open the screen on which a plan is chosen, looked at, and added or started.

        Args:
            adds: whether it is to be added, where the run that is shown takes plans.
            path: its file, where it was typed before.
        """
        engines, state_dir, problem = self.engines, self.state_dir, self.resume_problem()
        if problem is not None or engines is None or state_dir is None:
            self.tell(problem or messages.NO_ENGINES, severity="warning")
            return
        attached = self.attached
        takes = attached is not None and attached.status.owned
        screen: PlanScreen
        if attached is not None and takes and adds:
            screen = AddScreen(engines, state_dir, attached, path=path)
        else:
            taker = attached.name if attached is not None and takes else ""
            screen = StartScreen(engines, state_dir, taker=taker, path=path)

        def decided(outcome: PlanOutcome | None) -> None:
            if isinstance(outcome, OtherWay):
                other = self._choose_plan(adds=not adds, path=outcome.path)
                self.run_worker(other, group="choosing", exit_on_error=False)
            elif isinstance(outcome, Extra):
                self.run_worker(self._add(outcome), group="asking", exit_on_error=False)
            elif outcome is not None:
                self.run_worker(self.attach(outcome), group="attach", exit_on_error=False)

        await self.push_screen(screen, decided)

    async def _add(self, extra: Extra) -> None:
        """Have the process that carries the run on take an extra plan in."""
        what = f"add {extra.name}"
        self.tell(f"It is asked of run {extra.run.name} …", title=what)
        await self.ask_for(await asyncio.to_thread(extra.command), what)

    def _look_for_newcomers(self, cluster_id: str | None) -> None:
        """While no live run is shown, see whether one has come, and tell of it."""
        if not self._offered or self.state_dir is None or cluster_id is None:
            return
        if {"attach", "starting", "newcomers"} & {w.group for w in self.workers}:
            return
        if self.desk.idle and not isinstance(self.screen, PlanScreen):
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

            def chosen(choice: ResumeChoice | None) -> None:
                if choice is ResumeChoice.RESUME:
                    self.resume(run)
                elif choice is ResumeChoice.LOOK:
                    self.run_worker(self.attach(run), group="attach", exit_on_error=False)

            await self.push_screen(OfferScreen(waiting, problem), chosen)
