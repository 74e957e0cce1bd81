"""How fast a recording shows that brokers copy, learned as a run learns it from its own copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Replica
from ktui.insights.prior import Prior
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.progress.flows import Counted
from ktui.progress.timeline import Progress
from ktui.speed.capacity import Capacity, CapacityMemory
from ktui.speed.copies import Pair
from ktui.speed.shown import SpeedShown, prior_of, received_by


class ShownRates:
    """The rates of a recording, poll by poll."""

    def __init__(self) -> None:
        self._memory = CapacityMemory()
        self._capacity = Capacity(memory=self._memory)
        self._before: Mapping[Replica, Counted] = {}
        self._seen: Observation | None = None

    def note(self, progress: Progress) -> None:
        """Take one poll into account."""
        before, since = self._before, self._seen
        self._before, self._seen = progress.flows.counted, progress.last
        seen = self._seen
        if seen is None or since is None or seen.monotonic_s <= since.monotonic_s:
            return
        seconds = seen.monotonic_s - since.monotonic_s
        copied = [
            (pair, bytes_s * seconds) for pair, bytes_s in _copied(before, self._before, seen)
        ]
        if copied:
            self._capacity.learn(copied, seconds, _throttle(seen))

    @property
    def prior(self) -> Prior | None:
        """The rates so far; None where nothing was copied."""
        if self._seen is None:
            return None
        shown = SpeedShown(
            cluster_id=self._seen.cluster_id,
            at=self._seen.at,
            received=received_by(self._memory),
            largest=0,
        )
        return prior_of([shown])


def _copied(
    before: Mapping[Replica, Counted], now: Mapping[Replica, Counted], seen: Observation
) -> Iterator[tuple[Pair, float]]:
    """Yield each copy with its rate since the poll before, in bytes a second, where it is known."""
    for replica, counted in now.items():
        was, state = before.get(replica), seen.partitions.get(replica.tp)
        if was is None or state is None or state.leader is None or counted.each is None:
            continue
        if counted.by_offsets is was.by_offsets and counted.at_s > was.at_s:
            size = max(0.0, counted.value - was.value) * counted.each
            yield (state.leader, replica.broker), size / (counted.at_s - was.at_s)


def _throttle(seen: Observation) -> ThrottleRates:
    rates = {id_: each.follower_throttle_rate for id_, each in seen.broker_configs.items()}
    return ThrottleRates(None, tuple(BrokerRate(b, rates[b]) for b in sorted(rates)))
