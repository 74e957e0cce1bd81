"""The line of keys at the bottom of every screen."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_LEFT_OUT_FIRST = (
    "freeze", "play_again", "sort", "tell_story", "show_events", "show_brokers", "filter", "view",
    "show_runs", "pause",
)  # fmt: skip
"""The actions whose keys make place where the line is too short; `?` lists them all."""
_OF_A_RUN = ("show_limits", "pause", "start_plan", "show_runs")
"""Those that make place before all others while the view is attached to no run."""


class Keys(Footer):
    """Textual's footer as every screen has it: compact, in line with the text above.

    Where not all keys have room some are left out, so that none is cut.
    """

    DEFAULT_CSS = "Keys { padding-left: 2; }"

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)

    def compose(self) -> ComposeResult:
        """Lay out the keys that have room."""
        keys = [widget for widget in super().compose() if isinstance(widget, FooterKey)]
        room = (self.size.width or self.app.size.width) - 2
        attached = getattr(self.app, "attached", None) is not None
        for action in _LEFT_OUT_FIRST if attached else (*_OF_A_RUN, *_LEFT_OUT_FIRST):
            if sum(map(_width, keys)) - 1 <= room:
                break
            keys = [key for key in keys if key.action.removeprefix("app.") != action]
        yield from keys

    async def on_resize(self, event: Resize) -> None:
        """Choose anew among the keys."""
        del event
        await self.recompose()


def _width(key: FooterKey) -> int:
    return cell_len(f" {key.key_display} {key.description}")
