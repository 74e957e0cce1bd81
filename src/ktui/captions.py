"""Captions of a story, and the steps of a tour through it."""

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


class TourStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a tour says, and the keys that it then presses by itself."""

    say: str  # as of a caption
    press: tuple[str, ...] = ()  # characters, or Textual's names of keys
    hold_s: float = 8.0  # real seconds until the next step, after the last key
    when: StoryMoment | None = None  # what the step waits for
    speed: float | None = None  # of the cluster from here on; None for no change

    @property
    def begins_on_list(self) -> bool:
        """Whether the step can be gone on from, after somebody else has pressed keys."""
        return not self.press or self.press[0] == "escape"
