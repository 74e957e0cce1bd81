"""Captions of a story: what happens now, and what to look at."""

from __future__ import annotations

import enum

import msgspec


class StoryMoment(enum.StrEnum):
    """Something that a caption may wait for."""

    MOVING = "moving"
    """A partition is being reassigned."""
    BEHIND = "behind"
    """A copy falls behind what is written."""
    STALLED = "stalled"
    """A move makes no headway."""
    BROKER_DOWN = "broker-down"
    """A broker is down."""
    RECOVERED = "recovered"
    """Nothing is behind, stalled or down any more."""
    DONE = "done"
    """A partition has reached its target."""
    CANCELLED = "cancelled"
    """A move was cancelled."""
    TOPIC_GONE = "topic-gone"
    """A topic was deleted during its move."""
    OVER = "over"
    """Nothing moves any more, and the run has ended."""


class Caption(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence or two about what happens now, shown until the next caption."""

    say: str
    """The text; keys of the view stand between backticks."""
    at_s: float | None = None
    """Seconds from the cluster's first moment; None where it waits for a moment."""
    when: StoryMoment | None = None
