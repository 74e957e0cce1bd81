"""Our requests to a simulated controller, one by one, and the controller's decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, WriteResult
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.writer import SimulatedWriter
from support.runs.engine_runs import Replicas


class Altered(NamedTuple):
    """One partition of our alter requests, as the controller handled it."""

    at_s: float
    tp: TopicPartition
    target: Replicas | None
    before: Registration | None
    result: WriteResult
    after: Registration | None
    late: bool
    """Whether the request took effect later than it was sent."""

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
        self.acts = False
        """Whether the present decisions answer a request of ours."""
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
        """Return a writing port of the watched cluster."""
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
        for listener in self.arrivals:
            listener(arrival)

    def departs(self, partitions: Mapping[TopicPartition, Replicas | None]) -> None:
        """Report a request that is sent now to `departures`."""
        for listener in self.departures:
            listener(Departure(partitions, self.cluster.now_s))

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
