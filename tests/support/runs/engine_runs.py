"""Runs of plans on simulated clusters, executed by an engine in virtual time."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.ownership import SendGuard
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterReader, ClusterWriter
from ktui.execution.engine.engine import Engine
from ktui.execution.engine.gates import LeaveWhen, when_paused
from ktui.execution.journal.commands import Command
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Owned, StepBegun
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import first_events
from ktui.execution.run.run import Run
from ktui.execution.throttle.objective import Figure, no_figure
from ktui.insights import Prior
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import Objective
from ktui.simulated.cluster import SimulatedCluster
from ktui.speed.copies import CopiesOfBothEnds, CopyLoad

OWNER = Owned(pid=1, host="here", user="operator")
Replicas = tuple[int, ...]


def plan_of(targets: Mapping[TopicPartition, Replicas]) -> Plan:
    return Plan(tuple(PartitionTarget(tp.topic, tp.partition, to) for tp, to in targets.items()))


async def snapshot_of(reader: ClusterReader, plan: Plan) -> ClusterSnapshot:
    topics = {target.topic for target in plan.partitions}
    cluster = await reader.describe_cluster()
    answer = await reader.describe_topics(topics)
    return ClusterSnapshot(
        partitions=answer.partitions,
        brokers=cluster.brokers,
        configs=(await reader.topic_configs(topics)).configs,
        listed=await reader.list_reassignments(),
        sizes=await _sizes(reader, cluster.brokers, {target.tp for target in plan.partitions}),
    )


async def _sizes(
    reader: ClusterReader, brokers: Iterable[int], partitions: Collection[TopicPartition]
) -> dict[Replica, int]:
    """Return the sizes from the brokers that answer."""
    sizes: dict[Replica, int] = {}
    for broker in brokers:
        with suppress(ClusterError):
            answer = await reader.log_dirs(broker, partitions)
            sizes |= {Replica(tp, broker): size for tp, size in answer.sizes.items()}
    return sizes


class PlannedRun:
    """A run on a simulated cluster with its journal on disk; its engine can be killed and resumed.

    Args:
        cluster: the cluster on which it moves partitions; its clock leaps.
        folder: the folder of the journal.
        targets: the plan.
        limits: the limits in force at the start.
        options: the options of the run.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        folder: Path,
        targets: Mapping[TopicPartition, Replicas],
        limits: Limits,
        **options: Any,
    ) -> None:
        self.cluster, self.clock = cluster, cluster.clock
        self.path = folder / "journal.db"
        self.targets = dict(targets)
        self.limits, self.options = limits, RunOptions(**options)
        self.writer: ClusterWriter = cluster.writer()
        self.reader: ClusterReader = cluster.reader()
        self.engine: Engine | None = None
        self.run = Run("run")
        self.check_throttle: Callable[[], None] = lambda: None
        """Raises where the run may not have a throttle, because another run has one."""
        self.gate_shut: str | None = None
        """The person who has shut the cluster's cancel gate; None while it is open."""
        self.lost: Callable[[], str | None] = lambda: None
        """Returns why its process does not own the run any more; None while it does."""
        self.forbids: Callable[[str], str | None] = lambda _command: None
        """Returns why the command of --while lets no step begin; None if it lets them."""
        self.figure: Callable[[Objective], Figure] = no_figure
        """Returns the figure of the run's objective."""
        self.guarded: Callable[[], SendGuard | None] = lambda: None
        """Returns the guard that decides for each engine whether it may send; None for no guard."""
        self.news: Callable[[], Sequence[AnyRunEvent]] = tuple
        """Returns events from beside the run, such as a failure of the command of --on-event."""
        self.prior: Prior | None = None  # insights from earlier runs
        self.leaving: Callable[[Clock], LeaveWhen] = lambda _clock: when_paused
        """Returns when each engine leaves the run before its end."""

    def through(self, source: ObservationSource) -> ObservationSource:
        """Return the source through which an engine polls."""
        return source

    async def start(self) -> None:
        plan = plan_of(self.targets)
        events = first_events(
            plan,
            await snapshot_of(self.cluster.reader(), plan),
            self.limits,
            self.options,
            cluster_id=self.cluster.spec.name,
            plan_name="plan.json",
        )
        with Journal.create(self.path, self.clock) as journal:
            journal.append(events)

    async def execute(self, owner: Owned = OWNER) -> Run:
        """Fold the journal, and let an engine execute the run until it ends or is left."""
        with self.opened() as journal:
            self.run = Run("run").fold(journal.entries())
            observer = self.observer()
            ways = ClusterPorts(self.reader, self.writer)
            self.engine = Engine(
                self.run,
                journal,
                self.through(observer),
                ways,
                self.clock,
                check_throttle=self.check_throttle,
                gate_shut=lambda: self.gate_shut,
                lost=self.lost,
                forbids=self.forbids,
                figure=self.figure,
                guard=self.guarded(),
                news=self.news,
                earlier=lambda _cluster_id: self.prior,
                leave_when=self.leaving(self.clock),
            )
            try:
                await self.engine.execute(owner)
            finally:
                await observer.aclose()
        return self.run

    def observer(self) -> Observer:
        return Observer(self.reader, self.clock)

    def opened(self) -> Journal:
        """Open the journal for writing, like the engine."""
        return Journal.open(self.path, self.clock)

    def ask(self, command: Command) -> None:
        """Send a command to the run now, as another shell does."""
        with Journal.open(self.path, self.clock) as journal:
            journal.ask(command, "somebody@here (2)")

    async def to_its_end(self) -> Run:
        await self.start()
        return await self.execute()

    def entries(self) -> list[JournalEntry]:
        with Journal.open(self.path, self.clock, read_only=True) as journal:
            return list(journal.entries())

    @property
    def events(self) -> list[AnyRunEvent]:
        return [entry.event for entry in self.entries()]

    @property
    def steps(self) -> list[StepBegun]:
        return [event for event in self.events if isinstance(event, StepBegun)]

    def replicas(self, tp: TopicPartition) -> Replicas:
        known = self.cluster.controller.get(tp)
        assert known is not None
        return known.replicas

    def leader(self, tp: TopicPartition) -> int | None:
        known = self.cluster.controller.get(tp)
        assert known is not None
        return known.leader


def carried(run: PlannedRun) -> Run:
    """Execute a run to its end, outside of any event loop."""
    return asyncio.run(run.to_its_end())


def ten_seeds(first: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield ten seeds, each with a new folder of its own."""
    for seed in range(first, first + 10):
        own = folder / str(seed)
        own.mkdir()
        yield seed, own


def received(bytes_s: Callable[[int, int], float]) -> CopiesOfBothEnds:
    """Return copies in flight, none yet.

    Args:
        bytes_s: returns what a broker takes in, in bytes a second, for a number of copies at once.
    """
    return CopiesOfBothEnds(
        lambda pair, load: bytes_s(pair[1], load.onto(pair[1])) / load.onto(pair[1]),
        CopyLoad(lambda _broker: False),
    )
