"""Texts for drawings: times, and names of a cluster, which are untrusted and never markup."""

from __future__ import annotations

import html
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from ktui.cluster.text import clean
from ktui.pipeline.lake.records import PartitionRow, Span

T = TypeVar("T")
V = TypeVar("V")

_MOST_POINTS = 400


def as_time(t: int) -> str:
    """Format ms since 1970 as date and time in UTC: `2026-05-04 13:37:00`."""
    return datetime.fromtimestamp(t / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def grid(span: Span, cut: Sequence[Span] = ()) -> list[int]:
    """Return about 400 equally spaced moments in ms at most, at least 1 s apart, with both ends.

    Args:
        span: the first and the last moment.
        cut: spans within it that get no moments but their ends, in order.
    """
    began, ended = span
    left = ended - began - sum(to - since for since, to in cut)
    step = max(1000, -(-left // _MOST_POINTS))
    starts, ends = [began, *(to for _, to in cut)], [*(since for since, _ in cut), ended]
    moments = {t for start, end in zip(starts, ends, strict=True) for t in range(start, end, step)}
    return sorted({*moments, *starts, *ends})


def breaks(points: Iterable[tuple[int, V]], gaps: Sequence[Span]) -> list[tuple[int, V | None]]:
    """Replace what is within a gap of the recording by a point without a value.

    So no line bridges it.

    Args:
        points: times and values, in order of time.
        gaps: the gaps, in order.
    """
    known = [(t, value) for t, value in points if not any(a < t < b for a, b in gaps)]
    if not known:
        return []
    first, last = known[0][0], known[-1][0]
    holes: list[tuple[int, V | None]] = [
        (began + 1, None) for began, ended in gaps if first <= began and ended <= last
    ]
    return sorted([*known, *holes], key=lambda point: point[0])


def outside(spans: Iterable[Span], cut: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of spans that are in none of those to cut, which are in order."""
    for began, ended in spans:
        known = began
        for since, to in cut:
            if since < ended and known < to:
                if known < since:
                    yield known, since
                known = to
        if known < ended:
            yield known, ended


def held(values: Iterable[tuple[Span, V]], gaps: Sequence[Span]) -> list[tuple[int, V | None]]:
    """Return the points of a line of values that each hold for a time.

    Where there is none, and in each gap of the recording, is a point without a value.

    Args:
        values: the times and values, in order.
        gaps: the gaps, in order.
    """
    points: list[tuple[int, V | None]] = []
    for span, value in values:
        for began, ended in outside([span], gaps):
            if points and points[-1][0] != began:
                points.append((began, None))
            points += [(began, value), (ended, value)]
    return points


def until_next(times: Sequence[int], end: int) -> list[Span]:
    """Return the time from each moment to the next; that from the last one lasts to the end."""
    return list(zip(times, [*times[1:], end], strict=True))


class Counter:
    """Counts the intervals that contain a moment; an interval contains its start, not its end."""

    def __init__(self, intervals: Iterable[tuple[int, int | None]]) -> None:
        known = list(intervals)
        self._began = sorted(began for began, _ in known)
        self._ended = sorted(ended for _, ended in known if ended is not None)

    def at(self, t: int) -> int:
        """Count the intervals that contain this moment."""
        return bisect_right(self._began, t) - bisect_right(self._ended, t)

    def most(self) -> int:
        """Return the most intervals that contain the same moment."""
        return max((self.at(t) for t in self._began), default=0)


def thinned(points: Sequence[T], most: int = _MOST_POINTS) -> Sequence[T]:
    """Thin points out to at most about `most`; the last point always stays."""
    if len(points) <= most:
        return points
    every = -(-len(points) // most)
    return [*points[:-1:every], points[-1]]


_LONGEST = 26
_LABEL_WIDTH = 60
"""The most characters of a line of a label that pops up."""


def without_markup(text: str) -> str:
    """Escape all that the drawing library would read as markup."""
    return html.escape(clean(text), quote=False)


def hover_text(text: str) -> str:
    """Return a text for the drawing library, in lines short enough for a label."""
    lines = textwrap.wrap(clean(text), _LABEL_WIDTH, break_on_hyphens=False)
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def partition_name(row: PartitionRow) -> str:
    """Name a partition."""
    return f"{clean(row.topic)}-{row.partition}"


def short_partition_name(row: PartitionRow) -> str:
    """Name a partition so that the name fits beside a drawing: a long name loses its middle."""
    name = partition_name(row)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]}…{name[-(_LONGEST // 2 - 1) :]}"


def brokers(ids: tuple[int, ...] | None) -> str:
    """List broker ids as text, in their order; `-` for None."""
    return "-" if ids is None else ", ".join(map(str, ids))
