"""All runs: how they are found, listed, started and resumed."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.worker import WorkType

from ktui.execution import RunProblem
from ktui.execution.engine.add_plan import CheckedExtraPlan
from ktui.execution.forecast.run_progress import live_and_resumable
from ktui.execution.host.ownership import live_runs
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.tui.app.run_controller import Controller
from ktui.tui.run_view import messages
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_request import PlanRequest
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.plan import PlanOutcome, PlanScreen, SwitchPlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.questions import ResumeChoice, ResumeOfferScreen
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
