"""The moves as a table that the page can sort."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.pipeline.lake.records import Facts, Move
from ktui.pipeline.report.figures.moves import length
from ktui.pipeline.report.figures.text import as_time, brokers, full
from ktui.pipeline.report.page.summary import outcome
from ktui.quantities import UNKNOWN, as_bytes, as_duration, as_rate

MOST = 500


class Cell(msgspec.Struct, frozen=True):
    """What a cell shows, and what it is sorted by; None comes last."""

    shown: str
    key: str | float | None


class Column(msgspec.Struct, frozen=True):
    """A column's name, and whether it holds figures."""

    name: str
    numbers: bool = False


COLUMNS = (
    Column("partition"), Column("outcome"), Column("batch", numbers=True),
    Column("began (UTC)", numbers=True), Column("took", numbers=True),
    Column("size copied", numbers=True), Column("median rate", numbers=True),
    Column("stalls", numbers=True), Column("stalled for", numbers=True),
    Column("steps", numbers=True), Column("from"), Column("to"), Column("run"),
)  # fmt: skip


def moves_rows(facts: Facts) -> Sequence[Sequence[Cell]]:
    """Give the moves that took longest, the longest first."""
    end = facts.span[1]
    longest = sorted(facts.moves, key=lambda move: (-length(move, end), move.began, move.key))
    return [_row(move, end) for move in longest[:MOST]]


def _row(move: Move, end: int) -> Sequence[Cell]:
    took = length(move, end)
    return (
        Cell(full(move), full(move)),
        Cell(outcome(move), outcome(move)),
        _number(move.batch),
        Cell(as_time(move.began), move.began),
        Cell(as_duration(took / 1000), took),
        Cell(as_bytes(move.bytes), move.bytes),
        Cell(as_rate(move.rate_bytes_p50), move.rate_bytes_p50),
        _number(move.stalls),
        Cell(as_duration(move.stalled_ms / 1000), move.stalled_ms),
        _number(move.steps),
        Cell(brokers(move.original), brokers(move.original)),
        Cell(brokers(move.target), brokers(move.target)),
        Cell(move.run or UNKNOWN, move.run),
    )


def _number(count: int | None) -> Cell:
    return Cell(UNKNOWN if count is None else f"{count:,}", count)
