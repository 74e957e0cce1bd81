"""Fields of forms: a choice among some words, a field to type into, text drawn where it changed."""

from __future__ import annotations

import asyncio
import enum
import shutil
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.widgets.bindings import give_ids

_CHOSEN, _OTHER = "● ", "○ "
_GAP = "   "
_LABEL_CELLS = 17


class Choices(Widget):
    """Shows the choices one below another, or side by side in as many lines as they need."""

    LABEL_ROLE: ClassVar = "dim"
    DEFAULT_CSS = "Choices { height: auto; padding: 0 1; }"

    class Chosen(Message):
        """A choice was clicked."""

        def __init__(self, choices: Choices, place: int) -> None:
            super().__init__()
            self.choices, self.place = choices, place

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
        self._place = 0

    def show(self, place: int) -> None:
        self._place = place
        self.refresh()

    def render(self) -> Content:
        width = self.content_size.width
        lines = []
        for number, places in enumerate(self._rows(width)):
            label = Piece(" " * len(self._label) if number else self._label, self.LABEL_ROLE)
            gaps = [part for place in places for part in (Piece(_GAP), self._piece(place))][1:]
            lines.append(content(cut_pieces([label, *gaps], width)))
        return Content("\n").join(lines)

    def get_content_height(self, _container: object, _viewport: object, width: int) -> int:
        return len(self._rows(width))

    def _rows(self, width: int) -> list[list[int]]:
        if not self._across:
            return [[place] for place in range(len(self._words))]
        rows, end = [[0]], len(self._label) + pieces_width([self._piece(0)])
        for place in range(1, len(self._words)):
            cells = pieces_width([self._piece(place)])
            if end + len(_GAP) + cells <= width:
                rows[-1].append(place)
                end += len(_GAP) + cells
            else:
                rows.append([place])
                end = len(self._label) + cells
        return rows

    def _piece(self, place: int) -> Piece:
        chosen = place == self._place
        sign = _CHOSEN if chosen else _OTHER
        return Piece(f"{sign}{self._words[place]}", "" if chosen else "dim", bold=chosen)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is None:
            return
        rows = self._rows(self.content_size.width)
        if not 0 <= at.y < len(rows):
            return
        place = self._across_at(at.x, rows[at.y]) if self._across else at.y
        if place is not None:
            self.post_message(self.Chosen(self, place))

    def _across_at(self, x: int, places: Sequence[int]) -> int | None:
        start = len(self._label)
        for place in places:
            end = start + pieces_width([self._piece(place)])
            if start <= x < end:
                return place
            start = end + len(_GAP)
        return None


class FormChoices(Choices, can_focus=True):
    """Choices side by side among the fields of a form; posts `Chosen` when another is picked."""

    DEFAULT_CSS = """
    FormChoices { padding: 0; }
    FormChoices:focus { background: $cursor; }
    """
    LABEL_ROLE = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "choose", key_display="←→", tooltip="Choose another"),
        Binding("right", "step(1)", "choose", show=False, tooltip="Choose another"),
        Binding("up", "app.focus_previous", "up", show=False, tooltip="Go to the field above"),
        Binding("down,enter", "app.focus_next", "down", show=False, tooltip="Go to the next field"),
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
        self._count = len(words)
        self.show(place)

    @property
    def place(self) -> int:
        return self._place

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Among fields no letter is a command, so the footer shows none."""
        del key
        return character is not None and character.isalpha()

    def action_step(self, step: int) -> None:
        self.post_message(self.Chosen(self, (self._place + step) % self._count))

    @on(Choices.Chosen)
    def _pick(self, event: Choices.Chosen) -> None:
        self.show(event.place)


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
        Binding("up", "recall(-1)", "earlier", show=False, tooltip="Bring back an earlier line"),
        Binding("down", "recall(1)", "later", show=False, tooltip="Bring back a later line"),
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
