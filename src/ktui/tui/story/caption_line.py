"""The line above the keys that says what happens in a story now, and what to look at."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from ktui.captions import Caption
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content

_SIGN = Piece("» ", "moving", bold=True)


class CaptionLine(Widget):
    """Draws a caption. It is always as high as the story's longest one: nothing above jumps.

    Args:
        captions: all captions of the story.
    """

    DEFAULT_CSS = """
    CaptionLine { height: auto; padding: 0 2; background: $cursor; }
    """

    def __init__(self, captions: Sequence[Caption]) -> None:
        super().__init__()
        self._every = [_drawn(caption) for caption in captions]
        self._shown: Caption | None = None

    def show(self, caption: Caption | None) -> None:
        """Show a caption; None for none yet."""
        if caption != self._shown:
            self._shown = caption
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return max((each.get_height({}, width) for each in self._every), default=0)

    def render(self) -> Content:
        return Content("") if self._shown is None else _drawn(self._shown)


def _drawn(caption: Caption) -> Content:
    """Draw the words, with the keys between backticks as keys are drawn everywhere."""
    parts = caption.say.split("`")
    keys = (
        Piece(part, "moving", bold=True) if number % 2 else Piece(part)
        for number, part in enumerate(parts)
    )
    return content([_SIGN, *keys])
