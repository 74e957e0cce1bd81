"""Runs that are started and resumed from the live view: each gets a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ktui.cli.context.claim import claiming, refuse_another
from ktui.cli.context.cluster import Cluster
from ktui.cli.doctor.permissions import permission_findings
from ktui.cli.process.launch import Launch, begin, take_up
from ktui.cli.watch.cancel_foreign import cancel_one
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import ClusterPorts, ClusterReader
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.errors import RunProblem
from ktui.execution.host.launch import NewRun, prepare
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Started
from ktui.pacing.limits import Limits, default_limits, parse_limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.measure_growth import measure_inbound
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan


class ProcessEngines:
    """Starts engines as `ktui start` and `ktui resume` do.

    Args:
        cluster: the one that the view is on, and what runs begin with there.
        reader: of that cluster.
        names: how it is named on a command line.
        state: where runs are remembered.
    """

    def __init__(
        self,
        cluster: Cluster,
        reader: ClusterReader,
        names: Mapping[str, str],
        state: StateDir,
    ) -> None:
        self._cluster, self._reader, self._names, self._state = cluster, reader, names, state
        self._context = cluster.context

    def limits(self, brokers: int) -> Limits:
        """Give the limits of a run that names none."""
        return parse_limits(self._context.limits, default_limits(brokers))

    async def look(self, plan: Plan) -> ClusterSnapshot:
        """Look at what a plan is about."""
        return await take_snapshot(self._reader, plan)

    @property
    def throttle(self) -> str:
        """The context's throttle; empty for none."""
        return "" if self._context.throttle is None else str(self._context.throttle)

    async def measured(self, plan: Plan, seen: ClusterSnapshot) -> ClusterSnapshot:
        """Add to a look what a throttle is held against, which takes some seconds."""
        return await measure_inbound(self._reader, plan, seen, SystemClock())

    async def start(self, wanted: NewRun) -> RunDir:
        """Start a run; it is owned by a process of its own when this returns.

        Raises:
            RunProblem: it was not started, and nothing was sent.
            ClusterError: the cluster cannot be asked.
        """
        seen = await self.look(wanted.plan)
        lacking = await permission_findings(
            self._cluster, wanted.plan, throttled=bool(wanted.throttle), starts=True
        )
        cluster_id = await self._cluster_id()
        first = prepare(
            wanted,
            seen,
            wanted.options,
            cluster_id=cluster_id,
            connection=self._names,
            found=lacking,
        )
        launch = self._launch(wanted.name, cluster_id, concurrent=wanted.concurrent)
        engine = await asyncio.to_thread(begin, launch, first)
        return engine.run

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        """Have a process go on with a run.

        Raises:
            RunProblem: it is of another cluster, owned already, or cannot be read.
            ClusterError: the cluster cannot be asked.
        """
        cluster_id = await self._cluster_id()
        begun = await asyncio.to_thread(_begun, run)
        if begun.cluster_id != cluster_id:
            raise RunProblem(
                f"run {run.name} is of cluster {begun.cluster_id}, and this view is on {cluster_id}"
            )
        launch = self._launch(run.name, cluster_id, only_ends=ask is not None)
        await asyncio.to_thread(take_up, launch, *(() if ask is None else (ask,)))

    async def cancel_foreign(self, move: ListedReassignment) -> Settled:
        """Cancel a reassignment that no run has begun, and give what became of it.

        Raises:
            RunRefused: another state directory owns the cluster: it may be of one of its runs.
        """
        how = claiming(self._cluster, self._state, await self._cluster_id(), "")
        if how is not None:
            await refuse_another(how)
        writer = self._cluster.writer()
        try:
            ways = ClusterPorts(self._reader, writer)
            return await cancel_one(ways, self._state, SystemClock(), move)
        finally:
            await writer.aclose()

    async def _cluster_id(self) -> str:
        return (await self._reader.describe_cluster()).cluster_id

    def _launch(
        self, name: str, cluster_id: str, *, concurrent: bool = False, only_ends: bool = False
    ) -> Launch:
        return Launch(
            state=self._state,
            name=name,
            cluster_id=cluster_id,
            names=self._names,
            until=None,
            concurrent=concurrent,
            owner=claiming(self._cluster, self._state, cluster_id, name, only_ends=only_ends),
        )


def _begun(run: RunDir) -> Started:
    with Journal.open(run.journal, SystemClock(), read_only=True) as journal:
        first = journal.first()
    if first is None or not isinstance(first.event, Started):
        raise RunProblem(f"{run.journal}: its start was cut off, and nothing was sent")
    return first.event
