"""Simulated controllers as tests drive them, and our requests to them, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    OffsetsAnswer,
    TopicsAnswer,
    WriteResult,
)
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.controller import Controller
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.data.replication import CaughtUp, FlowEvent, Replication
from ktui.simulated.layout import MIB, VERSIONS, BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.writer import SimulatedWriter
from support.passing import Ask, PassingReader, T
from support.runs.engine_runs import Replicas


class Altered(NamedTuple):
    """One partition of our alter requests, as the controller handled it."""

    at_s: float
    tp: TopicPartition
    target: Replicas | None
    before: Registration | None
    result: WriteResult
    after: Registration | None
    late: bool  # whether the request took effect later than it was sent

    @property
    def took_effect(self) -> bool:
        return self.before != self.after


class Arrival(NamedTuple):
    """A request of ours as it arrives, before it takes effect."""

    partitions: Mapping[TopicPartition, Replicas | None]
    """The altered partitions with their targets; for an election, with no replicas."""
    settings: Mapping[ConfigResource, Sequence[ConfigChange]]
    late: bool


class Departure(NamedTuple):
    """An alter or an election of ours as it is sent, whatever its outcome."""

    partitions: Mapping[TopicPartition, Replicas | None]
    """The altered partitions with their targets; for an election, with no replicas."""
    at_s: float


What = TypeVar("What")


class Witness:
    """Records our requests to a simulated controller, and its decisions.

    Attributes:
        alters: our alter requests, in order of arrival.
        elections: our elections: the partition, and whether its leader changed.
        changes: every decision of the controller, with its time in seconds, and whether the
            decision is the answer to a request of ours.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.alters: list[Altered] = []
        self.elections: list[tuple[TopicPartition, bool]] = []
        self.changes: list[tuple[float, RecordChange, bool]] = []
        self.watchers: list[Callable[[RecordChange], None]] = []
        self.arrivals: list[Callable[[Arrival], None]] = []
        """Called with each request of ours before it takes effect."""
        self.departures: list[Callable[[Departure], None]] = []
        """Called with each alter and election of ours as it is sent."""
        self.broken: AssertionError | None = None
        """The first failure of a listener: an engine takes what a port raises for no answer."""
        self.acts = False  # whether the present decisions answer a request of ours
        self._listen()

    def _listen(self) -> None:
        records = self.cluster.controller._records
        tell: Callable[[RecordChange], None] = records._notify

        def notify(change: RecordChange) -> None:
            self.changes.append((self.cluster.now_s, change, self.acts))
            for watcher in self.watchers:
                watcher(change)
            tell(change)

        records._notify = notify

    def writer(self) -> WitnessedWriter:
        return WitnessedWriter(self.cluster, self)

    @contextmanager
    def ours(self) -> Iterator[None]:
        self.acts = True
        try:
            yield
        finally:
            self.acts = False

    def arrives(self, arrival: Arrival) -> None:
        """Report a request that arrives now to `arrivals`."""
        self._report(self.arrivals, arrival)

    def departs(self, partitions: Mapping[TopicPartition, Replicas | None]) -> None:
        """Report a request that is sent now to `departures`."""
        self._report(self.departures, Departure(partitions, self.cluster.now_s))

    def _report(self, listeners: Sequence[Callable[[What], None]], what: What) -> None:
        for listener in listeners:
            try:
                listener(what)
            except AssertionError as error:
                self.broken = self.broken or error
                raise

    def effective(self, tp: TopicPartition) -> list[Replicas | None]:
        """Return the targets requested of a partition that took effect, in order."""
        return [each.target for each in self.alters if each.tp == tp and each.took_effect]

    def leaders(self, tp: TopicPartition) -> list[int | None]:
        """Return the successive leaders of a partition after each change of leader."""
        changes = (change for _, change, _ in self.changes if change.tp == tp)
        return [
            change.after.leader
            for change in changes
            if change.before and change.after and change.before.leader != change.after.leader
        ]


class WitnessedWriter(SimulatedWriter):
    """Reports the effect of its requests at the moment they arrive."""

    def __init__(self, cluster: SimulatedCluster, witness: Witness) -> None:
        super().__init__(cluster)
        self._witness = witness
        self.late_by_s: float | None = None
        """Seconds by which the next alter or election takes effect later, without a wait."""
        self.settings_late_by_s: dict[ConfigOp, float] = {}
        """Seconds by which the next change of this kind takes effect later, with its request."""

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        self._targets = dict(targets)
        self._witness.departs(self._targets)
        return await super().alter_reassignments(
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
            leaves_within_s=leaves_within_s,
        )

    async def elect_preferred_leaders(
        self, partitions: Any, *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        self._targets = {}
        self._witness.departs(dict.fromkeys(partitions, ()))
        return await super().elect_preferred_leaders(partitions, leaves_within_s=leaves_within_s)

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        self._changes = list(changes)
        kinds = {change.op for change in changes} & self.settings_late_by_s.keys()
        late_s = [self.settings_late_by_s.pop(kind) for kind in kinds]
        self._late_s = max(late_s, default=None)
        return await super().alter_configs(changes, leaves_within_s=leaves_within_s)

    async def _deliver(self, parts: Sequence[Any], act: Any) -> Any:
        configures = any(isinstance(part, ConfigResource) for part in parts)
        seen = self._configuring(act) if configures else self._moving(act)
        late_by_s = self._late_s if configures else self.late_by_s
        if late_by_s is not None:
            cluster = self._witness.cluster
            cluster.at(cluster.now_s + late_by_s, lambda: seen(parts))
            if not configures:
                self.late_by_s = None
            return {}
        return await super()._deliver(parts, seen)

    def _configuring(self, act: Any) -> Any:
        changes, witness, sent_s = self._changes, self._witness, self._witness.cluster.now_s

        def seen(parts: Sequence[Any]) -> Mapping[Any, WriteResult]:
            theirs = {each: [c for c in changes if c.resource == each] for each in parts}
            witness.arrives(Arrival({}, theirs, witness.cluster.now_s > sent_s))
            with witness.ours():
                results: Mapping[Any, WriteResult] = act(parts)
            return results

        return seen

    def _moving(self, act: Any) -> Any:
        targets, witness, sent_s = self._targets, self._witness, self._witness.cluster.now_s

        def seen(parts: Sequence[Any]) -> Mapping[Any, WriteResult]:
            now_s = witness.cluster.now_s
            late = now_s > sent_s
            witness.arrives(Arrival({tp: targets.get(tp, ()) for tp in parts}, {}, late))
            before = {tp: witness.cluster.controller.get(tp) for tp in parts}
            with witness.ours():
                results: Mapping[Any, WriteResult] = act(parts)
            for tp in parts:
                after = witness.cluster.controller.get(tp)
                if targets:
                    row = Altered(now_s, tp, targets[tp], before[tp], results[tp], after, late)
                    witness.alters.append(row)
                else:
                    witness.elections.append((tp, before[tp] != after))
            return results

        return seen


class CountingReader(PassingReader):
    """Counts the calls."""

    def __init__(self, reader: ClusterReader) -> None:
        super().__init__(reader)
        self.calls: Counter[str] = Counter()
        self.described: list[frozenset[str]] = []
        self.asked_offsets: list[tuple[int, frozenset[TopicPartition]]] = []
        self.most_lists_at_once = 0
        self._lists = 0

    def asked(self, broker: int) -> int:
        """Return how often log ends were requested from a broker."""
        return [each for each, _ in self.asked_offsets].count(broker)

    async def passes(self, call: str, ask: Ask[T]) -> T:
        self.calls[call] += 1
        lists = call == "list_reassignments"
        self._lists += lists
        self.most_lists_at_once = max(self.most_lists_at_once, self._lists)
        try:
            return await ask()
        finally:
            self._lists -= lists

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        self.described.append(frozenset(names))
        return await super().describe_topics(names, fresh=fresh)

    def scan_topics(self, *, fresh: bool = False) -> AsyncIterator[TopicsAnswer]:
        self.calls["scan_topics"] += 1
        return super().scan_topics(fresh=fresh)

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        self.asked_offsets.append((broker, frozenset(ends)))
        return await super().log_offsets(broker, ends=ends, starts=starts)


TP = TopicPartition("orders", 0)

Brokers = tuple[int, ...]


class Kept:
    """A controller, and each change that it reported.

    Args:
        *replicas: the replicas of each of the topic's partitions, in sync at first.
        version: the Kafka version whose rules apply.
        brokers: the ids of all brokers.
        configs: settings of the topic.
        static: settings of every broker.
    """

    def __init__(
        self,
        *replicas: Brokers,
        version: str = VERSIONS[-1],
        brokers: Iterable[int] = range(1, 8),
        configs: Mapping[str, str] | None = None,
        static: Mapping[str, str] | None = None,
    ) -> None:
        self.changes: list[RecordChange] = []
        spec = ClusterSpec(
            brokers=tuple(BrokerSpec(id=broker) for broker in brokers),
            version=version,
            broker_configs=static or {},
        )
        self.controller = Controller(spec, self.changes.append)
        self.controller.create_topic(
            TopicSpec(name=TP.topic, replicas=replicas, configs=configs or {})
        )

    def record(self, tp: TopicPartition = TP) -> Registration:
        known = self.controller.get(tp)
        assert known is not None
        return known

    def alter(self, *target: int, factor: bool = True) -> WriteResult:
        """Request a target, of any length unless `factor` is False."""
        return self.controller.alter({TP: target}, allow_replication_factor_change=factor)[TP]

    def cancel(self) -> WriteResult:
        return self.controller.alter({TP: None}, allow_replication_factor_change=False)[TP]

    def elect(self, tp: TopicPartition = TP) -> WriteResult:
        return self.controller.elect([tp])[tp]

    def join(self, *brokers: int) -> str | None:
        """Let the leader add brokers to the ISR, in one request."""
        known = self.record()
        assert known.leader is not None
        return self.controller.alter_isr(TP, (*known.isr, *brokers), known.leader)

    def drop_out(self, *brokers: int) -> str | None:
        """Let the leader remove brokers from the ISR, in one request."""
        known = self.record()
        assert known.leader is not None
        isr = tuple(b for b in known.isr if b not in brokers)
        return self.controller.alter_isr(TP, isr, known.leader)

    def fence(self, *brokers: int) -> None:
        """Let the sessions of brokers time out, one after another."""
        for broker in brokers:
            self.controller.fence(broker)


MB = 1_000_000

Happening = tuple[Any, FlowEvent]
"""A time in seconds, which a test compares approximately, and the event at that time."""


def broker(number: int, **can: Any) -> BrokerSpec:
    """Return a broker, of 100 MB/s by default."""
    return BrokerSpec(id=number, **{"net_in": 100.0 * MB, "net_out": 100.0 * MB, **can})


def topic(name: str, *replicas: tuple[int, ...], **has: Any) -> TopicSpec:
    """Return a topic with these replicas of each partition."""
    return TopicSpec(name=name, replicas=replicas, **has)


@dataclass
class DataPlane:
    """Replication, and the records that a test sets for it."""

    replication: Replication
    records: dict[TopicPartition, Registration] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    events: list[Happening] = field(default_factory=list)

    def create(self, spec: TopicSpec, topic_id: str = "first") -> None:
        """Create a topic, every replica of it in sync."""
        self.replication.prepare(spec)
        self.ids[spec.name] = topic_id
        for number, replicas in enumerate(spec.replicas):
            tp = TopicPartition(spec.name, number)
            self._tell(tp, None, Registration(replicas, replicas, replicas[0]))

    def delete(self, name: str) -> None:
        for tp in [tp for tp in self.records if tp.topic == name]:
            self._tell(tp, self.records[tp], None)

    def decide(self, tp: TopicPartition, **fields: Any) -> None:
        before = self.records[tp]
        self._tell(tp, before, msgspec.structs.replace(before, **fields))

    def add(self, tp: TopicPartition, *brokers: int) -> None:
        known = self.records[tp]
        self.decide(tp, replicas=(*known.replicas, *brokers), adding=(*known.adding, *brokers))

    def drop(self, tp: TopicPartition, *brokers: int) -> None:
        known = self.records[tp]
        self.decide(
            tp,
            replicas=tuple(b for b in known.replicas if b not in brokers),
            isr=tuple(b for b in known.isr if b not in brokers),
            adding=tuple(b for b in known.adding if b not in brokers),
        )

    def accept(self, tp: TopicPartition, follower: int) -> None:
        """Add a follower to the ISR."""
        known = self.records[tp]
        adding = tuple(b for b in known.adding if b != follower)
        self.decide(tp, isr=(*known.isr, follower), adding=adding)

    def run(self, to_s: float, *, accepting: bool = True) -> list[Happening]:
        """Let time pass, and return the events; followers that caught up are added to the ISR."""
        happened: list[Happening] = []
        while (next_s := self.replication.next_event_s()) <= to_s:
            for event in self.replication.advance(next_s):
                happened.append((next_s, event))
                if accepting and isinstance(event, CaughtUp) and self._wanted(event):
                    self.accept(event.tp, event.broker)
        self.replication.advance(to_s)
        self.events += happened
        return happened

    def end(self, tp: TopicPartition, number: int) -> int:
        """Return the log end of an existing replica."""
        end = self.replication.end(tp, number)
        assert end is not None
        return end

    def lag(self, tp: TopicPartition, number: int) -> int:
        """Return how many messages a replica is behind its leader."""
        leader = self.records[tp].leader
        assert leader is not None
        return self.end(tp, leader) - self.end(tp, number)

    def _wanted(self, event: CaughtUp) -> bool:
        return event.broker not in self.records[event.tp].isr

    def _tell(
        self, tp: TopicPartition, before: Registration | None, after: Registration | None
    ) -> None:
        if after is None:
            del self.records[tp]
        else:
            self.records[tp] = after
        self.replication.changed(RecordChange(tp, self.ids[tp.topic], before, after))


def data_plane(
    *topics: TopicSpec, brokers: Iterable[BrokerSpec] | int = 4, seed: int = 0, **cluster: Any
) -> DataPlane:
    """Set up a cluster of brokers 0, 1, 2, ... with these topics."""
    if isinstance(brokers, int):
        brokers = [broker(number) for number in range(brokers)]
    spec = ClusterSpec(brokers=tuple(brokers), topics=topics, **cluster)
    plane = DataPlane(Replication(spec, seed=seed))
    for each in topics:
        plane.create(each)
    return plane


__all__ = ["MB", "MIB", "DataPlane", "broker", "data_plane", "topic"]
