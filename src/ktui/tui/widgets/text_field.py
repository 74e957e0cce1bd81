"""A field to type into, with a history, and the clipboard."""

from __future__ import annotations

import asyncio
import enum
import shutil
from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.widgets import Input

from ktui.tui.widgets.bindings import give_ids


class TextField(Input):
    """Textual's input with a cursor that stands still: nothing on these screens blinks."""

    cursor_blink = reactive(False, init=False)  # noqa: FBT003 - how a reactive takes its default


class HistoryField(TextField):
    """A field in which up and down bring back earlier lines.

    Args:
        history: the earlier lines, oldest first; `keep` adds to it.
        placeholder: the text of an empty field.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(-1)", "earlier", show=False, tooltip="Bring back an earlier line"),
        Binding("down", "recall(1)", "later", show=False, tooltip="Bring back a later line"),
    ]
    give_ids("history", BINDINGS)

    def __init__(self, history: list[str], placeholder: str = "") -> None:
        super().__init__(placeholder=placeholder, select_on_focus=False)
        self._history, self._place, self._typed = history, len(history), ""

    def keep(self) -> None:
        """Add the line to the history, once."""
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
    NONE = enum.auto()
    """The terminal is known to ignore it."""


def clipboard_route(environ: Mapping[str, str]) -> Route:
    """Return the way to the clipboard for a program in this environment."""
    if environ.get("TMUX") and shutil.which("tmux", path=environ.get("PATH")):
        return Route.TMUX
    terminal = environ.get("TERM_PROGRAM")
    return Route.NONE if terminal == "Apple_Terminal" else Route.TERMINAL


async def load_tmux_buffer(text: str) -> bool:
    """Make a text tmux's newest buffer, and have tmux send it to its own terminal.

    Returns:
        Whether tmux took it; one older than 3.2 knows no `-w`.
    """
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
