"""Whether a replication throttle (KIP-73) lets through as much as is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache

import msgspec

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.stalls import STALLED_AFTER_S, stalled
from ktui.progress.timeline import Lane, Phase, Role, Timeline

_NO_TOPIC = TopicConfig()
_NO_BROKER = BrokerConfig()
_FETCH_BYTES = 1024 * 1024
"""replica.fetch.max.bytes: as much as a follower takes of one partition at a time."""


class Throttle(msgspec.Struct, frozen=True):
    """A rate that binds a replica, and what it would have to let through. Bytes a second."""

    rate: int
    demand: float
    on_leader: bool
    sharing: int
    """Replicas being copied under the same rate."""
    in_use: bool
    """Whether others than the replica have made headway under it lately."""

    @property
    def too_low(self) -> bool:
        """Whether the replicas can never catch up under it."""
        return self.demand > self.rate

    @property
    def slower_than_a_fetch(self) -> bool:
        """Whether one fetch exhausts it for longer than it takes to call a replica stalled."""
        return self.rate * STALLED_AFTER_S < _FETCH_BYTES

    @property
    def detail(self) -> str:
        """The figures, for a row."""
        side = "leader " if self.on_leader else ""
        if self.too_low:
            return f"{megabytes(self.rate)} {side}throttle, {megabytes(self.demand)} in"
        shared = f", {self.sharing} replicas" if self.sharing > 1 else ""
        return f"{megabytes(self.rate)} {side}throttle{shared}"


class Throttles:
    """What one observation says of throttles, against what was being copied as of the last."""

    def __init__(self, seen: Observation, timelines: Iterable[Timeline], now_s: float) -> None:
        self._seen = seen
        self._timelines = timelines
        self._now_s = now_s

    def binding(self, state: PartitionState, broker: int) -> Throttle | None:
        """Find the throttle that binds a copy onto a broker: the tightest one."""
        return _tightest(self._all(state, broker))

    def in_use(self, state: PartitionState, broker: int) -> Throttle | None:
        """Find the tightest one under which other copies make headway: this one's turn comes."""
        return _tightest([one for one in self._all(state, broker) if one.in_use])

    def _all(self, state: PartitionState, broker: int) -> list[Throttle]:
        return [one for one in (self._follower(state, broker), self._leader(state)) if one]

    def _follower(self, state: PartitionState, broker: int) -> Throttle | None:
        """The follower's rate binds all listed copies onto the broker together."""
        rate = self._settings(broker).follower_throttle_rate
        if rate is None or not self._follower_listed(state, broker):
            return None
        return self._onto[broker].under(rate, state.tp, on_leader=False)

    def _leader(self, state: PartitionState) -> Throttle | None:
        """The leader's rate binds copies out of sync, yet in-sync fetches count against it too."""
        if state.leader is None or not self._leader_listed(state):
            return None
        rate = self._settings(state.leader).leader_throttle_rate
        if rate is None:
            return None
        return self._from[state.leader].under(rate, state.tp, on_leader=True)

    @cached_property
    def _onto(self) -> defaultdict[int, _Load]:
        """The listed copies onto each broker."""
        loads: defaultdict[int, _Load] = defaultdict(_Load)
        for timeline in self._copied:
            for lane in timeline.lanes.values():
                adding = lane.role is Role.ADDING
                if adding and self._follower_listed(timeline.state, lane.broker):
                    moves = _makes_headway(lane)
                    loads[lane.broker].add(timeline.tp, timeline.inbound_bytes_s, moves=moves)
        for timeline in self._timelines:
            # Small ones are copied whole between two polls; their entries may be gone already.
            if _done_lately(timeline, self._now_s):
                for broker in timeline.target:
                    if broker not in timeline.original:
                        loads[broker].movers.add(timeline.tp)
        return loads

    @cached_property
    def _from(self) -> defaultdict[int, _Load]:
        """What all followers of the listed partitions of each leader must fetch to keep up."""
        loads: defaultdict[int, _Load] = defaultdict(_Load)
        for timeline in self._copied:
            state = timeline.state
            if state.leader is not None and self._leader_listed(state):
                demand = (timeline.inbound_bytes_s or 0.0) * (len(state.replicas) - 1)
                moves = any(map(_makes_headway, timeline.catching_up))
                loads[state.leader].add(timeline.tp, demand, moves=moves)
        return loads

    @cached_property
    def _copied(self) -> tuple[Timeline, ...]:
        return tuple(t for t in self._timelines if t.state.adding and not t.phase.ended)

    def _settings(self, broker: int) -> BrokerConfig:
        return self._seen.broker_configs.get(broker, _NO_BROKER)

    def _follower_listed(self, state: PartitionState, broker: int) -> bool:
        config = self._seen.topic_configs.get(state.tp.topic, _NO_TOPIC)
        return _listed(config.follower_throttled_replicas, state.tp.partition, broker)

    def _leader_listed(self, state: PartitionState) -> bool:
        config = self._seen.topic_configs.get(state.tp.topic, _NO_TOPIC)
        listed = config.leader_throttled_replicas
        return state.leader is not None and _listed(listed, state.tp.partition, state.leader)


class _Load:
    """What one broker's throttle has to let through."""

    def __init__(self) -> None:
        self.demand = 0.0
        self.sharing = 0
        self.movers: set[TopicPartition] = set()

    def add(self, tp: TopicPartition, demand: float | None, *, moves: bool) -> None:
        self.demand += demand or 0.0
        self.sharing += 1
        if moves:
            self.movers.add(tp)

    def under(self, rate: int, tp: TopicPartition, *, on_leader: bool) -> Throttle:
        in_use = len(self.movers) > (tp in self.movers)
        return Throttle(rate, self.demand, on_leader, self.sharing, in_use)


def _makes_headway(lane: Lane) -> bool:
    """Whether a copy has been seen to move within the time after which it would be stalled."""
    still = lane.memory.still if lane.memory is not None else None
    return still is not None and still.moved and not stalled(still)


def _done_lately(timeline: Timeline, now_s: float) -> bool:
    ended_s = timeline.memory.ended_s if timeline.memory is not None else None
    done = timeline.phase is Phase.DONE and ended_s is not None
    return done and now_s - (ended_s or 0.0) < STALLED_AFTER_S


def _tightest(found: list[Throttle]) -> Throttle | None:
    return max(found, key=lambda one: one.demand / max(1, one.rate), default=None)


def _listed(replicas: str, partition: int, broker: int) -> bool:
    entries = _entries(replicas)
    return "*" in entries or f"{partition}:{broker}" in entries


@lru_cache(maxsize=1024)
def _entries(replicas: str) -> frozenset[str]:
    return frozenset(entry.strip() for entry in replicas.split(","))


def megabytes(bytes_s: float) -> str:
    """Give a rate as throttles are told: "2.0 MB/s", or in kB/s or B/s where that would be 0.0."""
    if bytes_s < 100:  # noqa: PLR2004  # below 0.1 kB/s
        return f"{bytes_s:.0f} B/s"
    if bytes_s < 100_000:  # noqa: PLR2004  # below 0.1 MB/s
        return f"{bytes_s / 1e3:.1f} kB/s"
    return f"{bytes_s / 1e6:.1f} MB/s"
