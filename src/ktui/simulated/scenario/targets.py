"""Target replicas from a goal (drain, expand, another factor), and replicas for new topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from ktui.cluster.partition import TopicPartition
from ktui.simulated.layout import TopicSpec

Racks = Mapping[int, str | None]  # every broker with its rack, None if that is unknown


def alternate_racks(racks: Racks) -> list[int]:
    """Order brokers so that neighbours are in different racks, as long as racks last."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = zip_longest(*by_rack.values())
    return [broker for turn in turns for broker in turn if broker is not None]


def place_replicas(
    partitions: int, factor: int, brokers: Sequence[int], *, first: int = 0, shifting: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Assign replicas to brokers in turn; `shifting` moves followers each round, as Kafka does."""
    count = len(brokers)
    return tuple(
        tuple(
            brokers[(first + number + gap) % count]
            for gap in _gaps(factor, count, number // count if shifting else 0)
        )
        for number in range(partitions)
    )


def _gaps(factor: int, count: int, shift: int) -> list[int]:
    return [0, *(1 + (shift + place) % (count - 1) for place in range(factor - 1))]


ScenarioTargets = dict[TopicPartition, tuple[int, ...]]


class TooFewBrokers(ValueError):
    """There are not enough brokers for the goal."""


def drain_targets(
    topics: Collection[TopicSpec], moved: Collection[str], racks: Racks, off: Collection[int]
) -> ScenarioTargets:
    """Replace brokers `off` by the least loaded: fewest replicas of the topic, then of all."""
    loads = _Loads(racks, topics)
    stay = [broker for broker in racks if broker not in off]
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        target = list(replicas)
        for place, broker in enumerate(replicas):
            if broker in off:
                target[place] = loads.choose(tp, stay, target, instead_of=broker)
        if tuple(target) != replicas:
            targets[tp] = tuple(target)
    return targets


def expand_targets(
    topics: Collection[TopicSpec], moved: Collection[str], racks: Racks, onto: Collection[int]
) -> ScenarioTargets:
    """Move an even share of each topic's replicas to the brokers `onto`, from the fullest."""
    loads = _Loads(racks, ())
    seen = 0
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        loads.add(replicas)
        seen += len(replicas)
        target = list(replicas)
        for turn, broker in enumerate(onto):
            share = seen / len(racks) + turn / len(onto)  # not all at the same partitions
            if broker not in target and loads.load_of(broker) + 1 <= share:
                loads.replace_fullest(target, broker, kept=onto)
        if tuple(target) != replicas:
            targets[tp] = tuple(target)
    return targets


def replication_factor_targets(
    topics: Collection[TopicSpec], moved: Collection[str], racks: Racks, factor: int
) -> ScenarioTargets:
    """Add replicas on the least loaded brokers, or drop the last ones, to reach `factor`."""
    loads = _Loads(racks, topics)
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        target = list(replicas[:factor])
        while len(target) < factor:
            target.append(loads.choose(tp, racks, target))
        if tuple(target) != replicas:
            targets[tp] = tuple(target)
    return targets


def leaders_off_targets(
    topics: Collection[TopicSpec], moved: Collection[str], off: Collection[int]
) -> ScenarioTargets:
    """Put another replica first where one of `off` is, unless all replicas are on `off`."""
    leads = Counter(replicas[0] for _, replicas in _partitions(topics, {t.name for t in topics}))
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        others = [broker for broker in replicas if broker not in off]
        if replicas[0] in off and others:
            leader = min(others, key=lambda broker: (leads[broker], broker))
            leads[leader] += 1
            leads[replicas[0]] -= 1
            targets[tp] = (leader, *(broker for broker in replicas if broker != leader))
    return targets


def _partitions(
    topics: Iterable[TopicSpec], moved: Collection[str]
) -> Iterable[tuple[TopicPartition, tuple[int, ...]]]:
    for topic in topics:
        if topic.name in moved:
            for number, replicas in enumerate(topic.replicas):
                yield TopicPartition(topic.name, number), replicas


class _Loads:
    def __init__(self, racks: Racks, topics: Iterable[TopicSpec]) -> None:
        self._racks = racks
        self._loads: Counter[int] = Counter()
        self._of_topic: dict[str, Counter[int]] = {}
        for topic in topics:
            of_topic = Counter(chain.from_iterable(topic.replicas))
            self._of_topic[topic.name] = of_topic
            self._loads.update(of_topic)

    def load_of(self, broker: int) -> int:
        return self._loads[broker]

    def add(self, replicas: Iterable[int]) -> None:
        self._loads.update(replicas)

    def choose(
        self,
        tp: TopicPartition,
        candidates: Iterable[int],
        target: list[int],
        instead_of: int | None = None,
    ) -> int:
        """Choose a broker for a replica: if possible in a rack without one, then least loaded."""
        of_topic = self._of_topic[tp.topic]
        taken = {self._racks[b] for b in target if b != instead_of} - {None}
        free = [broker for broker in candidates if broker not in target]
        if not free:
            raise TooFewBrokers(f"every remaining broker already has a replica of {tp}")
        chosen = min(free, key=lambda b: (self._racks[b] in taken, of_topic[b], self._loads[b], b))
        of_topic[chosen] += 1
        self._loads[chosen] += 1
        return chosen

    def replace_fullest(self, target: list[int], broker: int, kept: Collection[int]) -> None:
        rack = self._racks[broker]
        old = [member for member in target if member not in kept]
        if not old:
            return
        same = [member for member in old if rack is not None and self._racks[member] == rack]
        fullest = max(same or old, key=lambda member: (self._loads[member], -member))
        target[target.index(fullest)] = broker
        self._loads[fullest] -= 1
        self._loads[broker] += 1
