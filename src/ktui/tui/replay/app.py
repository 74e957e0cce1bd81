"""The app on a recording: the live view as it would have been, played forwards and backwards."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.recording.replay_tape import Tape, describe_range, parse_second
from ktui.rehearsal.compare import BranchPoint
from ktui.tui.app.simulated import TimedApp
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Cell, Piece, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.replay.player import (
    NOTHING_POLLED,
    Player,
    ReplayAdvanced,
    ReplayNotice,
    ReplayPosition,
    SearchDirection,
    Surveyed,
)
from ktui.tui.screens.dialog import Dialog
from ktui.tui.screens.run.change_screen import RunChangeScreen
from ktui.tui.widgets.bindings import APP_BINDINGS, bind, give_ids, hidden
from ktui.tui.widgets.fields import TextField
from ktui.tui.widgets.header import StatusHeader, line_under
from ktui.tui.widgets.services import Notification, Status

LEAST_BAR = 12
_HERE = Cell("●", "moving")
_PLAYED, _COMING = Cell("━", "moving"), Cell("─", "dim")
_NOT_KNOWN = Cell("·", "dim")
_NOTHING = Cell(" ", "dim")
MARKS = (Cell("╷", "dim"), Cell("▲", "falling-behind"), Cell("!", "stalled"))
"""The sign of an event, by its severity."""


class ReplayLine(Widget):
    """Draws a `ReplayPosition`; a click goes to the clicked moment."""

    DEFAULT_CSS = "ReplayLine { height: 1; background: $background; }"

    @dataclass
    class Clicked(Message):
        """The operator clicked on a moment of the recording, here in its seconds."""

        at_s: float

    position: reactive[ReplayPosition | None] = reactive(None)
    _bar_from = 0

    def render(self) -> Content:
        if self.position is None:
            return Content("")
        words = _text_before_bar(self.position)
        self._bar_from = pieces_width(words) + 1
        room = self.size.width - self._bar_from - 2
        if room < LEAST_BAR:
            return content(words)
        cells = (Piece(cell.glyph, cell.role) for cell in bar_cells(self.position, room))
        edges = Piece("▕", "dim"), Piece("▏", "dim")
        return content([*words, edges[0], *cells, edges[1]])

    def on_click(self, event: events.Click) -> None:
        cell = event.get_content_offset_capture(self).x - self._bar_from
        room = self.size.width - self._bar_from - 2
        if self.position is not None and 0 <= cell < room:
            self.post_message(self.Clicked(_second(self.position, cell, room)))


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
            known = position.surveyed_s >= min(until_s, position.until_s)
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


def _worst_severity(position: ReplayPosition, from_s: float, until_s: float) -> int | None:
    first = bisect_left(position.marks, from_s, key=attrgetter("at_s"))
    behind = bisect_left(position.marks, until_s, key=attrgetter("at_s"))
    return max((mark.severity for mark in position.marks[first:behind]), default=None)


class MomentPrompt(Dialog[float | None]):
    """Asks for a moment; the result is its second of the tape, or None without one."""

    DEFAULT_CSS = "MomentPrompt #moment-hint { color: $dim; margin-top: 1; }"
    ENTER = "go there"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "back", "Go back without going anywhere"),
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


_CHANGES_NOTHING = "A replay is read-only: nothing can be changed in it."
_LEFT_OUT = (
    "start_plan",
    "pause",
    "cancel",
    "cancel_foreign",
    "open_gate",
    "undo",
    "show_insights",
    "quit_view",
)
_USUAL_POLL_S = 1.0

REPLAY_BINDINGS = [
    bind("p", "play", "play/pause", "Pause the recording, or go on"),
    bind(
        "left", "seek(-10)", "10 s",
        "Go 10 s of the recording back", key_display="←→", priority=True, id="replay.back",
    ),
    hidden(
        "right", "seek(10)", "10 s",
        "Go 10 s of the recording on", priority=True, id="replay.on",
    ),
    hidden(
        "shift+left", "seek(-60)", "a minute back",
        "Go a minute of the recording back", priority=True,
    ),
    hidden(
        "shift+right", "seek(60)", "a minute on",
        "Go a minute of the recording on", priority=True,
    ),
    bind("minus", "slower", "speed", "Play more slowly", key_display="-+", id="replay.slower"),
    hidden("plus", "faster", "faster", "Play faster"),
    bind(
        "full_stop", "event(True)", "next event",
        "Go to the next event that is trouble, or not about one partition alone", key_display=".",
    ),
    hidden("comma", "event(False)", "previous event", "Go to the event before"),
    bind("a", "go_to", "go to", "Go to a time of the recording"),
    bind(
        "W", "branch", "what if",
        "Go on differently from this moment, on a simulated twin of it", id="replay.branch",
    ),
]  # fmt: skip
give_ids("replay", REPLAY_BINDINGS)


class ReplayApp(TimedApp, inherit_bindings=False):
    """Shows a recording; `again` returns the command that continues from a position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in APP_BINDINGS if binding.action not in _LEFT_OUT),
        *REPLAY_BINDINGS,
        bind("q", "quit_view", "quit", "Close the replay", id="app.quit"),
        hidden("ctrl+c,ctrl+q", "quit_view", "quit", priority=True, id="app.interrupt"),
    ]

    def __init__(
        self,
        playing: Player,
        *,
        state_dir: StateDir,
        name: str,
        recording: str,
        again: Callable[[str], str],
        **how: Any,
    ) -> None:
        super().__init__(
            playing,
            cluster_name=name,
            read_only=True,
            poll_interval_s=_USUAL_POLL_S,
            clock=playing.clock,
            state_dir=state_dir,
            why_read_only=_CHANGES_NOTHING,
            finds_runs=False,
            place_of_runs=f"in the recording {recording}",
            **how,
        )
        self._playing, self._recording = playing, recording
        self.plays = True
        self._resume_command = again
        self.branch: BranchPoint | None = None
        self._newest: RunDir | None = None
        self.watch_screen.when_never_polled = (
            "The recording does not have these: its recorder did not read them."
        )
        playing.post_to(self.post_message)

    def on_ready(self) -> None:
        if self.plays:
            self._playing.clock.run()

    @on(ReplayAdvanced)
    def _show_played(self, message: ReplayAdvanced) -> None:
        if message.jumped:
            self.forget_polls()
        self._follow_newest(message.run)
        self.show_polled()
        self.draw_lines()

    def _follow_newest(self, newest: RunDir | None) -> None:
        """Attach to the run that began last, unless the operator has chosen another one since."""
        if newest == self._newest:
            return
        self._newest = newest
        if newest is None:
            self.run_controller.detach()
        else:
            self.attach_to(newest)

    def refresh_screens(self) -> None:
        self.refresh_run()
        super().refresh_screens()

    @on(ReplayNotice)
    def _show_notice(self, message: ReplayNotice) -> None:
        if message.instead:
            self.clear_notifications()
        self.notify(message.words, severity=message.severity)

    @on(Surveyed)
    def _show_survey(self) -> None:
        self.draw_lines()

    def draw_lines(self) -> None:
        position = self._playing.position
        for screen in self.screen_stack:
            for header in screen.query(StatusHeader):
                line_under(header, ReplayLine).position = position

    @property
    def keys_left_out_first(self) -> tuple[str, ...]:
        return ("mark", "show_throttle", "show_limits", "show_runs", "freeze", "sort")

    @property
    def keys_in_dialogs(self) -> Mapping[str, str]:
        return {binding.key: binding.action for binding in REPLAY_BINDINGS if not binding.priority}

    def cluster_status(self) -> Status:
        memory = self.progress.memory
        typical_s = None if memory is None else memory.typical_s
        return msgspec.structs.replace(
            super().cluster_status(),
            badge="REPLAY",
            until_seen="reading the recording …",
            interval_s=typical_s or _USUAL_POLL_S,
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        other = isinstance(self.screen, ModalScreen) and not isinstance(
            self.screen, RunChangeScreen
        )
        if action == "seek" and (isinstance(self.focused, Input) or other):
            return False
        return super().check_action(action, parameters)

    def action_play(self) -> None:
        clock, position = self._playing.clock, self._playing.position
        if position.ended:
            self._playing.go_to(self._playing.first_s)
            clock.run()
        elif clock.paused:
            clock.run()
        else:
            clock.pause()
        self.draw_lines()

    def action_seek(self, seconds: int) -> None:
        self._playing.go_by(float(seconds))

    def action_event(self, onwards: bool) -> None:  # noqa: FBT001 - passed by the binding
        self._playing.go_to(SearchDirection.NEXT if onwards else SearchDirection.PREVIOUS)

    async def action_go_to(self) -> None:
        def answered(at_s: float | None) -> None:
            if at_s is not None:
                self._playing.go_to(at_s)

        await self.push_screen(MomentPrompt(self._playing.tape), answered)

    def action_branch(self) -> None:
        words = "Reading the recording to its end, for a twin of this moment …"
        self.notify(words)
        self.run_worker(self._branch(), group="branch", exclusive=True, exit_on_error=False)

    async def _branch(self) -> None:
        self.branch = await self._playing.branch_point(self._recording)
        if self.branch is None:
            self.notify(NOTHING_POLLED, severity="warning")
        else:
            self.exit()

    @on(ReplayLine.Clicked)
    def _go_where_clicked(self, message: ReplayLine.Clicked) -> None:
        self._playing.go_to(message.at_s)

    def note_message(self, shown: Notification) -> None:
        """Keep nothing: the events are those of the past."""

    def roll_back_run(self, folder: RunDir) -> None:
        del folder
        self.notify(_CHANGES_NOTHING, severity="warning")

    def action_quit_view(self) -> None:
        position = self._playing.position
        at_s = position.at_s - position.from_s
        words = f"ktui: replay closed at {position_text(at_s)}."
        if not position.ended and at_s >= 1:
            words += f" To go on from there: {self._resume_command(f'+{int(at_s)}s')}"
        self.exit(message=Text(words))
