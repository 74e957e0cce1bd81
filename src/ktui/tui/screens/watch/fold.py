"""The partitions of a run that are blocked, wait for their turn or are done, a line for each."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import NamedTuple

from ktui.execution.run.states import State
from ktui.progress.timeline import Timeline
from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.watch.words import RowContext, run_waits

FOLDED_FROM = 6
"""Partitions from which folding them gains room."""
_NAMED = 2
_DOT = (Piece(" "), Piece("· ", "dim"))


class FoldKind(enum.Enum):
    """The partitions that one line stands for."""

    BLOCKED = enum.auto()
    QUEUED = enum.auto()
    DONE = enum.auto()


NOTHING_UNFOLDED: frozenset[FoldKind] = frozenset()


class Fold(NamedTuple):
    """Which partitions of the run are folded."""

    queued: bool = False
    done: bool = False
    blocked: str = ""
    """The reason for which they are blocked; empty while none are folded."""

    def hides(self, timeline: Timeline, context: RowContext) -> bool:
        """Return whether a partition has no row of its own; one in trouble always has one."""
        track = context.track(timeline)
        if track is None or context.run is None or context.health(timeline).unhealthy:
            return False
        if self.done and track.state is State.DONE:
            return True
        if track.begun or track.tp in context.run.run.pauses.partitions:
            return False
        if track.state is State.BLOCKED:
            return bool(self.blocked) and track.reason == self.blocked
        return self.queued and track.state is State.QUEUED

    @property
    def kinds(self) -> list[FoldKind]:
        """The kinds that are folded, in the order of their lines."""
        folded = {
            FoldKind.BLOCKED: bool(self.blocked),
            FoldKind.QUEUED: self.queued,
            FoldKind.DONE: self.done,
        }
        return [kind for kind, is_folded in folded.items() if is_folded]


def kind_of(timeline: Timeline, context: RowContext) -> FoldKind | None:
    """Return the line that may stand for a partition; None for one that always has a row."""
    if Fold(queued=True).hides(timeline, context):
        return FoldKind.QUEUED
    reason = "" if context.run is None else context.run.main_block_reason
    if Fold(blocked=reason).hides(timeline, context):
        return FoldKind.BLOCKED
    return FoldKind.DONE if Fold(done=True).hides(timeline, context) else None


def fold_of(rows: RunRows, unfolded: Collection[FoldKind] = ()) -> Fold:
    """Fold what is many, as long as the run goes on and something else was or is to be seen.

    Args:
        rows: the partitions of the run.
        unfolded: what the operator wants to see row by row.
    """
    whole, done = len(rows.run.tracks), rows.run.counts[State.DONE]
    reason = rows.main_block_reason
    blocked = FoldKind.BLOCKED not in unfolded and FOLDED_FROM <= rows.blocked(reason) < whole
    return Fold(
        blocked=reason if blocked else "",
        queued=FoldKind.QUEUED not in unfolded and FOLDED_FROM <= rows.queued < whole,
        done=FoldKind.DONE not in unfolded and FOLDED_FROM <= done < whole and not rows.run.ended,
    )


class FoldLine(NamedTuple):
    """The line for partitions that are folded; the last of its parts may be left out."""

    kind: FoldKind
    parts: tuple[tuple[Piece, ...], ...]

    def pieces(self, width: int) -> list[Piece]:
        """Draw the parts that fit; no name and no figure is cut."""
        parts = list(self.parts)
        while len(parts) > 1 and sum(map(pieces_width, parts)) > width:
            parts.pop()
        return cut_pieces([piece for part in parts for piece in part], width)


def fold_lines(fold: Fold, rows: RunRows, key: str) -> list[FoldLine]:
    """Make a line for each kind that is folded: how many, why they wait, and which are next.

    Args:
        fold: what is folded.
        rows: the partitions of the run.
        key: the key that unfolds them all; empty for none.
    """
    lines = []
    if fold.blocked:
        lines.append(FoldLine(FoldKind.BLOCKED, tuple(_blocked(fold.blocked, rows))))
    if fold.queued:
        lines.append(FoldLine(FoldKind.QUEUED, tuple(_queued(rows))))
    if fold.done:
        done = (Piece("✓ ", "in-sync"), Piece("done "), Piece(f"{_done(rows):,}", bold=True))
        lines.append(FoldLine(FoldKind.DONE, (done,)))
    if lines and key:
        words = (Piece(key, "moving", bold=True), Piece(" "), Piece("shows the rows", "dim"))
        lines[0] = lines[0]._replace(parts=(*lines[0].parts, (Piece("   "), *words)))
    return lines


def _done(rows: RunRows) -> int:
    return rows.run.counts[State.DONE]


def _blocked(reason: str, rows: RunRows) -> list[tuple[Piece, ...]]:
    count = Piece(f"{rows.blocked(reason):,}", "falling-behind", bold=True)
    return [
        (Piece("▸ ", "falling-behind"), Piece("blocked ", "falling-behind"), count),
        (*_DOT, Piece(reason, "falling-behind")),
    ]


def _queued(rows: RunRows) -> list[tuple[Piece, ...]]:
    parts: list[tuple[Piece, ...]] = [
        (Piece("▸ ", "moving"), Piece("queued "), Piece(f"{rows.queued:,}", bold=True))
    ]
    first = rows.next_to_begin(_NAMED)
    waits = run_waits(first[0], rows) if first else None
    if waits is not None:
        parts.append((*_DOT, Piece(waits.short, waits.role)))
    for number, track in enumerate(first):
        before = (Piece(", "),) if number else (*_DOT, Piece("next: ", "dim"))
        parts.append((*before, Piece(str(track.tp))))
    return parts
