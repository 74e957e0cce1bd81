"""The Events screen: every event, to read, filter and export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from ktui.tui.draw.format import as_count
from ktui.tui.draw.titled_rule import panel_title, titled_rule
from ktui.tui.screens.event_list import SIGNS, EventList, subject
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
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


class EventsScreen(Screen[None]):
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
        Binding("N", "note", "note", tooltip="Write a note on the run among its events"),
        Binding("x", "export", "export", tooltip="Write the events shown to a JSON-lines file"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._events: Sequence[Event] = ()
        """The events at the last drawing, to draw again only where there are others."""
        self._filter_text = ""
        self._counts: Sequence[tuple[str, str]] = ()

    def compose(self) -> ComposeResult:
        """Lay out the header, the filter, the events and the keys."""
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
        """Show the empty state until there are events."""
        self._refresh()

    def show_progress(self) -> None:
        """Show the new events; they stay true also where the progress is no longer current."""
        events = services(self).events
        if events is self._events:
            return
        self._events = events
        if self.is_mounted:
            self._refresh()

    @property
    def shown(self) -> Sequence[Event]:
        """The events that pass the filter, oldest first."""
        words = self._filter_text.casefold().split()
        if not words:
            return self._events
        return [event for event in self._events if _matches(event, words)]

    def _refresh(self) -> None:
        events = self.query_one(EventList)
        events.show(self.shown)
        self._counts = _counts(events.events, len(self._events))
        empty = self.query_one("#events-empty", Static)
        empty.set_class(bool(events.events), "-away")
        empty.update(self._why_empty())
        self._refresh_title()

    def _why_empty(self) -> Content:
        if not self._events:
            return Content(NOTHING_YET)
        return Content(f"No event has {self._filter_text!r} in it. Escape clears the filter.")

    @on(Resize)
    @on(EventList.Moved)
    def _refresh_title(self) -> None:
        events = self.query_one(EventList)
        title = Content.assemble(panel_title("events"), " ", *self._counts, *self._place(events))
        self.query_one("#events-title", Static).update(titled_rule(title, self.size.width))

    def _place(self, events: EventList) -> list[tuple[str, str]]:
        parts = [(f" · filter: {self._filter_text}", "$header")] if self._filter_text else []
        if events.lines_below and not events.follows:
            below = as_count(events.lines_below, "line")
            parts.append((f" · {below} below, end: follow", "$dim"))
        return parts

    def action_filter(self) -> None:
        """Open the filter line."""
        line = self.query_one("#events-filter", Input)
        line.remove_class("-closed")
        line.focus()

    def action_back(self) -> None:
        """Clear the filter if there is one; otherwise go back."""
        line = self.query_one("#events-filter", Input)
        if line.has_class("-closed") and not self._filter_text:
            self.dismiss()
            return
        line.value = ""
        self._close(line)

    def _close(self, line: Input) -> None:
        line.add_class("-closed")
        self.query_one(EventList).focus()

    @on(Input.Changed, "#events-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self._refresh()

    @on(Input.Submitted, "#events-filter")
    def _filter_kept(self, event: Input.Submitted) -> None:
        self._close(event.input)

    def action_note(self) -> None:
        """Write a note on the run."""
        services(self).write_note()

    def action_export(self) -> None:
        """Write the events shown to a file."""
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


def _matches(event: Event, words: Sequence[str]) -> bool:
    text = f"{subject(event)} {SEVERITIES[event.severity]} {event.what}".casefold()
    return all(word in text for word in words)


def _counts(shown: Sequence[Event], total: int) -> list[tuple[str, str]]:
    number = f"{len(shown):,}" if len(shown) == total else f"{len(shown):,} of {total:,}"
    severities = Counter(event.severity for event in shown)
    _, warnings, troubles = (severities[severity] for severity in range(len(SEVERITIES)))
    parts = [(number, "$header")]
    if warnings:
        parts.append((f" · {SIGNS[1]} warnings {warnings:,}", "$warning"))
    if troubles:
        parts.append((f" · {SIGNS[2]} trouble {troubles:,}", "bold $error"))
    return parts
