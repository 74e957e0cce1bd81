"""The state that one fold hands to the next, and when a replica counts as stalled."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState


class Health(enum.StrEnum):
    """The worst condition that holds for a partition."""

    OK = "ok"
    UNDER_REPLICATED = "under-replicated"
    UNDER_MIN_ISR = "under min ISR"
    OFFLINE = "offline"
    UNKNOWN = "unknown"


def health(state: PartitionState, config: TopicConfig | None) -> Health:
    """Judge a partition as Kafka's metrics do; replicas being added do not count as missing."""
    if not state.described:
        return Health.UNKNOWN
    if state.leader is None:
        return Health.OFFLINE
    needed = 0 if config is None else min(config.min_insync_replicas, len(state.replicas))
    if len(state.isr) < needed:
        return Health.UNDER_MIN_ISR
    if state.out_of_sync or len(state.isr) < len(state.original):
        return Health.UNDER_REPLICATED
    return Health.OK


class HealthCounts(msgspec.Struct, frozen=True):
    """How many partitions are unhealthy, each counted once by its worst condition."""

    offline: int = 0
    under_min_isr: int = 0
    under_replicated: int = 0
    counted_at: datetime | None = None

    @property
    def unhealthy(self) -> int:
        return self.offline + self.under_min_isr + self.under_replicated


def count_unhealthy(last: Observation) -> HealthCounts:
    """Count unhealthy partitions: polled ones as of the poll, all others as of the census."""
    counts = Counter(
        health(state, last.topic_configs.get(tp.topic)) for tp, state in last.partitions.items()
    )
    counts.update(_by_census(last))
    return HealthCounts(
        counts[Health.OFFLINE],
        counts[Health.UNDER_MIN_ISR],
        counts[Health.UNDER_REPLICATED],
        None if last.census is None else last.census.at,
    )


def _by_census(last: Observation) -> Iterator[Health]:
    if last.census is None:
        return
    sizes = last.census.in_sync
    for number, tp in enumerate(last.census.unhealthy):
        if tp in last.partitions:
            continue
        if sizes is None:
            yield Health.UNDER_REPLICATED
            continue
        config = last.topic_configs.get(tp.topic)
        if sizes[number] == 0:
            yield Health.OFFLINE
        elif config is not None and sizes[number] < config.min_insync_replicas:
            yield Health.UNDER_MIN_ISR
        else:
            yield Health.UNDER_REPLICATED


class Meter(msgspec.Struct, frozen=True, gc=False):
    """A growing count and its rate: the time-decayed average of its intervals."""

    value: int
    at_s: float
    rate: float | None = None
    weight: float = 0.0  # the part of the decaying window that intervals fill so far, 0 to 1
    quiet_s: float = 0.0  # seconds without growth, as far as a gulp may be under way
    interrupted: bool = False  # counting was impossible since: the next interval is no measure


class StillClock(msgspec.Struct, frozen=True, gc=False):
    """How long something has been observed to stand still; unobserved time does not count."""

    since_s: float
    seconds: float = 0.0
    polls: int = 0
    moved: bool = False  # whether headway was seen at `since_s`; if not, watching began
    blocked: bool = False


class CopySpan(msgspec.Struct, frozen=True, gc=False):
    """The beginning of a time in which the throttle of a copy's broker stayed the same."""

    at_s: float
    lag: int
    in_bytes: bool
    bound: int | None


class LaneMemory(msgspec.Struct, frozen=True, gc=False):
    """Memory of one replica that is catching up."""

    messages: Meter | None
    size: Meter | None
    still: StillClock
    rising_s: float = 0.0
    rising_from: int | None = None
    in_bytes: bool = False  # `rising_from` and the figures below, rather than messages
    from_lag: int | None = None  # the lag at the beginning of the current interval of `nets`
    from_s: float = 0.0
    nets: tuple[float, ...] = ()  # lag lost a second in recent intervals, oldest first
    starving_s: float = 0.0  # for which as much was written as the throttle lets through
    since: CopySpan | None = None


class MoveMemory(msgspec.Struct, frozen=True, gc=False):
    """Memory of one partition."""

    unseen_since_s: float | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()  # as the controller last listed them
    unlisted_since_s: float = 0.0
    unlisted_polls: int = 0  # consecutive polls with the same replicas, unlisted
    ended_s: float | None = None
    inbound: Meter | None = None
    inbound_size: Meter | None = None
    held: StillClock | None = None  # while every adding replica is in sync
    health: Health | None = None


class PollMemory(msgspec.Struct, frozen=True):
    """Memory of the observations themselves."""

    now_s: float  # the latest second observed; an older observation is folded as of this second
    typical_s: float | None = None
    lost_s: float = -math.inf  # second of the last poll before the latest gap
    brokers: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()
    unavailable: frozenset[str] = frozenset()


STALLED_AFTER_S = 30.0
STALLED_AFTER_POLLS = 5
FALLING_AFTER_S = 60.0
STARVED_AFTER_S = 15.0  # longer than a throttle's window, so that a burst is no rate


def count_still(clock: StillClock, passed_s: float) -> StillClock:
    """Count one more poll without headway; a poll after no time shows nothing new."""
    if passed_s <= 0.0:
        return clock
    seconds, polls = clock.seconds + passed_s, clock.polls + 1
    return StillClock(clock.since_s, seconds, polls, clock.moved, clock.blocked)


def stalled(clock: StillClock) -> bool:
    """Whether a replica has stood still for max(30 s, 5 polls)."""
    return clock.polls >= STALLED_AFTER_POLLS and clock.seconds >= STALLED_AFTER_S


def falling_behind(rising_s: float) -> bool:
    """Whether the lag has been rising for 60 s."""
    return rising_s >= FALLING_AFTER_S


def starved(starving_s: float) -> bool:
    """Whether for 15 s at least as much was written as a throttle lets through."""
    return starving_s >= STARVED_AFTER_S
