"""The Events screen: every event, to read, filter and export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import msgspec
import platformdirs
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Input, Static

from ktui.progress.timeline import Event
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.format import as_count
from ktui.tui.draw.paint import content
from ktui.tui.draw.titled_rule import titled_rule
from ktui.tui.screens.event_filter import Choice, EventFilter
from ktui.tui.screens.event_list import SIGNS, EventList, subject
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import HeaderPart, StatusHeader, line
from ktui.tui.widgets.live_keys import key_names
from ktui.tui.widgets.own_errors import ReportsOwnErrors
from ktui.tui.widgets.services import services
from ktui.tui.widgets.text_field import TextField

SEVERITIES = ("news", "warning", "trouble")
NOTHING_YET = (
    "Nothing has happened since this view was opened.\n\n"
    "What happens to reassignments and brokers, and what could not be read, appears here."
)


def write_events(events: Sequence[Event], folders: Sequence[Path], now: datetime) -> Path:
    """Write the events to a new JSON-lines file in the first writable folder; return its path.

    Raises:
        OSError: no folder is writable; the reason is that of the last folder.
    """
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
    raise FileExistsError(f"{folder / stem}.jsonl and its like are there already")


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


class EventsScreen(Screen[None], ReportsOwnErrors):
    """Shows every event; the app calls `show_progress` after each poll."""

    CSS = """
    EventsScreen {
        background: $background;
        layers: events note;
        & > #events-title { height: 1; }
        & > #events-filter { height: 1; border: none; padding: 0 1; background: $cursor; }
        & > #events-filter.-closed { display: none; }
        & > #events-empty { layer: note; width: 100%; margin-top: 1; padding: 1 2; color: $dim; }
        & > #events-empty.-away { display: none; }
        & > EventList { height: 1fr; }
    }
    """
    AUTO_FOCUS = "EventList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", tooltip="Clear the filter, or go back"),
        Binding("q", "back", "back", show=False, tooltip="Go back"),
        Binding("slash", "filter", "filter", key_display="/", tooltip="Show only what matches"),
        *(
            Binding(key, f"choose('{choice}')", choice.value, tooltip=f"Show {about}")
            for key, choice, about in (
                ("1", Choice.ALL, "all events"),
                ("2", Choice.STEPS, "the moves of partitions: reassignments and steps of the run"),
                ("3", Choice.SETTINGS, "limits, throttles and settings"),
                ("4", Choice.TROUBLE, "warnings and trouble"),
            )
        ),
        Binding("N", "note", "note", tooltip="Write a note on the run among its events"),
        Binding("x", "export", "export", tooltip="Write the events shown to a JSON-lines file"),
    ]
    give_ids("events", BINDINGS)

    def __init__(self) -> None:
        super().__init__()
        self._events: Sequence[Event] = ()
        """The events at the last drawing, to draw again only where there are others."""
        self._filter_text = ""
        self._filter = EventFilter(_searched_text)

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(id="events-title", markup=False)
        yield TextField(
            placeholder="words to look for; enter keeps the filter, escape clears it",
            id="events-filter",
            classes="-closed",
        )
        yield EventList()
        yield Static(id="events-empty", markup=False)
        yield FooterKeys()

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
        """The events that pass the filters, oldest first."""
        return self._filter.shown

    def _refresh(self) -> None:
        events = self.query_one(EventList)
        self._filter.update(self._events)
        events.show(self.shown)
        empty = self.query_one("#events-empty", Static)
        empty.set_class(bool(events.events), "-away")
        empty.update(self._why_empty())
        self._refresh_title()

    def action_choose(self, choice: str) -> None:
        self._filter.choose(Choice(choice))
        self._refresh()

    def _why_empty(self) -> Content:
        if not self._events:
            return Content(NOTHING_YET)
        of = "" if self._filter.choice is Choice.ALL else f" among {self._filter.choice}"
        if not self._filter_text:
            return Content(f"There is no event{of}. Escape shows all.")
        return Content(f"No event{of} has {self._filter_text!r} in it. Escape clears the filter.")

    @on(Resize)
    @on(EventList.Moved)
    def _refresh_title(self) -> None:
        rule = self.query_one("#events-title", Static)
        events = self.query_one(EventList)
        parts = [HeaderPart((Piece("events", bold=True),)), *self._choices(), *self._place(events)]
        title = content(line(parts, HeaderPart(()), self.size.width - 2))[2:]
        rule.update(titled_rule(title.rstrip(), self.size.width))

    def _choices(self) -> Iterator[HeaderPart]:
        for rank, choice in zip((2, 3, 4, 1), Choice, strict=True):
            count = self._filter.counts[choice]
            trouble = choice is Choice.TROUBLE and count > 0
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
        field.remove_class("-closed")
        field.focus()

    def action_back(self) -> None:
        field = self.query_one("#events-filter", Input)
        all_chosen = self._filter.choice is Choice.ALL
        if field.has_class("-closed") and not self._filter_text and all_chosen:
            self.dismiss()
            return
        if not self._filter_text and not all_chosen:
            self.action_choose(Choice.ALL)
        field.value = ""
        self._close(field)

    def _close(self, field: Input) -> None:
        field.add_class("-closed")
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
        services(self).write_note()

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
