"""Two lines of a branch: the run as it was at this moment, and as it is here."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ktui.rehearsal.branch.compare import RunMoment
from ktui.tui.draw.cells import Cell, Piece, cut_pieces
from ktui.tui.draw.paint import content

_NAMES = ("as it was", "here")
_BAR = 24
_LEAST_WIDTH = 100
"""A narrower line has no bar."""
_DONE, _LEFT = Cell("━", "moving"), Cell("─", "dim")
_NO_RUN = "no run had begun"


class BranchLines(Widget):
    """Draws two moments of one run, one below the other."""

    DEFAULT_CSS = """
    BranchLines { height: 2; background: $background; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._moments: tuple[RunMoment | None, RunMoment | None] = (None, None)

    def show(self, was: RunMoment | None, here: RunMoment | None) -> None:
        """Update both moments; None where there is no run."""
        if (was, here) != self._moments:
            self._moments = (was, here)
            self.refresh()

    def render(self) -> Content:
        width = self.size.width
        lines = (
            content(cut_pieces(_pieces(name, moment, width), width))
            for name, moment in zip(_NAMES, self._moments, strict=True)
        )
        return Content("\n").join(lines)


def _pieces(name: str, moment: RunMoment | None, width: int) -> list[Piece]:
    shown = Piece(f"  {name:<10}", bold=name == _NAMES[1])
    if moment is None:
        return [shown, Piece(_NO_RUN, "dim")]
    pieces = [shown]
    if width >= _LEAST_WIDTH:
        done = round(_BAR * min(1.0, moment.share))
        pieces += [Piece(_DONE.glyph * done, _DONE.role), Piece(_LEFT.glyph * (_BAR - done), "dim")]
    words = f" {moment.share:>4.0%}  {moment.done:,} of {moment.partitions:,} at target"
    return [*pieces, Piece(words), Piece(f"  {moment.state}", "dim")]
