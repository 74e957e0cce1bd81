"""Run engines on a simulated cluster, in the view's own process; they end with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial

import msgspec

from ktui.cli.output.gate import check_gate_open, gate_findings
from ktui.cluster.clock import Clock, PausableClock
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.broker.cordon import BrokerAccess
from ktui.execution.cancel.foreign import ListedReassignment, Settled
from ktui.execution.engine.engine import Engine
from ktui.execution.errors import RunProblem
from ktui.execution.host.cancel_gate import CancelGateFile
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.figures import CanaryFigure
from ktui.execution.host.launch import NewRun, make_run, prepare_run, reserve_start
from ktui.execution.host.operator_command import WhileCommand
from ktui.execution.host.ownership import LiveRun, Ownership, own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Owned
from ktui.execution.run.options import USUAL_POLL_S
from ktui.execution.run.run import Run
from ktui.ops.cancel import cancel_foreign
from ktui.ops.preview import FactReader, Permits
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Finding
from ktui.planning.intents.layout import LayoutAnswer, read_layout
from ktui.planning.throttle_rates import ThrottleRates
from ktui.progress.timeline import Timeline
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.producers import Producers
from ktui.tui.run_view.launchers import PlanRehearser

ENGINE_POLLS = 10.0
"""The most polls of an engine in one real second."""


class UnhurriedClock:
    """A clock by which nobody wakes too often in real time, however fast it runs."""

    def __init__(self, clock: PausableClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(max(seconds, self._clock.speed / ENGINE_POLLS))


def _nothing() -> None:
    """Request nothing from a run."""


class SimulatedEngines:
    """Runs engines as tasks of this process; each owns its run as a separate process would.

    Args:
        cluster: the cluster that the engines change.
        state_dir: the state directory of the runs.
        clock: the cluster's clock, where it may run at any speed.
    """

    def __init__(
        self, cluster: SimulatedCluster, state_dir: StateDir, clock: PausableClock | None = None
    ) -> None:
        self._cluster, self._state_dir = cluster, state_dir
        self._clock: Clock = cluster.clock if clock is None else UnhurriedClock(clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._engines: list[Engine] = []

    def limits(self, named: Mapping[str, object]) -> Limits:
        return default_limits(named)

    @property
    def facts(self) -> FactReader:
        async def standing(cluster_id: str) -> tuple[Finding, ...]:
            return gate_findings(self._state_dir, cluster_id, "--cluster")

        return FactReader(
            reader=self._cluster.reader(),
            state=self._state_dir,
            clock=self._clock,
            cluster=self._cluster.spec.name,
            permits=self.permits,
            standing=standing,
        )

    permits: Permits | None = None
    """Nobody to ask: simulated brokers let anybody do anything."""
    throttle = ""
    """The default throttle: none."""
    canary = True
    """The default: simulated producers measure an objective."""
    rehearser: PlanRehearser | None = None
    """Nothing: what would be rehearsed here is simulated already."""

    async def read_layout(self) -> LayoutAnswer:
        return await read_layout(self._cluster.reader())

    async def check_throttle(self, run: Run, rates: ThrottleRates) -> None:
        """Allow everything: simulated brokers let anybody set a throttle."""

    async def start(self, wanted: NewRun) -> RunDir:
        facts = await msgspec.structs.replace(self.facts, standing=None).read(wanted.plan)
        cluster_id = facts.cluster_id
        options = msgspec.structs.replace(
            wanted.options,
            record=False,  # the demo deletes the folder at its end
            poll_s=USUAL_POLL_S,
            canary=True,  # an objective may be set at any time, and has no other figure here
        )
        first = prepare_run(msgspec.structs.replace(wanted, options=options), facts)

        def check_live(live: Sequence[LiveRun]) -> None:
            if live and not wanted.concurrent:
                raise RunProblem(f"run {live[0].name} is live on this cluster. Wait for its end")
            check_gate_open(self._state_dir, cluster_id, "--cluster")

        throttled, name = bool(options.throttle), wanted.name
        with reserve_start(
            self._state_dir, cluster_id, name, throttled=throttled, beside=check_live
        ):
            folder = make_run(self._state_dir, name, first, self._clock)
            self.launch(folder)
        return folder

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        self.launch(run, ask or _nothing)

    async def cancel_foreign(
        self, moves: Collection[ListedReassignment]
    ) -> Mapping[TopicPartition, Settled]:
        ports = ClusterPorts(self._cluster.reader(), self._cluster.writer())
        return await cancel_foreign(ports, self._state_dir, self._clock, moves)

    @property
    def brokers(self) -> BrokerAccess:
        """Reads and cordons brokers."""
        return BrokerAccess(self._cluster.reader(), self._clock, self._ports)

    @asynccontextmanager
    async def _ports(self) -> AsyncIterator[ClusterPorts]:
        yield ClusterPorts(self._cluster.reader(), self._cluster.writer())

    def launch(self, folder: RunDir, ask: Callable[[], None] = _nothing) -> None:
        """Start the engine of a run that has been made, after `ask` has written its commands.

        Raises:
            RunProblem: the run has an owner already, or its journal cannot be read.
        """
        ownership = own_run(folder)
        try:
            ask()
            journal = Journal.recover(folder.journal, self._clock)
        except BaseException:
            ownership.release()
            raise
        self.keep(asyncio.create_task(self._run_engine(folder, ownership, journal)))

    def keep(self, task: asyncio.Task[None]) -> None:
        """Keep a task until it is over, at the latest until the view closes."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_engine(self, folder: RunDir, ownership: Ownership, journal: Journal) -> None:
        async with AsyncExitStack() as held:
            held.callback(ownership.release)
            held.callback(journal.close)
            run = Run(folder.name).fold(journal.entries())
            ports = ClusterPorts(self._cluster.reader(), self._cluster.writer())
            observer = Observer(ports.reader, self._clock)
            held.push_async_callback(observer.aclose)
            cluster_id = self._cluster.spec.name
            engine = Engine(
                run,
                journal,
                self.watched(run, observer, lambda: engine.timelines),
                ports,
                self._clock,
                check_throttle=partial(check_one_throttle, self._state_dir, cluster_id, run.name),
                gate_shut=CancelGateFile(self._state_dir, cluster_id).words,
                lost=ownership.lost,
                forbids=WhileCommand().forbids,
                figure=CanaryFigure(Producers(self._cluster)),
            )
            self._engines.append(engine)
            held.callback(self._engines.remove, engine)
            owner = ownership.holder
            owned = Owned(pid=os.getpid(), host=owner.host, user=owner.user)
            await self.execute(engine, run, owned)

    def watched(
        self,
        run: Run,
        source: ObservationSource,
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> ObservationSource:
        """Return the source through which the engine of a run polls."""
        del run, timelines
        return source

    async def execute(self, engine: Engine, run: Run, owned: Owned) -> None:
        """Let an engine carry its run on until it leaves it."""
        del run
        await engine.execute(owned)

    async def aclose(self) -> None:
        """Stop every engine; the runs stay unfinished."""
        for engine in self._engines:
            engine.leave("the view was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
