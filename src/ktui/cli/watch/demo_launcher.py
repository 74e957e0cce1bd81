"""Engines on a simulated cluster: they share the process with the view, and end with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from ktui.cli.output.gate import refuse_shut
from ktui.cli.watch.cancel_foreign import cancel_one
from ktui.cluster.clock import Clock
from ktui.cluster.observer import Observer
from ktui.cluster.ports import ClusterPorts
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.engine.engine import Engine
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.launch import NewRun, make_run, may_begin, prepare
from ktui.execution.host.ownership import LiveRun, Ownership, take
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Owned
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.measure_growth import measure_inbound
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan
from ktui.simulated.cluster import SimulatedCluster


def _nothing() -> None:
    """Ask nothing of a run."""


class SimulatedEngines:
    """Carries runs on as tasks of this process; each owns its run like a process of its own.

    Args:
        cluster: what they change.
        state_dir: where the runs are remembered.
        poll_s: the cluster's seconds between two looks of an engine.
    """

    def __init__(
        self, cluster: SimulatedCluster, state_dir: StateDir, *, poll_s: float = 1.0
    ) -> None:
        self._cluster, self._state_dir, self._poll_s = cluster, state_dir, poll_s
        self._clock: Clock = cluster.clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._engines: list[Engine] = []

    def limits(self, brokers: int) -> Limits:
        """Give the limits of a run that names none."""
        return default_limits(brokers)

    async def look(self, plan: Plan) -> ClusterSnapshot:
        """Look at what a plan is about."""
        return await take_snapshot(self._cluster.reader(), plan)

    throttle = ""
    """No run is throttled that names no rate."""

    async def measured(self, plan: Plan, seen: ClusterSnapshot) -> ClusterSnapshot:
        """Add to a look what a throttle is held against."""
        return await measure_inbound(self._cluster.reader(), plan, seen, self._clock)

    async def start(self, wanted: NewRun) -> RunDir:
        """Start a run.

        Raises:
            RunProblem: the plan has problems, or the run cannot be made.
            ClusterError: the cluster cannot be asked.
        """
        seen = await self.look(wanted.plan)
        cluster_id = (await self._cluster.reader().describe_cluster()).cluster_id
        options = msgspec.structs.replace(
            wanted.options,
            record=False,  # the folder goes with the demo
            poll_s=self._poll_s,
        )
        first = prepare(wanted, seen, options, cluster_id=cluster_id)

        def beside(live: Sequence[LiveRun]) -> None:
            if live and not wanted.concurrent:
                raise RunProblem(f"run {live[0].name} is live on this cluster; wait for its end")
            refuse_shut(self._state_dir, cluster_id, "--cluster")

        throttled, name = bool(wanted.throttle), wanted.name
        with may_begin(self._state_dir, cluster_id, name, throttled=throttled, beside=beside):
            folder = make_run(self._state_dir, name, first, self._clock)
            self._carry_on(folder)
        return folder

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        """Go on with a run.

        Raises:
            RunProblem: it is owned already, or its journal cannot be read.
        """
        self._carry_on(run, ask or _nothing)

    async def cancel_foreign(self, move: ListedReassignment) -> Settled:
        """Cancel a reassignment that no run has begun, and give what became of it."""
        ways = ClusterPorts(self._cluster.reader(), self._cluster.writer())
        return await cancel_one(ways, self._state_dir, self._clock, move)

    def _carry_on(self, folder: RunDir, ask: Callable[[], None] = _nothing) -> None:
        ownership = take(folder)
        try:
            ask()
            journal = Journal.recover(folder.journal, self._clock)
        except BaseException:
            ownership.release()
            raise
        task = asyncio.create_task(self._carried_on(folder, ownership, journal))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carried_on(self, folder: RunDir, ownership: Ownership, journal: Journal) -> None:
        run = Run(folder.name).fold(journal.entries())
        ways = ClusterPorts(self._cluster.reader(), self._cluster.writer())
        observer = Observer(ways.reader, self._clock)
        check = partial(check_one_throttle, self._state_dir, self._cluster.spec.name, run.name)
        gate = CancelGateFile(self._state_dir, self._cluster.spec.name)
        engine = Engine(
            run,
            journal,
            observer,
            ways,
            self._clock,
            check_throttle=check,
            gate_shut=gate.words,
            lost=ownership.lost,
        )
        self._engines.append(engine)
        me = ownership.holder
        try:
            await engine.carry_on(Owned(pid=os.getpid(), host=me.host, user=me.user))
        finally:
            self._engines.remove(engine)
            await observer.aclose()
            journal.close()
            ownership.release()

    async def aclose(self) -> None:
        """Have every run left; raises what went wrong with any."""
        for engine in self._engines:
            engine.leave("the view was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
