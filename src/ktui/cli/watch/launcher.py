"""Start and resume runs from the live view; each gets an engine process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cached_property

import msgspec

from ktui.cli.context.claim import CORDON_CLAIM, check_no_other_owner, claim_request
from ktui.cli.context.cluster import Cluster
from ktui.cli.doctor.permissions import find_missing_for_throttle
from ktui.cli.options.limits import unnamed_limits
from ktui.cli.options.outward import with_event_command
from ktui.cli.output.cluster_facts import Standing, fact_reader
from ktui.cli.process.launch import Launch, launch_left_run, launch_new_run
from ktui.cli.twin.rehearser import on_own_loop
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.cancel.foreign import ListedReassignment, Settled
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import NewRun, prepare_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import Started
from ktui.execution.run.run import Run
from ktui.kafka.reader import KafkaReader
from ktui.ops.cancel import cancel_foreign
from ktui.ops.preview import FactReader
from ktui.pacing.limits import Limits
from ktui.planning.intents.layout import LayoutAnswer, read_layout
from ktui.planning.throttle_rates import ThrottleRates
from ktui.tui.run_view.launchers import PlanRehearser


class ProcessEngines:
    """Starts engines as `ktui start` and `ktui resume` do.

    Args:
        cluster: the cluster of the view, with the context for new runs.
        reader: reads that cluster.
        names: the options that name the cluster on a command line.
        state: the state directory of the runs.
    """

    def __init__(
        self,
        cluster: Cluster,
        reader: KafkaReader,
        names: Mapping[str, str],
        state: StateDir,
    ) -> None:
        self._cluster, self._reader, self._names, self._state = cluster, reader, names, state
        self._context = cluster.context

    @cached_property
    def rehearser(self) -> PlanRehearser:
        # slow to import, and only a plan needs it
        from ktui.cli.twin.rehearser import ClusterRehearser  # noqa: PLC0415
        from ktui.cli.twin.snapshot import TwinReading, take_cluster_twin  # noqa: PLC0415

        cluster, state, reading = self._cluster, self._state, TwinReading()
        return ClusterRehearser(
            cluster.name,
            lambda plan: on_own_loop(lambda: take_cluster_twin(cluster, plan, reading, state)),
            measure_s=reading.measure_s,
            clock=SystemClock(),
        )

    def limits(self, named: Mapping[str, object]) -> Limits:
        return unnamed_limits(self._context.limits, named)

    @property
    def facts(self) -> FactReader:
        standing = Standing(
            state=self._state,
            names=self._names,
            claim=lambda cluster_id: claim_request(self._cluster, self._state, cluster_id, ""),
        )
        return fact_reader(self._cluster, self._reader, self._state, standing)

    @property
    def throttle(self) -> str:
        return "" if self._context.throttle is None else str(self._context.throttle)

    @property
    def canary(self) -> bool:
        return self._context.canary

    async def read_layout(self) -> LayoutAnswer:
        return await read_layout(self._reader)

    async def check_throttle(self, run: Run, rates: ThrottleRates) -> None:
        """Check that a run's principal may set a throttle, and measure its objective.

        The run's engine sets it. So nothing is refused where that may be somebody else.

        Raises:
            RunRefused: a permission is missing; names it.
        """
        if run.started is None or run.started.connection != self._names:
            return
        with suppress(ClusterError):  # the engine finds out, and answers
            missing = await find_missing_for_throttle(run, self._cluster, rates)
            if missing:
                raise RunRefused("; ".join(finding.sentence for finding in missing))

    async def start(self, wanted: NewRun) -> RunDir:
        options = wanted.options
        canary = options.canary_of(wanted.name, options.throttle)
        reader = fact_reader(self._cluster, self._reader, self._state, None)
        facts = await reader.read(wanted.plan, canary=canary)
        cluster_id = facts.cluster_id
        options = with_event_command(options, self._context.on_event)
        new = msgspec.structs.replace(wanted, options=options)
        first = prepare_run(new, facts, connection=self._names)
        launch = self._launch(wanted.name, cluster_id, concurrent=wanted.concurrent)
        engine = await asyncio.to_thread(launch_new_run, launch, first)
        return engine.run

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        cluster_id = await self._cluster_id()
        begun = await asyncio.to_thread(_begun, run)
        if begun.cluster_id != cluster_id:
            raise RunProblem(
                f"run {run.name} belongs to cluster {begun.cluster_id}, but this view is on "
                f"{cluster_id}"
            )
        launch = self._launch(run.name, cluster_id, only_ends=ask is not None)
        await asyncio.to_thread(launch_left_run, launch, *(() if ask is None else (ask,)))

    async def cancel_foreign(
        self, moves: Collection[ListedReassignment]
    ) -> Mapping[TopicPartition, Settled]:
        claim = claim_request(self._cluster, self._state, await self._cluster_id(), "")
        if claim is not None:
            await check_no_other_owner(claim)
        async with aclosing(self._cluster.writer()) as writer:
            ports = ClusterPorts(self._reader, writer)
            return await cancel_foreign(ports, self._state, SystemClock(), moves)

    @asynccontextmanager
    async def ports(self) -> AsyncIterator[ClusterPorts]:
        """Open the ports for a change that is no run's.

        Raises:
            RunRefused: another state directory owns the cluster; nothing was sent.
            ClusterError: the cluster does not answer.
        """
        claim = claim_request(self._cluster, self._state, await self._cluster_id(), CORDON_CLAIM)
        if claim is not None:
            await check_no_other_owner(claim)
        async with aclosing(self._cluster.writer()) as writer:
            yield ClusterPorts(self._reader, writer)

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
            owner=claim_request(self._cluster, self._state, cluster_id, name, only_ends=only_ends),
        )


def _begun(run: RunDir) -> Started:
    first = RunClient(run).first_entry()
    if first is None or not isinstance(first.event, Started):
        raise RunProblem(
            f"{run.journal}: the start of the run was cut off, and nothing was sent. Start its "
            "plan again, with another --name"
        )
    return first.event
