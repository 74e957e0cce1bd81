"""The line of steps: which are done, which one is open, and where something is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ktui.planning.check.findings import Severity
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.draw.paint import content

_OPEN, _DONE, _WRONG = "▸", " ✓", " !"
_GAP = Piece(" › ", "dim")  # noqa: RUF001 - the sign of a path
_ROLES = {Severity.PROBLEM: "stalled", Severity.WARNING: "falling-behind"}


class Crumbs(Widget):
    """Shows the steps side by side; a click asks for one.

    Args:
        names: the words of the steps.
    """

    DEFAULT_CSS = "Crumbs { height: 1; width: auto; }"

    class Asked(Message):
        """A step was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names
        self._open = 0
        self._wrong: Sequence[Severity | None] = [None] * len(names)

    def show(self, place: int, wrong: Sequence[Severity | None]) -> None:
        """Show which step is open, and the worst finding of each."""
        if (place, wrong) != (self._open, self._wrong):
            self._open, self._wrong = place, wrong
            self.refresh(layout=True)

    def render(self) -> Content:
        return content(part for crumb in self._crumbs() for part in crumb)

    def get_content_width(self, *_sizes: object) -> int:
        return sum(map(pieces_width, self._crumbs()))

    def _crumbs(self) -> list[list[Piece]]:
        """Return each step's pieces, with the gap before it."""
        crumbs = []
        for place, name in enumerate(self._names):
            is_open = place == self._open
            role = "" if is_open else "dim"
            sign = Piece(_OPEN if is_open else "", "moving", bold=True)
            crumb = [sign, Piece(f"{place + 1} {name}", role, bold=is_open), self._mark(place)]
            crumbs.append([_GAP, *crumb] if place else crumb)
        return crumbs

    def _mark(self, place: int) -> Piece:
        wrong = self._wrong[place]
        if wrong is not None:
            return Piece(_WRONG, _ROLES.get(wrong, ""), bold=True)
        return Piece(_DONE if place < self._open else "", "in-sync")

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        end = 0
        for place, crumb in enumerate(self._crumbs()):
            start, end = end, end + pieces_width(crumb)
            if offset is not None and start <= offset.x < end:
                self.post_message(self.Asked(place))
