"""A simulated run under a throttle: the facts for the findings of a preview."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import WantedPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.speed.simulate import SimulatedOutcome

NEVER_S = 30 * 86_400
"""A copy that would take longer alone counts as one that never ends."""


class GrowingPartitions:
    """The partitions that gain replicas, whatever the limits and the throttle.

    Attributes:
        snapshot: the cluster.
        wanted: the partitions.
    """

    def __init__(self, snapshot: ClusterSnapshot, wanted: Iterable[WantedPartition]) -> None:
        self.snapshot = snapshot
        self.wanted = [one for one in wanted if brokers_added(one)]

    @cached_property
    def onto(self) -> Mapping[int, Sequence[tuple[int, TopicPartition]]]:
        """By broker, bytes a second written to each partition that the broker gains, most first.

        Partitions with an unknown rate are left out.
        """
        coming: defaultdict[int, list[tuple[int, TopicPartition]]] = defaultdict(list)
        for one in self.wanted:
            bytes_s = self.snapshot.inbound.get(one.tp)
            for broker in brokers_added(one) if bytes_s is not None else ():
                coming[broker].append((bytes_s or 0, one.tp))
        return {broker: sorted(rates, reverse=True) for broker, rates in coming.items()}

    @cached_property
    def weights_onto(self) -> Mapping[int, Sequence[int]]:
        """By broker, what each partition that it gains counts under W, least first."""
        coming: defaultdict[int, list[int]] = defaultdict(list)
        for one in self.wanted:
            for broker in brokers_added(one):
                coming[broker].append(one.weight)
        return {broker: sorted(weights) for broker, weights in coming.items()}

    @cached_property
    def gaining(self) -> Sequence[int]:
        """The brokers that gain replicas."""
        return sorted({broker for one in self.wanted for broker in brokers_added(one)})

    @cached_property
    def holding(self) -> Sequence[int]:
        """The brokers that may lead while replicas are added."""
        return sorted({broker for one in self.wanted for broker in one.situation.replicas})


class ThrottledRun(msgspec.Struct, frozen=True):
    """A run under a throttle."""

    growing: GrowingPartitions
    """The partitions that gain replicas."""
    throttle: ThrottleRates
    """The run's rates; at least one broker has one."""
    limits: Limits
    """The limits in force."""
    outcome: SimulatedOutcome
    """The outcome of the simulated run."""
    leaders: bool
    """Whether leaders are throttled too."""
    asked: ThrottleRates = NO_THROTTLE
    """The rates as the operator has given them, without a budget's shares."""
    slow: bool = False
    """Whether the operator insists on rates under which no copy ends."""

    @property
    def ends_nothing(self) -> bool:
        """Whether no partition that has to be copied ends, by what is known of its writes."""
        wanted = self.growing.wanted
        return bool(wanted) and all(
            any(self._never_ends(one, broker) for broker in brokers_added(one)) for one in wanted
        )

    def _never_ends(self, one: WantedPartition, broker: int) -> bool:
        rate, written = self.throttle.of(broker), self.growing.snapshot.inbound.get(one.tp)
        if rate is None or written is None:
            return False
        return written >= rate or _least_for_size(one) > rate

    @property
    def least_for_any_size(self) -> float:
        """The least rate at which some partition is copied alone within NEVER_S, in bytes a second.

        What is written to partitions does not count: it was measured for seconds, and what it
        leaves of a rate just above it would be made up.
        """
        return min(map(_least_for_size, self.growing.wanted), default=0.0)

    def most_at_once(self, broker: int) -> int:
        """Return the most bytes a second that may be written at once to a broker's new replicas.

        The figure holds for any order: it counts the busiest partitions, as many as the limits
        allow at once.
        """
        limits, weights = self.limits, self.growing.weights_onto.get(broker, ())
        counts = (
            limits.most_at("per_broker", broker), limits.partitions, limits.replica_movements,
            most_by_weight(weights, limits.most_at("bytes_per_broker", broker)),
        )  # fmt: skip
        together = min((count for count in counts if count is not None), default=None)
        return sum(bytes_s for bytes_s, _ in self.growing.onto.get(broker, ())[:together])

    @property
    def most_partitions(self) -> int | None:
        """The most partitions that may be under way at once; None without P and W."""
        weights, limits = self.growing.weights_onto, self.limits
        most = [
            most_by_weight(each, limits.most_at("bytes_per_broker", broker))
            for broker, each in weights.items()
        ]
        by_size = sum(count for count in most if count is not None) if None not in most else None
        counts = (self.limits.partitions, by_size)
        return min((count for count in counts if count is not None), default=None)

    def by_rate(self, brokers: Iterable[int]) -> Mapping[int, list[int]]:
        """Group the brokers that the run throttles by rate, lowest rate first."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for broker in brokers:
            rate = self.throttle.of(broker)
            if rate is not None:
                groups[rate].append(broker)
        return dict(sorted(groups.items()))


def _least_for_size(one: WantedPartition) -> float:
    return one.size / NEVER_S if one.sized else 0.0


def most_by_weight(weights: Sequence[int], most: int | None) -> int | None:
    """Return how many partitions W lets be copied to a broker at once; None without W.

    Args:
        weights: what they count, least first; the last one that begins may exceed W.
        most: W, in bytes.
    """
    if most is None:
        return None
    held = accumulate(weights, initial=0)
    return sum(1 for before, _ in zip(held, weights, strict=False) if before < most)


def brokers_added(one: WantedPartition) -> list[int]:
    """Return the brokers that gain a replica of a partition."""
    return [b for b in one.situation.target if b not in one.situation.replicas]
