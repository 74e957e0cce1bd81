"""Fields of forms: a choice among some words, a field to type into, text drawn where it changed."""

from __future__ import annotations

import asyncio
import enum
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.widgets.bindings import bind, give_ids, hidden

_CHOSEN, _OTHER = "● ", "○ "
_GAP = "   "
_LABEL_CELLS = 17


class Choices(Widget):
    """Shows the choices one below another, or side by side in as many lines as they need."""

    LABEL_ROLE: ClassVar = "dim"
    DEFAULT_CSS = "Choices { height: auto; padding: 0 1; }"
    place: reactive[int] = reactive(0)

    @dataclass
    class Chosen(Message):
        """A choice was clicked."""

        choices: Choices
        place: int

        @property
        def control(self) -> Choices:
            return self.choices

    def __init__(
        self,
        label: str,
        words: Sequence[str],
        *,
        id: str,  # noqa: A002 - as Textual names it
        across: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._label, self._words, self._across = f"{label:<7}", words, across

    def render(self) -> Content:
        width = self.content_size.width
        lines: list[list[Piece]] = []
        for row, _, place in self._places(width):
            if row == len(lines):
                label = " " * len(self._label) if row else self._label
                lines.append([Piece(label, self.LABEL_ROLE), self._piece(place)])
            else:
                lines[-1] += [Piece(_GAP), self._piece(place)]
        return Content("\n").join(content(cut_pieces(line, width)) for line in lines)

    def get_content_height(self, _container: object, _viewport: object, width: int) -> int:
        return max((row for row, _, _ in self._places(width)), default=-1) + 1

    def _places(self, width: int) -> Iterator[tuple[int, int, int]]:
        """Yield the row and the first cell of each choice, and its place among them."""
        row, start = 0, len(self._label)
        for place in range(len(self._words)):
            end = start + pieces_width([self._piece(place)])
            if place and (end > width or not self._across):
                row, start, end = row + 1, len(self._label), len(self._label) + end - start
            yield row, start, place
            start = end + len(_GAP)

    def _piece(self, place: int) -> Piece:
        chosen = place == self.place
        sign = _CHOSEN if chosen else _OTHER
        return Piece(f"{sign}{self._words[place]}", "" if chosen else "dim", bold=chosen)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        for row, start, place in self._places(self.content_size.width):
            end = start + pieces_width([self._piece(place)])
            if at is not None and row == at.y and (start <= at.x < end or not self._across):
                self.post_message(self.Chosen(self, place))


class FormChoices(Choices, can_focus=True):
    """Choices side by side among the fields of a form; posts `Chosen` when another is picked."""

    DEFAULT_CSS = """
    FormChoices { padding: 0; }
    FormChoices:focus { background: $cursor; }
    """
    LABEL_ROLE = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "step(-1)", "choose", "Choose another", key_display="←→"),
        hidden("right", "step(1)", "choose", "Choose another"),
        hidden("up", "app.focus_previous", "up", "Go to the field above"),
        hidden("down,enter", "app.focus_next", "down", "Go to the next field"),
    ]
    give_ids("choice", BINDINGS, {"step(-1)": "left", "step(1)": "right"})

    def __init__(
        self,
        label: str,
        words: Sequence[str],
        *,
        id: str,  # noqa: A002 - as Textual names it
        place: int = 0,
    ) -> None:
        super().__init__(f"{label:<{_LABEL_CELLS}}", words, id=id, across=True)
        self.set_reactive(FormChoices.place, place)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Among fields no letter is a command, so the footer shows none."""
        del key
        return character is not None and character.isalpha()

    def action_step(self, step: int) -> None:
        self.post_message(self.Chosen(self, (self.place + step) % len(self._words)))

    @on(Choices.Chosen)
    def _pick(self, event: Choices.Chosen) -> None:
        self.place = event.place


class TextField(Input):
    """Textual's input in one line, with a cursor that stands still: nothing here blinks."""

    DEFAULT_CSS = """
    TextField {
        height: 1; border: none; padding: 0 1; background: $cursor;
        &:focus { border: none; }
    }
    """
    cursor_blink = reactive(False, init=False)  # noqa: FBT003 - how a reactive takes its default


class HistoryField(TextField):
    """A field in which up and down bring back earlier lines, oldest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("up", "recall(-1)", "earlier", "Bring back an earlier line"),
        hidden("down", "recall(1)", "later", "Bring back a later line"),
    ]
    give_ids("history", BINDINGS)

    def __init__(self, history: list[str], placeholder: str = "") -> None:
        super().__init__(placeholder=placeholder, select_on_focus=False)
        self._history, self._place, self._typed = history, len(history), ""

    def keep(self) -> None:
        if line := self.value.strip():
            if line in self._history:
                self._history.remove(line)
            self._history.append(line)
        self._place = len(self._history)

    def action_recall(self, step: int) -> None:
        lines = self._history
        if self._place == len(lines):
            self._typed = self.value
        if step < 0 and self._place and lines[self._place - 1] == self.value:
            step -= 1  # the line that stands there already is no earlier one
        self._place = max(0, min(self._place + step, len(lines)))
        self.value = lines[self._place] if self._place < len(lines) else self._typed
        self.cursor_position = len(self.value)


TMUX_TIMEOUT_S = 2.0


class Route(enum.Enum):
    """What a copied text is handed to."""

    TMUX = enum.auto()
    TERMINAL = enum.auto()
    """The terminal takes it by OSC 52; one that knows nothing of it ignores it."""
    NONE = enum.auto()  # the terminal is known to ignore it


def clipboard_route(environ: Mapping[str, str]) -> Route:
    """Return the way to the clipboard for a program in this environment."""
    if environ.get("TMUX") and shutil.which("tmux", path=environ.get("PATH")):
        return Route.TMUX
    terminal = environ.get("TERM_PROGRAM")
    return Route.NONE if terminal == "Apple_Terminal" else Route.TERMINAL


async def load_tmux_buffer(text: str) -> bool:
    """Make a text tmux's newest buffer and send it on; False before tmux 3.2, without `-w`."""
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        tmux = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=pipe, stdout=nowhere, stderr=nowhere
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(tmux.communicate(text.encode()), TMUX_TIMEOUT_S)
    except TimeoutError:
        tmux.kill()
        await tmux.wait()
    return tmux.returncode == 0
