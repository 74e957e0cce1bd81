"""What the next fold needs to know of the earlier ones; nothing here is for drawing.

All seconds are monotonic. The records are leaves without cycles, so the collector skips them.
"""

from __future__ import annotations

import math

import msgspec

from ktui.progress.health import Health


class Meter(msgspec.Struct, frozen=True, gc=False):
    """A count that grows, and how fast: the time-decayed average of its intervals."""

    value: int
    at_s: float
    rate: float | None = None
    """Per second; None until two readings are known."""
    weight: float = 0.0
    """How much of the decaying window the intervals fill so far, 0 to 1."""
    quiet_s: float = 0.0
    """For how long it has not grown, as far as a gulp may be under way."""
    interrupted: bool = False
    """Nothing could be counted since: the next interval is no measure of a rate."""


class StillClock(msgspec.Struct, frozen=True, gc=False):
    """How long something has been seen to stand still; unseen time does not count."""

    since_s: float
    """Second of the last headway."""
    seconds: float = 0.0
    polls: int = 0
    moved: bool = False
    """It was seen to move at `since_s`; otherwise that is when watching it began."""
    blocked: bool = False
    """The last poll itself showed that it could not move."""


class LaneMemory(msgspec.Struct, frozen=True, gc=False):
    """Of one replica that is catching up."""

    messages: Meter | None
    """Its log end offset."""
    size: Meter | None
    """Its bytes on disk."""
    still: StillClock
    rising_s: float = 0.0
    """For how long its lag has been rising."""
    rising_from: int | None = None
    """The lag when it began to rise."""
    in_bytes: bool = False
    """Whether `rising_from` and the figures below are bytes rather than messages."""
    from_lag: int | None = None
    """The lag at which the current interval of `nets` began, and when."""
    from_s: float = 0.0
    nets: tuple[float, ...] = ()
    """Lag lost a second in each of the recent intervals, oldest first."""
    starving_s: float = 0.0
    """For how long no less has been written than its throttle lets through."""


class MoveMemory(msgspec.Struct, frozen=True, gc=False):
    """Of one partition."""

    unseen_since_s: float | None = None
    """Since when no observation has shown the partition."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """As the controller listed them last."""
    unlisted_since_s: float = 0.0
    unlisted_polls: int = 0
    """Polls in a row that saw it unlisted with the same replicas."""
    ended_s: float | None = None
    inbound: Meter | None = None
    """The leader's log end offset."""
    inbound_size: Meter | None = None
    """The leader's bytes on disk."""
    held: StillClock | None = None
    """Since when it is listed although every adding replica is in sync."""
    health: Health | None = None
    """As of when it could be judged last."""


class PollMemory(msgspec.Struct, frozen=True):
    """Of the observations themselves."""

    now_s: float
    """The latest second seen: an observation from before it is folded as of it."""
    typical_s: float | None = None
    """Seconds between polls, smoothed."""
    lost_s: float = -math.inf
    """Second of the last look before the latest gap."""
    brokers: frozenset[int] = frozenset()
    """Brokers that were ever registered."""
    down: frozenset[int] = frozenset()
    unavailable: frozenset[str] = frozenset()
    """Figures that an event has named as missing."""
