"""The Events screen: the list of all events, its filter and its export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import msgspec
import platformdirs
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from ktui.progress.timeline import Event
from ktui.tui.draw.cells import Piece, cut, partition_text
from ktui.tui.draw.format import as_count
from ktui.tui.draw.paint import content
from ktui.tui.screens.event_list import (
    EventChoice,
    EventFilter,
    EventRow,
    EventRows,
    Tone,
    splice,
)
from ktui.tui.widgets.bindings import bind, give_ids, hidden, key_names
from ktui.tui.widgets.fields import TextField
from ktui.tui.widgets.frame import TitledScreen
from ktui.tui.widgets.header import HeaderPart, line
from ktui.tui.widgets.lines import LineView
from ktui.tui.widgets.services import services

SIGNS = ("·", "!", "‼")  # news, warning, trouble: the sign beside the colour
_GOOD = "✓"
_ONE_LINE = 10_000  # cells: nothing is wrapped
_WIDEST_SUBJECT = 40
_MORE = "▸"  # there is more of a line than its place shows


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


class EventList(LineView, can_focus=True):
    """Shows events; stays at the newest unless the operator has scrolled up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "event--time", "event--subject", "event--news", "event--warning", "event--trouble",
        "event--cursor", "event--setting", "event--outcome",
    }  # fmt: skip
    DEFAULT_CSS = """
    EventList {
        overflow-x: hidden; scrollbar-gutter: stable; scrollbar-size-vertical: 1;
        & > .event--time { color: $dim; }
        & > .event--subject { color: $header; }
        & > .event--news { color: $foreground; }
        & > .event--setting { color: $dim; }
        & > .event--outcome { color: $in-sync; }
        & > .event--warning { color: $warning; }
        & > .event--trouble { color: $error; }
        & > .event--cursor { background: $cursor; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "fold(None)", "unfold", "Unfold the group, or fold it", key_display="↵"),
        hidden("right", "fold(True)", "unfold", "Unfold the group"),
        hidden("left", "fold(False)", "fold", "Fold the group"),
        hidden("up,k", "move(-1)", "up", "Go up by a line"),
        hidden("down,j", "move(1)", "down", "Go down by a line"),
        hidden("pageup", "page(-1)", "page up", "Go up by a page"),
        hidden("pagedown", "page(1)", "page down", "Go down by a page"),
        hidden("end,G", "last", "newest", "Go to the newest event and follow"),
        hidden("home,g", "first", "oldest", "Go to the oldest event"),
    ]
    give_ids("events", BINDINGS, {"fold(None)": "toggle"})

    class Moved(Message):
        """The operator has scrolled, or lines were added below."""

    def __init__(self, *, one_line: bool = False) -> None:
        """With `one_line`, an event has a line and no more, as where there is little room."""
        super().__init__()
        self.events: Sequence[Event] = ()
        self._one_line, self._run = one_line, ""
        self._lines = EventRows()
        self._cursor = 0
        self._widest = 0
        self._settling = False
        self.follows = True
        self._columns = Columns(0, dated=False, subject=0)

    @property
    def _rows(self) -> Sequence[EventRow]:
        return self._lines.rows

    @property
    def lines_below(self) -> int:
        return max(0, len(self._rows) - self.scroll_offset.y - self.size.height)

    def show(self, events: Sequence[Event]) -> None:
        """Show these events. Visible lines stay; the list follows if the newest was visible."""
        kept = splice(self.events, events).kept
        lasting = self._widest if kept else 0
        self._widest = max((cell_len(subject(e)) for e in events[kept:]), default=0)
        self._widest = max(lasting, self._widest)
        self.events = events
        status = services(self).run_status
        run, self._run = self._run, "" if status is None else status.name
        dropped_lines = self._lines.update(events)
        self._widen()
        if self._measure() != self._columns or run != self._run:
            self._wrap()
            dropped_lines = 0
        self._settle(dropped_lines=dropped_lines)

    def on_resize(self) -> None:
        under = self._rows[self._cursor] if self._cursor < len(self._rows) else None
        self._wrap()
        self._settle(dropped_lines=0)
        if under is not None and not self.follows:
            found = (i for i, row in enumerate(self._rows) if row.begins_as(under))
            self._go_to(next(found, self._cursor))

    def _wrap(self) -> None:
        self._columns = self._measure()
        self._lines.wrap(self._wrap_at() if self._columns.width else 0, self._run)
        self._widen()
        if self._measure() != self._columns:  # what the groups are about needs more room
            self._columns = self._measure()
            self._lines.wrap(self._wrap_at(), self._run)

    def _wrap_at(self) -> int:
        return _ONE_LINE if self._one_line else self._columns.text

    def _widen(self) -> None:
        grouped = (cell_len(row.subject) for row in self._rows if row.subject)
        self._widest = max(self._widest, max(grouped, default=0))

    def _measure(self) -> Columns:
        width = self.scrollable_content_region.width or self.size.width
        days = {event.at.astimezone().date() for event in (*self.events[:1], *self.events[-1:])}
        subject_width = min(self._widest, _WIDEST_SUBJECT, max(8, width // 4))
        return Columns(width, dated=len(days) > 1, subject=subject_width)

    def _settle(self, dropped_lines: int) -> None:
        self._settling = True
        self.fit(self._columns.width, len(self._rows))
        if self.follows:
            self._cursor = self._last_line
            self._scroll_to_line(self.max_scroll_y)
        elif dropped_lines:
            self._cursor = max(0, self._cursor - dropped_lines)
            self._scroll_to_line(max(0, self.scroll_offset.y - dropped_lines))
        self._settling = False
        self.refresh()
        self.post_message(self.Moved())

    @property
    def _last_line(self) -> int:
        return max(0, len(self._rows) - 1)

    def _scroll_to_line(self, y: float) -> None:
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._settling:
            at_end = new_value >= self.max_scroll_y
            if at_end and new_value > old_value:
                self.follows, self._cursor = True, self._last_line
            elif not at_end:
                self.follows = False
            self.post_message(self.Moved())

    def _go_to(self, line: int) -> None:
        self._cursor = max(0, min(line, self._last_line))
        self._settling = True
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if not top <= self._cursor < top + height:
            up = self._cursor < top
            self._scroll_to_line(self._cursor if up else self._cursor - height + 1)
        self._settling = False
        self.follows = self._cursor == self._last_line
        self.refresh()
        self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        top = self.scroll_offset.y
        visible = max(top, min(self._cursor, top + max(1, self.size.height) - 1))
        self._go_to(visible + by)

    def action_page(self, by: int) -> None:
        page = max(1, self.size.height)
        self._settling = True
        self._scroll_to_line(max(0, min(self.scroll_offset.y + by * page, self.max_scroll_y)))
        self._settling = False
        self._go_to(self._cursor + by * page)

    def action_first(self) -> None:
        self._go_to(0)

    def action_last(self) -> None:
        self._go_to(self._last_line)

    def action_fold(self, unfolds: bool | None) -> None:  # noqa: FBT001 - passed by the binding
        line = self._lines.fold(self._cursor, unfolds=unfolds)
        self._cursor, self.follows = line, False
        self._settle(dropped_lines=0)
        self._go_to(self._cursor)

    def on_click(self, event: Click) -> None:
        line = event.y + self.scroll_offset.y
        if line <= self._last_line and self._rows:
            self._go_to(line)
            if self._rows[line].unfolds is not None:
                self.action_fold(None)

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        strip = Strip(self._segments(self._rows[number])).adjust_cell_length(width, self.rich_style)
        if number != self._cursor or not self.can_focus:
            return strip
        behind = Style(bgcolor=self.get_component_rich_style("event--cursor").bgcolor)
        segments = [Segment("▌", self.rich_style), *strip.crop(1)]
        return Strip([Segment(text, (style or Style()) + behind) for text, style, _ in segments])

    def _segments(self, row: EventRow) -> list[Segment]:
        columns = self._columns
        severity = self.get_component_rich_style(_STYLES[row.severity or row.tone])
        sign = SIGNS[row.severity]
        if not row.severity and row.tone is Tone.OUTCOME:
            sign = _GOOD
        if not row.first:
            indent = columns.time + columns.subject + 6
            return [Segment(" " * indent, self.rich_style), Segment(row.text, severity)]
        form = "%b %d %H:%M:%S" if columns.dated else "%H:%M:%S"
        time = row.event.at.astimezone().strftime(form)
        return [
            Segment(f" {time:<{columns.time}} ", self.get_component_rich_style("event--time")),
            Segment(f"{sign} ", severity),
            Segment(
                f"{_fitted(row, columns.subject)}  ",
                self.get_component_rich_style("event--subject"),
            ),
            Segment(_cut(row, columns.text) if self._one_line else row.text, severity),
        ]


_STYLES: Mapping[int | Tone, str] = {
    1: "event--warning",
    2: "event--trouble",
    Tone.SETTING: "event--setting",
    Tone.NEWS: "event--news",
    Tone.OUTCOME: "event--outcome",
}


def _cut(row: EventRow, width: int) -> str:
    if cell_len(row.text) <= width:
        return row.text
    start = set_cell_size(row.text, width - 2)
    # a whole part of the sentence, else whole words: half a word reads as another
    ends = (start.rfind(", "), start.rfind(" "))
    end = next((at for at in ends if at >= width // 3), len(start))
    return f"{start[:end]} {_MORE}"


def subject(event: Event) -> str:
    """Return the subject of an event: a partition, a broker, or the cluster."""
    if event.tp is not None:
        return str(event.tp)
    return "cluster" if event.broker is None else f"broker {event.broker}"


def _fitted(row: EventRow, width: int) -> str:
    if row.event.tp is not None and not row.subject:
        return partition_text(row.event.tp, width)
    return cut(row.subject or subject(row.event), "", width)


SEVERITIES = ("news", "warning", "trouble")
NOTHING_YET = (
    "Nothing has happened since this view was opened.\n\n"
    "What happens to reassignments and brokers, and what could not be read, appears here."
)


def write_events(events: Sequence[Event], folders: Sequence[Path], now: datetime) -> Path:
    """Write the events to a new JSON-lines file in the first writable folder; return its path."""
    text = b"".join(_line(event) for event in events)
    for folder in folders[:-1]:
        try:
            return _write(folder, text, now)
        except OSError:
            continue
    folders[-1].mkdir(parents=True, exist_ok=True)
    return _write(folders[-1], text, now)


def _write(folder: Path, text: bytes, now: datetime) -> Path:
    stem = f"ktui-events-{now.astimezone():%Y%m%d-%H%M%S}"
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        path = folder / f"{stem}{suffix}.jsonl"
        try:
            with path.open("xb") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{folder / stem}.jsonl and 98 numbered ones already exist")


def _line(event: Event) -> bytes:
    tp = event.tp
    record = {
        "schema_version": 1,
        "at": event.at.astimezone(UTC),
        "severity": SEVERITIES[event.severity],
        "topic": None if tp is None else tp.topic,
        "partition": None if tp is None else tp.partition,
        "broker": event.broker,
        "what": event.what,
    }
    return msgspec.json.encode(record) + b"\n"


class EventsScreen(TitledScreen[None]):
    """Shows every event; the app calls `show_progress` after each poll."""

    TITLE = "events"
    CSS = """
    EventsScreen {
        layers: events note;
        & > #events-empty { layer: note; width: 100%; margin-top: 1; padding: 1 2; color: $dim; }
        & > EventList { height: 1fr; }
    }
    """
    AUTO_FOCUS = "EventList"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "back", "back", "Clear the filter, or go back"),
        hidden("q", "back", "back", "Go back"),
        bind("slash", "filter", "filter", "Show only what matches", key_display="/"),
        *(
            bind(key, f"choose('{choice}')", choice.value, f"Show {about}")
            for key, choice, about in (
                ("1", EventChoice.ALL, "all events"),
                (
                    "2",
                    EventChoice.STEPS,
                    "the moves of partitions: reassignments and steps of the run",
                ),
                ("3", EventChoice.SETTINGS, "limits, throttles and settings"),
                ("4", EventChoice.TROUBLE, "warnings and trouble"),
            )
        ),
        bind("N", "note", "note", "Write a note on the run among its events"),
        bind("x", "export", "export", "Write the events shown to a JSON-lines file"),
    ]
    give_ids("events", BINDINGS)

    def __init__(self) -> None:
        super().__init__()
        self._events: Sequence[Event] = ()
        self._filter_text = ""
        self._filter = EventFilter(_searched_text)

    def body(self) -> ComposeResult:
        yield TextField(
            placeholder="words to look for; enter keeps the filter, escape clears it",
            id="events-filter",
            classes="-away",
        )
        yield EventList()
        yield Static(id="events-empty", markup=False)

    def on_mount(self) -> None:
        self._refresh()

    def show_progress(self) -> None:
        events = services(self).events
        if events is self._events:
            return
        self._events = events
        if self.is_mounted:
            self._refresh()

    @property
    def shown(self) -> Sequence[Event]:
        return self._filter.shown

    def _refresh(self) -> None:
        events = self.query_one(EventList)
        self._filter.update(self._events)
        events.show(self.shown)
        empty = self.query_one("#events-empty", Static)
        empty.set_class(bool(events.events), "-away")
        empty.update(self._why_empty())
        self.draw_title()

    def action_choose(self, choice: str) -> None:
        self._filter.choose(EventChoice(choice))
        self._refresh()

    def _why_empty(self) -> Content:
        if not self._events:
            return Content(NOTHING_YET)
        of = "" if self._filter.choice is EventChoice.ALL else f" among {self._filter.choice}"
        if not self._filter_text:
            return Content(f"There is no event{of}. Escape shows all.")
        return Content(f"No event{of} has {self._filter_text!r} in it. Escape clears the filter.")

    @on(EventList.Moved)
    def _moved(self) -> None:
        self.draw_title()

    def heading(self) -> Content:
        events = self.query_one(EventList)
        run = services(self).run_status
        of = () if run is None else (Piece(" of run ", "dim"), Piece(run.name))
        title = HeaderPart((Piece("events", bold=True), *of), name=bool(of))
        parts = [title, *self._choices(), *self._place(events)]
        return content(line(parts, HeaderPart(()), self.size.width - 2))[2:].rstrip()

    def _choices(self) -> Iterator[HeaderPart]:
        for rank, choice in zip((2, 3, 4, 1), EventChoice, strict=True):
            count = self._filter.counts[choice]
            trouble = choice is EventChoice.TROUBLE and count > 0
            words = f"{SIGNS[2]} {choice} {count:,}" if trouble else f"{choice} {count:,}"
            role = "stalled" if trouble else "dim"
            if choice is self._filter.choice:
                role = role if trouble else "header"
                yield HeaderPart((Piece(f"[{words}]", role, bold=True),))
            else:
                yield HeaderPart((Piece(words, role),), rank)

    def _place(self, events: EventList) -> Iterator[HeaderPart]:
        if self._filter_text:
            of = self._filter.counts[self._filter.choice]
            words = f"{len(self.shown):,} of {of:,}  filter: {self._filter_text}"
            yield HeaderPart((Piece(words, "header"),))
        if events.lines_below and not events.follows:
            below = as_count(events.lines_below, "line")
            key = key_names(self).get("last", "")
            yield HeaderPart((Piece(f"{below} below, {key}: follow", "dim"),))

    def action_filter(self) -> None:
        field = self.query_one("#events-filter", Input)
        field.remove_class("-away")
        field.focus()

    def action_back(self) -> None:
        field = self.query_one("#events-filter", Input)
        all_chosen = self._filter.choice is EventChoice.ALL
        if field.has_class("-away") and not self._filter_text and all_chosen:
            self.dismiss()
            return
        if not self._filter_text and not all_chosen:
            self.action_choose(EventChoice.ALL)
        field.value = ""
        self._close(field)

    def _close(self, field: Input) -> None:
        field.add_class("-away")
        self.query_one(EventList).focus()

    @on(Input.Changed, "#events-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self._filter.look_for(self._filter_text)
        self._refresh()

    @on(Input.Submitted, "#events-filter")
    def _filter_kept(self, event: Input.Submitted) -> None:
        self._close(event.input)

    def action_note(self) -> None:
        services(self).run_controller.write_note()

    def action_export(self) -> None:
        events = list(self.shown)
        if events:
            self._export(events)
        else:
            self.notify("There are no events to write.", severity="warning", markup=False)

    @work(thread=True, exit_on_error=False, group="export", exclusive=True)
    def _export(self, events: Sequence[Event]) -> None:
        folders = (Path.cwd(), platformdirs.user_state_path("ktui"))
        try:
            path = write_events(events, folders, datetime.now(UTC))
        except OSError as error:
            words, severity = f"Could not write the events: {error}", "error"
        else:
            words, severity = f"Wrote {as_count(len(events), 'event')} to {path}", "information"
        self.app.call_from_thread(
            self.notify, words, title="Export", severity=severity, markup=False
        )


def _searched_text(event: Event) -> str:
    return f"{subject(event)} {SEVERITIES[event.severity]} {event.what}"
