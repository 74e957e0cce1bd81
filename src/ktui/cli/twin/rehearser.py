"""Twins in the view: plans are rehearsed on them, and anything may happen to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from ktui.cli.twin.report import Report, rehearsal_text
from ktui.cli.twin.snapshot import twin_notes
from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.inputfile import FileProblem
from ktui.planning.plan import Plan
from ktui.quantities import as_duration
from ktui.rehearsal.faults import FAULT_VERBS, Fault, FaultProblem
from ktui.rehearsal.play import LiveRehearsal
from ktui.rehearsal.twin import Pace, twin_of
from ktui.rehearsal.twins import RehearsedTwin, Thresholds, check, rehearse_in_background
from ktui.simulated.twin.make import CannotSnapshot, ClusterTwin
from ktui.tui.run_view.launchers import BadCommand, RehearsedPlan

T = TypeVar("T")


async def on_own_loop(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, in a thread; cancelling this cancels it."""
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    called_off = threading.Event()

    async def work() -> T:
        task = asyncio.current_task()
        if task is not None:
            running.append((asyncio.get_running_loop(), task))
        if called_off.is_set():
            raise asyncio.CancelledError
        return await make()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(work())))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        called_off.set()
        for loop, task in running:
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.gather(thread, return_exceptions=True)
        raise


class ShownTwin:
    """Takes what is to happen to the twin of the view."""

    def __init__(self, on_stage: LiveRehearsal) -> None:
        self.on_stage = on_stage

    @property
    def verbs(self) -> Sequence[str]:
        return FAULT_VERBS

    def check(self, event: str) -> None:
        try:
            self.on_stage.parse(event)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None

    def let_happen(self, event: str) -> str:
        try:
            fault = self.on_stage.let_happen(event)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None
        return f"{fault.text}: {_when(fault, self.on_stage.now_s)}"

    @property
    def outcome(self) -> str:
        return self.on_stage.outcome


def _when(fault: Fault, now_s: float) -> str:
    if fault.at.share is not None:
        return f"it happens at {fault.at.share:.0%} of the work"
    after_s = fault.at.after_s or 0.0
    return f"it happens in {as_duration(after_s - now_s)}" if after_s > now_s else "it has happened"


TakeTwin = Callable[[Plan], Awaitable[ClusterTwin]]


class ClusterRehearser:
    """Rehearses plans on twins of one cluster, in processes of their own.

    The snapshot for a plan is kept, so that one may try other limits without another measurement.
    """

    def __init__(self, name: str, take: TakeTwin, *, measure_s: float, clock: Clock) -> None:
        self._name, self._take, self._measure_s, self._clock = name, take, measure_s, clock
        self._taken: tuple[Plan, ClusterTwin] | None = None

    async def rehearse(
        self, wanted: NewRun, progress: Callable[[str], None], *, anew: bool
    ) -> RehearsedPlan:
        """Take a snapshot of the cluster, and rehearse a plan on its twins; nothing is sent.

        Cancelling this ends it.

        Args:
            wanted: the run as it would be started.
            progress: is called with what is being done, in words.
            anew: whether to take another snapshot, although the last one is of this plan.

        Raises:
            RunProblem: the plan cannot be rehearsed; the text has the reason.
            ClusterError: the cluster cannot be read.
        """
        options = msgspec.structs.replace(wanted.options, record=False)
        if (problem := options.figure_problem(options.throttle.objective)) is not None:
            raise RunProblem(problem)
        taken = await self._snapshot(wanted.plan, progress, anew=anew)
        twin = twin_of(self._name, taken.spec, taken.info)
        over: list[Pace] = []

        def finished(pace: Pace | None = None) -> None:
            over.extend(() if pace is None else (pace,))
            paces = (f"{each}{' (done)' if each in over else ''}" for each in twin.paces)
            progress(f"playing the plan on its twins: {', '.join(paces)}")

        finished()
        prepared, twins = await rehearse_in_background(
            msgspec.structs.replace(wanted, options=options),
            twin,
            start=self._clock.now(),
            finished=finished,
        )
        if not twins:
            why = (
                "; ".join(each.sentence for each in prepared.preview.problems)
                or "there is nothing to do"
            )
            raise RunProblem(f"nothing was rehearsed: {why}")
        report = Report(
            plan=clean(wanted.plan_name),
            twin=twin,
            given_rate=False,
            findings=prepared.preview.findings,
            twins=twins,
            checks=check(twins, Thresholds()),
        )
        return RehearsedPlan(
            report="\n".join([rehearsal_text(report, colours=False), "", *_notes(taken)]),
            time=_time(twins),
            holds=report.holds,
        )

    async def _snapshot(
        self, plan: Plan, progress: Callable[[str], None], *, anew: bool
    ) -> ClusterTwin:
        """Return the last snapshot if it is of this plan, else a new one."""
        if self._taken is not None and self._taken[0] == plan and not anew:
            return self._taken[1]
        measures = f", and measuring for {as_duration(self._measure_s)} what producers write"
        progress(f"reading the cluster{measures if self._measure_s else ''}")
        try:
            taken = await self._take(plan)
        except (CannotSnapshot, FileProblem) as problem:
            raise RunProblem(str(problem)) from None
        self._taken = plan, taken
        return taken


def _notes(taken: ClusterTwin) -> list[str]:
    at = f"{taken.info.taken.astimezone():%H:%M:%S}"
    return [f"the twins are those of a snapshot taken at {at}", *map(clean, twin_notes(taken))]


def _time(twins: Sequence[RehearsedTwin]) -> str:
    times = {each.pace: _shown(each) for each in twins}
    if len(times) == 1:
        return times[Pace.USUAL]
    return f"{times[Pace.USUAL]} ({times[Pace.FAST]} to {times[Pace.SLOW]})"


def _shown(twin: RehearsedTwin) -> str:
    shown = as_duration(twin.summary.time_s)
    return shown if twin.summary.complete else f"> {shown}"
