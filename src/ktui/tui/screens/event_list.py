"""A list of events, oldest first. Textual's Line API lets ten thousand scroll like ten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ktui.progress.timeline import Event
from ktui.tui.draw.cells import partition_text

SIGNS = ("·", "!", "‼")
"""News, warning, trouble: the sign beside the colour."""
_WIDEST_SUBJECT = 40


class EventRow(msgspec.Struct, frozen=True):
    """One line on the screen: the first line of an event, or a further line of a long event."""

    event: Event
    text: str
    first: bool


class Columns(msgspec.Struct, frozen=True):
    """The widths of the parts of a line, in cells; rows are wrapped again when they change."""

    width: int
    dated: bool
    subject: int

    @property
    def time(self) -> int:
        """Cells of the time, with the date if the events span more than one day."""
        return 15 if self.dated else 8

    @property
    def text(self) -> int:
        """Cells left for the sentence."""
        return max(10, self.width - self.time - self.subject - 8)


class EventList(ScrollView, can_focus=True):
    """Shows events; stays at the newest unless the operator has scrolled up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "event--time", "event--subject", "event--news", "event--warning", "event--trouble",
    }  # fmt: skip
    DEFAULT_CSS = """
    EventList {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        & > .event--time { color: $dim; }
        & > .event--subject { color: $header; }
        & > .event--news { color: $foreground; }
        & > .event--warning { color: $warning; }
        & > .event--trouble { color: $error; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "end", "scroll_end", "newest", show=False, tooltip="Go to the newest event and follow"
        ),
        Binding("home", "scroll_home", "oldest", show=False, tooltip="Go to the oldest event"),
    ]

    class Moved(Message):
        """The operator has scrolled, or lines were added below."""

    def __init__(self) -> None:
        super().__init__()
        self.events: Sequence[Event] = ()
        self._rows: list[EventRow] = []
        self._widest = 0
        self._settling = False
        self.follows = True
        """Whether the list scrolls to new lines: True until the operator leaves the newest line."""
        self._columns = Columns(0, dated=False, subject=0)

    @property
    def lines_below(self) -> int:
        """How many lines are below the last visible one."""
        return max(0, len(self._rows) - self.scroll_offset.y - self.size.height)

    def show(self, events: Sequence[Event]) -> None:
        """Show these events. Visible lines stay; the list follows if the newest was visible."""
        dropped_events, added = _difference(self.events, events)
        self.events = events
        widest = max((cell_len(subject(event)) for event in added), default=0)
        self._widest = widest if dropped_events is None else max(widest, self._widest)
        if dropped_events is None or self._measure() != self._columns:
            self._wrap()
            dropped_lines = 0
        else:
            dropped_lines = _line_count(self._rows, dropped_events)
            self._rows[:dropped_lines] = []
            self._rows.extend(_rows(added, self._columns))
        self._settle(dropped_lines=dropped_lines)

    def on_resize(self) -> None:
        """Wrap the lines again for the new width."""
        self._wrap()
        self._settle(dropped_lines=0)

    def _wrap(self) -> None:
        self._columns = self._measure()
        self._rows = list(_rows(self.events, self._columns)) if self._columns.width else []

    def _measure(self) -> Columns:
        width = self.scrollable_content_region.width or self.size.width
        days = {event.at.astimezone().date() for event in (*self.events[:1], *self.events[-1:])}
        subject_width = min(self._widest, _WIDEST_SUBJECT, max(8, width // 4))
        return Columns(width, dated=len(days) > 1, subject=subject_width)

    def _settle(self, dropped_lines: int) -> None:
        self._settling = True
        self.virtual_size = Size(self._columns.width, len(self._rows))
        if self.follows:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)
        elif dropped_lines:
            self.scroll_to(
                y=max(0, self.scroll_offset.y - dropped_lines), animate=False, immediate=True
            )
        self._settling = False
        self.refresh()
        self.post_message(self.Moved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the newest or stop, as the operator scrolls, and notify the screen."""
        super().watch_scroll_y(old_value, new_value)
        if not self._settling:
            self.follows = new_value >= self.max_scroll_y
            self.post_message(self.Moved())

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        return Strip(self._segments(self._rows[number])).adjust_cell_length(width, self.rich_style)

    def _segments(self, row: EventRow) -> list[Segment]:
        columns = self._columns
        severity = self.get_component_rich_style(
            ("event--news", "event--warning", "event--trouble")[row.event.severity]
        )
        if not row.first:
            indent = columns.time + columns.subject + 6
            return [Segment(" " * indent, self.rich_style), Segment(row.text, severity)]
        form = "%b %d %H:%M:%S" if columns.dated else "%H:%M:%S"
        time = row.event.at.astimezone().strftime(form)
        return [
            Segment(f" {time:<{columns.time}} ", self.get_component_rich_style("event--time")),
            Segment(f"{SIGNS[row.event.severity]} ", severity),
            Segment(
                f"{_fitted(row.event, columns.subject)}  ",
                self.get_component_rich_style("event--subject"),
            ),
            Segment(row.text, severity),
        ]


def subject(event: Event) -> str:
    """Return the subject of an event: a partition, a broker, or the cluster."""
    if event.tp is not None:
        return str(event.tp)
    return "cluster" if event.broker is None else f"broker {event.broker}"


def _fitted(event: Event, width: int) -> str:
    if event.tp is not None:
        return partition_text(event.tp, width)
    return set_cell_size(subject(event), width)


def _rows(events: Iterable[Event], columns: Columns) -> Iterable[EventRow]:
    for event in events:
        if cell_len(event.what) <= columns.text:
            yield EventRow(event, event.what, first=True)
            continue
        for number, line in enumerate(Content(event.what).wrap(columns.text)):
            yield EventRow(event, line.plain, first=number == 0)


def _difference(old: Sequence[Event], new: Sequence[Event]) -> tuple[int | None, Sequence[Event]]:
    """Find how many events fell off the front, and which were added; None if all are different."""
    if not old or not new:
        return None, new
    last, first = old[-1], new[0]
    end = next((i for i in range(len(new), 0, -1) if new[i - 1] is last), None)
    dropped_events = next((i for i, event in enumerate(old) if event is first), None)
    if end is None or dropped_events is None or len(old) - dropped_events != end:
        return None, new
    return dropped_events, new[end:]


def _line_count(rows: Sequence[EventRow], events: int) -> int:
    left = events + 1
    for number, row in enumerate(rows):
        left -= row.first
        if not left:
            return number
    return len(rows)
