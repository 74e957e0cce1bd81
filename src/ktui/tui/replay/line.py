"""The line below a replay, and the prompt for a moment to go to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.recording.replay_tape import Tape, describe_range, parse_second
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Cell, Piece, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.replay.messages import ReplayPosition
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField

LEAST_BAR = 12
_HERE = Cell("●", "moving")
_PLAYED, _COMING = Cell("━", "moving"), Cell("─", "dim")
_NOT_KNOWN = Cell("·", "dim")
_NOTHING = Cell(" ", "dim")
MARKS = (Cell("╷", "dim"), Cell("▲", "falling-behind"), Cell("!", "stalled"))
"""The sign of an event, by its severity."""


class ReplayLine(Widget):
    """Draws a `ReplayPosition`; a click goes to the clicked moment."""

    DEFAULT_CSS = """
    ReplayLine { height: 1; background: $background; }
    """

    class Clicked(Message):
        """The operator clicked on a moment of the recording, here in its seconds."""

        def __init__(self, at_s: float) -> None:
            super().__init__()
            self.at_s = at_s

    def __init__(self) -> None:
        super().__init__()
        self._position: ReplayPosition | None = None
        self._bar_from = 0

    def show(self, position: ReplayPosition) -> None:
        """Update the position of the replay."""
        self._position = position
        self.refresh()

    def render(self) -> Content:
        if self._position is None:
            return Content("")
        words = _text_before_bar(self._position)
        self._bar_from = pieces_width(words) + 1
        room = self.size.width - self._bar_from - 2
        if room < LEAST_BAR:
            return content(words)
        cells = (Piece(cell.glyph, cell.role) for cell in bar_cells(self._position, room))
        edges = Piece("▕", "dim"), Piece("▏", "dim")
        return content([*words, edges[0], *cells, edges[1]])

    def on_click(self, event: events.Click) -> None:
        cell = event.get_content_offset_capture(self).x - self._bar_from
        room = self.size.width - self._bar_from - 2
        if self._position is not None and 0 <= cell < room:
            self.post_message(self.Clicked(_second(self._position, cell, room)))


def position_text(seconds: float) -> str:
    """Format a position in a recording: `4:07`, `1:21:30`."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def bar_cells(position: ReplayPosition, room: int) -> Iterator[Cell]:
    """Yield the cells of the bar; events cover the parts played and to come."""
    here = min(room - 1, int((position.at_s - position.from_s) / _cell_s(position, room)))
    for number in range(room):
        from_s, until_s = _second(position, number, room), _second(position, number + 1, room)
        if number == here:
            yield _HERE
        elif (severity := _worst_severity(position, from_s, until_s)) is not None:
            yield MARKS[severity]
        elif not any(s.from_s < until_s and s.until_s >= from_s for s in position.stretches):
            yield _NOTHING
        elif number < here:
            yield _PLAYED
        else:
            known = until_s <= position.surveyed_s or _fully_surveyed(position)
            yield _COMING if known else _NOT_KNOWN


def _text_before_bar(position: ReplayPosition) -> list[Piece]:
    length = position_text(position.until_s - position.from_s)
    played = position_text(position.at_s - position.from_s)
    pieces = [Piece("  "), Piece(played, bold=True), Piece(f" / {length}  ", "dim")]
    pieces.append(Piece(f"{position.at.astimezone():%Y-%m-%d %H:%M:%S}  "))
    pieces.append(Piece(f"x{position.speed:g}  "))
    if position.goes_to_s is not None:
        whole = max(position.goes_to_s - position.from_s, 1e-9)
        share = figures.as_share((position.reached_s - position.from_s) / whole)
        to = position_text(position.goes_to_s - position.from_s)
        pieces.append(Piece(f"going to {to}, {share}  ", "falling-behind", bold=True))
    elif position.ended:
        pieces.append(Piece("END  ", "in-sync", bold=True))
    elif position.paused:
        pieces.append(Piece("PAUSED  ", "falling-behind", bold=True))
    return pieces


def _cell_s(position: ReplayPosition, room: int) -> float:
    return max((position.until_s - position.from_s) / room, 1e-9)


def _second(position: ReplayPosition, cell: int, room: int) -> float:
    return position.from_s + cell * _cell_s(position, room)


def _fully_surveyed(position: ReplayPosition) -> bool:
    return position.surveyed_s >= position.until_s


def _worst_severity(position: ReplayPosition, from_s: float, until_s: float) -> int | None:
    """Return the worst severity of the events between two seconds; None where there is none."""
    first = bisect_left(position.marks, from_s, key=attrgetter("at_s"))
    behind = bisect_left(position.marks, until_s, key=attrgetter("at_s"))
    return max((mark.severity for mark in position.marks[first:behind]), default=None)


class MomentPrompt(Dialog[float | None]):
    """Asks for a moment; the result is its second of the tape, or None without one."""

    DEFAULT_CSS = "MomentPrompt #moment-hint { color: $dim; margin-top: 1; }"
    ENTER = "go there"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without going anywhere"),
    ]
    give_ids("moment", BINDINGS)

    def __init__(self, tape: Tape) -> None:
        super().__init__("Go to which moment?")
        self._tape = tape

    def body(self) -> ComposeResult:
        yield TextField(placeholder=f"{self._tape.wall(self._tape.from_s).astimezone():%H:%M:%S}")
        yield Static(self._hint, id="moment-hint", markup=False)

    @property
    def _hint(self) -> str:
        goes = f"The recording goes {describe_range(self._tape)}."
        how = "Give a time of day, a date and time, or +1m30s from the beginning."
        return f"{goes} {how}"

    @on(Input.Changed)
    def _typed(self) -> None:
        self.query_one("#moment-hint", Static).update(self._hint)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        if not event.value.strip():
            self.dismiss(None)
            return
        try:
            self.dismiss(parse_second(event.value, self._tape))
        except ValueError as error:
            words = Content.styled(f"{error}.", "$error")
            self.query_one("#moment-hint", Static).update(words)

    def action_leave(self) -> None:
        self.dismiss(None)
