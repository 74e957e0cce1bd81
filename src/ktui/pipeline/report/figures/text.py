"""Texts for drawings: times, and names of a cluster, which are untrusted and never markup."""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from ktui.cluster.text import clean
from ktui.pipeline.lake.records import PartitionRow

T = TypeVar("T")

_MOST_POINTS = 400


def as_time(t: int) -> str:
    """Format ms since 1970 as date and time in UTC: `2026-05-04 13:37:00`."""
    return datetime.fromtimestamp(t / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def grid(span: tuple[int, int]) -> list[int]:
    """Return at most about 400 equally spaced moments in ms, at least 1 s apart, with both ends."""
    began, ended = span
    step = max(1000, -(-(ended - began) // _MOST_POINTS))
    return [*range(began, ended, step), ended]


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


def without_markup(text: str) -> str:
    """Escape all that the drawing library would read as markup."""
    return html.escape(clean(text), quote=False)


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
