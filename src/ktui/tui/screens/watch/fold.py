"""The partitions of a run that wait for their turn, or are done, folded into a line each."""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ktui.execution.run.states import State
from ktui.progress.timeline import Timeline
from ktui.tui.draw.cells import Piece, cut_pieces
from ktui.tui.draw.paint import content
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.watch.columns import CURSOR_WIDTH
from ktui.tui.screens.watch.row_context import RowContext
from ktui.tui.screens.watch.words import run_waits

FOLDED_FROM = 6
"""Partitions from which folding them gains room."""
_NAMED = 2


class Fold(NamedTuple):
    """Which partitions of the run are folded."""

    queued: bool = False
    done: bool = False

    def hides(self, timeline: Timeline, context: RowContext) -> bool:
        """Return whether a partition has no row of its own; one in trouble always has one."""
        track = context.track(timeline)
        if track is None or context.run is None or context.health(timeline).unhealthy:
            return False
        if self.done and track.state is State.DONE:
            return True
        paused = track.tp in context.run.run.pauses.partitions
        return self.queued and track.state is State.QUEUED and not track.begun and not paused


def fold_of(rows: RunRows) -> Fold:
    """Fold what is many, as long as the run goes on and something else was or is to be seen."""
    whole, done = len(rows.run.tracks), rows.run.counts[State.DONE]
    return Fold(
        queued=FOLDED_FROM <= rows.queued < whole,
        done=FOLDED_FROM <= done < whole and not rows.run.ended,
    )


def fold_lines(fold: Fold, rows: RunRows) -> list[list[Piece]]:
    """Draw a line for each that is folded: how many, why they wait, and which are next."""
    lines = []
    if fold.queued:
        line = [Piece("▸ ", "moving"), Piece("queued "), Piece(f"{rows.queued:,}", bold=True)]
        first = rows.next_to_begin(_NAMED)
        waits = run_waits(first[0], rows) if first else None
        if waits is not None:
            line += [Piece(" · ", "dim"), Piece(waits.short, waits.role)]
        names = ", ".join(str(track.tp) for track in first)
        lines.append([*line, Piece(" · next: ", "dim"), Piece(names)])
    if fold.done:
        done = rows.run.counts[State.DONE]
        lines.append([Piece("✓ ", "done"), Piece("done "), Piece(f"{done:,}", bold=True)])
    key = [Piece("   "), Piece("o", "moving", bold=True), Piece(" shows the rows", "dim")]
    return [
        [Piece(" " * CURSOR_WIDTH), *line, *(() if number else key)]
        for number, line in enumerate(lines)
    ]


class FoldLines(Widget):
    """Draws what is folded, below the list; a click unfolds it. Takes no room without any."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    FoldLines { height: auto; background: $background; display: none; }
    FoldLines.-shown { display: block; }
    """

    class Clicked(Message):
        """The operator wants to see the rows."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[list[Piece]] = []

    def show(self, lines: list[list[Piece]]) -> None:
        """Show what is folded now."""
        if lines != self._lines:
            another_height = len(lines) != len(self._lines)
            self._lines = lines
            self.set_class(bool(lines), "-shown")
            self.refresh(layout=another_height)

    def render(self) -> Content:
        """Draw a line for each that is folded."""
        width = self.size.width
        return Content("\n").join(content(cut_pieces(line, width)) for line in self._lines)

    def on_click(self) -> None:
        """Unfold."""
        self.post_message(self.Clicked())
