"""The lines of the events: groups, folded or not, and single events, wrapped to a width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.cells import cell_len
from textual.content import Content

from ktui.progress.timeline import Event
from ktui.tui.screens.event_groups import (
    FEWEST,
    extend_groups,
    group_severity,
    group_subject,
    group_words,
    splice,
)

_INDENT = "  "
"""In front of the events of an unfolded group."""


class EventRow(msgspec.Struct, frozen=True):
    """One line on the screen."""

    event: Event
    """The event, or the first one of a group."""
    text: str
    first: bool
    """Whether it is the first line of its event."""
    severity: int
    subject: str = ""
    """The subject of a group; empty for that of the event."""
    unfolds: bool | None = None
    """Whether the group of this line is folded; None where the line is that of an event."""

    def begins_as(self, other: EventRow) -> bool:
        """Return whether this is the first line of the same event, or of the same group."""
        same = self.event is other.event and (self.unfolds is None) is (other.unfolds is None)
        return same and self.first


class EventRows:
    """Keeps the lines while events come and go: only what changes is grouped and wrapped again."""

    def __init__(self) -> None:
        self._events: Sequence[Event] = ()
        self._groups: list[list[Event]] = []
        self._heights: list[int] = []
        """The lines of each group."""
        self._unfolded: dict[int, Event] = {}
        """The first events of the unfolded groups, by their identity."""
        self.rows: list[EventRow] = []
        self._width = 0

    def wrap(self, width: int) -> None:
        """Make all lines again, for a width of the text."""
        self._width = width
        self.rows, self._heights = [], []
        self._append(self._groups)

    def update(self, events: Sequence[Event]) -> int:
        """Take the present events, and return how many lines fell off the front."""
        dropped, kept = splice(self._events, events)
        gone_behind = len(self._events) - dropped - kept
        if not kept:
            self._unfolded.clear()
        self._events = events
        before = len(self.rows)
        self._drop(dropped)
        gone = before - len(self.rows)
        self._drop_last(gone_behind)
        last = self._groups[-1:]
        self._cut(len(self._groups) - len(last))
        extend_groups(last, events[kept:])
        self._append(last)
        self._groups += last
        return gone if kept else 0

    def _drop(self, count: int) -> None:
        """Drop events from the front."""
        whole = 0
        while whole < len(self._groups) and count >= len(self._groups[whole]):
            count -= len(self._groups[whole])
            whole += 1
        self._replace(0, whole, [])
        if count:
            rest = self._groups[0][count:]
            if id(self._groups[0][0]) in self._unfolded:
                self._unfolded[id(rest[0])] = rest[0]
            self._replace(0, 1, [rest])

    def _drop_last(self, count: int) -> None:
        """Drop events from the end."""
        whole = len(self._groups)
        while count and whole and count >= len(self._groups[whole - 1]):
            whole -= 1
            count -= len(self._groups[whole])
        self._cut(whole)
        if count:
            self._replace(whole - 1, 1, [self._groups[-1][:-count]])

    def _cut(self, groups: int) -> None:
        self._replace(groups, len(self._groups) - groups, [])

    def _replace(self, at: int, count: int, groups: list[list[Event]]) -> None:
        start = sum(self._heights[:at])
        end = start + sum(self._heights[at : at + count])
        made = [list(self._lines(group)) for group in groups]
        self.rows[start:end] = [row for lines in made for row in lines]
        self._heights[at : at + count] = map(len, made)
        self._groups[at : at + count] = groups

    def _append(self, groups: Sequence[list[Event]]) -> None:
        for group in groups:
            before = len(self.rows)
            self.rows += self._lines(group)
            self._heights.append(len(self.rows) - before)

    def fold(self, line: int, *, unfolds: bool | None) -> int:
        """Fold or unfold the group at a line; None for the other way round.

        Returns:
            The first line of that group, or the same line where there is no group.
        """
        at, start = self._group_at(line)
        if at is None or len(self._groups[at]) < FEWEST:
            return line
        first = self._groups[at][0]
        is_unfolded = id(first) in self._unfolded
        if (not is_unfolded if unfolds is None else unfolds) is is_unfolded:
            return line
        if is_unfolded:
            del self._unfolded[id(first)]
        else:
            self._unfolded[id(first)] = first
        self._replace(at, 1, [self._groups[at]])
        return start

    def _group_at(self, line: int) -> tuple[int | None, int]:
        start = 0
        for at, height in enumerate(self._heights):
            if line < start + height:
                return at, start
            start += height
        return None, 0

    def _lines(self, group: list[Event]) -> Iterator[EventRow]:
        if not self._width:
            return
        if len(group) < FEWEST:
            for event in group:
                yield from _event_lines(event, self._width)
            return
        unfolded = id(group[0]) in self._unfolded
        words = f"{group_words(group)} {'▾' if unfolded else '▸'}"
        severity, subject = group_severity(group), group_subject(group)
        for number, line in enumerate(_wrapped(words, self._width)):
            yield EventRow(group[0], line, number == 0, severity, subject, not unfolded)
        if unfolded:
            for event in group:
                yield from _event_lines(event, self._width, _INDENT)


def _event_lines(event: Event, width: int, indent: str = "") -> Iterator[EventRow]:
    for number, line in enumerate(_wrapped(event.what, width - len(indent))):
        yield EventRow(event, f"{indent}{line}", number == 0, event.severity)


def _wrapped(text: str, width: int) -> Sequence[str]:
    if cell_len(text) <= width:
        return [text]
    return [line.plain for line in Content(text).wrap(width)]
