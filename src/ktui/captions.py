"""Captions of a story: what happens now, and what to look at."""

from __future__ import annotations

import enum

import msgspec


class StoryMoment(enum.StrEnum):
    """Something that a caption may wait for."""

    MOVING = "moving"
    BEHIND = "behind"
    STALLED = "stalled"
    BROKER_DOWN = "broker-down"
    RECOVERED = "recovered"  # nothing is behind, stalled or down any more
    DONE = "done"
    CANCELLED = "cancelled"
    TOPIC_GONE = "topic-gone"
    OVER = "over"  # nothing moves any more, and the run has ended


class Caption(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence or two about what happens now, shown until the next caption."""

    say: str  # the text; keys of the view stand between backticks
    at_s: float | None = None  # seconds from the first moment; None: see `when`
    when: StoryMoment | None = None
