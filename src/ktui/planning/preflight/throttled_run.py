"""A simulated run under a throttle: the facts for the findings of a preflight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import WantedPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.names import join_some
from ktui.planning.simulate.schedule import SimulatedOutcome
from ktui.planning.throttle_rates import ThrottleRates


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
    def gaining(self) -> Sequence[int]:
        """The brokers that gain replicas."""
        return sorted({broker for one in self.wanted for broker in brokers_added(one)})

    @cached_property
    def holding(self) -> Sequence[int]:
        """The brokers that may lead while replicas are added."""
        return sorted({broker for one in self.wanted for broker in one.situation.replicas})


class ThrottledRun:
    """A run under a throttle.

    Attributes:
        growing: the partitions that gain replicas.
        throttle: the run's rates; at least one broker has one.
        leaders: whether leaders are throttled too.
        limits: the limits in force.
        played: the outcome of the simulated run.
    """

    def __init__(
        self,
        growing: GrowingPartitions,
        throttle: ThrottleRates,
        limits: Limits,
        played: SimulatedOutcome,
        *,
        leaders: bool,
    ) -> None:
        self.growing = growing
        self.throttle = throttle
        self.limits = limits
        self.played = played
        self.leaders = leaders

    def most_at_once(self, broker: int) -> int:
        """Return the most bytes a second that may be written at once to a broker's new replicas.

        The figure holds for any order: it counts the busiest partitions, as many as the limits
        allow at once.
        """
        limits = self.limits
        counts = (limits.per_broker, limits.partitions, limits.replica_movements)
        together = min((count for count in counts if count is not None), default=None)
        return sum(bytes_s for bytes_s, _ in self.growing.onto.get(broker, ())[:together])

    def by_rate(self, brokers: Iterable[int]) -> Mapping[int, list[int]]:
        """Group the brokers that the run throttles by rate, lowest rate first."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for broker in brokers:
            rate = self.throttle.of(broker)
            if rate is not None:
                groups[rate].append(broker)
        return dict(sorted(groups.items()))


def brokers_added(one: WantedPartition) -> list[int]:
    """Return the brokers that gain a replica of a partition."""
    return [b for b in one.situation.target if b not in one.situation.replicas]


def brokers_in_words(brokers: Sequence[int]) -> str:
    """Format brokers for a sentence: "broker 4", "brokers 4, 5 and 6"."""
    return f"broker{'' if len(brokers) == 1 else 's'} {join_some(brokers)}"
