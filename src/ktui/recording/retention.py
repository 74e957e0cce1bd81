"""Choose the segments that go: the oldest beyond the limits, unless something still needs them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ktui.recording.stored import StoredSegment


class KeptFor(enum.StrEnum):
    """Why a segment stays."""

    YOUNG = "young"
    """It is within the limits."""
    LIVE = "live"
    """A recorder is writing its session."""
    RUN = "run"
    """Its run is not over."""
    UNREAD = "unread"
    """No lake has read its session."""


class Retention(msgspec.Struct, frozen=True):
    """The limits of what stays. A segment beyond either of them goes; None is no limit."""

    older_than_s: float | None = None
    """The age of a segment's last line, in seconds."""
    keep_bytes: int | None = None
    """The size of all segments together."""


class Choice(msgspec.Struct, frozen=True):
    """The segments that go and those that stay, oldest first."""

    going: tuple[StoredSegment, ...]
    staying: Mapping[KeptFor, tuple[StoredSegment, ...]]
    """With each reason; a reason without segments has an empty entry."""

    @property
    def beyond_limits(self) -> bool:
        """Whether segments beyond the limits stay."""
        return any(kept for reason, kept in self.staying.items() if reason is not KeptFor.YOUNG)


def choose_segments(
    segments: Iterable[StoredSegment],
    limits: Retention,
    now_ms: int,
    needed_for: Callable[[StoredSegment], KeptFor | None],
) -> Choice:
    """Choose which segments go.

    Args:
        segments: all segments, in any order.
        limits: the limits.
        now_ms: wall time, milliseconds since 1970.
        needed_for: returns why a segment must stay although it is beyond the limits; None if it
            may go. It is called for no other segment.
    """
    oldest_first = sorted((last_ms, each.path, each) for each, last_ms in _last_lines(segments))
    excess = 0
    if limits.keep_bytes is not None:
        excess = sum(each.size for _, _, each in oldest_first) - limits.keep_bytes
    going: list[StoredSegment] = []
    staying: dict[KeptFor, list[StoredSegment]] = {reason: [] for reason in KeptFor}
    for last_ms, _, segment in oldest_first:
        if excess <= 0 and not _too_old(last_ms, limits, now_ms):
            staying[KeptFor.YOUNG].append(segment)
        elif (reason := needed_for(segment)) is not None:
            staying[reason].append(segment)
        else:
            going.append(segment)
            excess -= segment.size
    return Choice(tuple(going), {reason: tuple(kept) for reason, kept in staying.items()})


def _last_lines(segments: Iterable[StoredSegment]) -> Iterator[tuple[StoredSegment, int]]:
    """Yield each segment with the time of its last line, which is never before an earlier one's.

    A copy of a session may have got its files' times in another order.
    """
    latest: dict[Path, int] = {}
    for segment in sorted(segments, key=lambda each: each.path):
        last_ms = max(segment.modified_ms, latest.get(segment.session, segment.modified_ms))
        latest[segment.session] = last_ms
        yield segment, last_ms


def _too_old(last_ms: int, limits: Retention, now_ms: int) -> bool:
    return limits.older_than_s is not None and now_ms - last_ms > limits.older_than_s * 1_000
