"""The table of moves, which the page can sort."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.pipeline.lake.records import MoveRecord, ReportFacts
from ktui.pipeline.report.figures.moves import length, outcome
from ktui.pipeline.report.figures.text import as_time, brokers, partition_name
from ktui.quantities import UNKNOWN, as_bytes, as_duration, as_rate

MOST = 500
"""The most rows of the table."""


class TableCell(msgspec.Struct, frozen=True):
    """The text of a cell and its sort key; None is sorted last."""

    shown: str
    key: str | float | None


class TableColumn(msgspec.Struct, frozen=True):
    """A column's name, and whether it holds figures."""

    name: str
    numbers: bool = False


COLUMNS = (
    TableColumn("partition"), TableColumn("outcome"), TableColumn("batch", numbers=True),
    TableColumn("began (UTC)", numbers=True), TableColumn("took", numbers=True),
    TableColumn("size copied", numbers=True), TableColumn("median rate", numbers=True),
    TableColumn("stalls", numbers=True), TableColumn("stalled for", numbers=True),
    TableColumn("steps", numbers=True), TableColumn("from"), TableColumn("to"), TableColumn("run"),
)  # fmt: skip


def moves_rows(facts: ReportFacts) -> Sequence[Sequence[TableCell]]:
    """Return the rows of the moves that took longest, the longest first."""
    end = facts.span[1]
    longest = sorted(facts.moves, key=lambda move: (-length(move, end), move.began, move.key))
    return [_row(move, end) for move in longest[:MOST]]


def _row(move: MoveRecord, end: int) -> Sequence[TableCell]:
    took = length(move, end)
    return (
        TableCell(partition_name(move), partition_name(move)),
        TableCell(outcome(move), outcome(move)),
        _number(move.batch),
        TableCell(as_time(move.began), move.began),
        TableCell(as_duration(took / 1000), took),
        TableCell(as_bytes(move.bytes), move.bytes),
        TableCell(as_rate(move.rate_bytes_p50), move.rate_bytes_p50),
        _number(move.stalls),
        TableCell(as_duration(move.stalled_ms / 1000), move.stalled_ms),
        _number(move.steps),
        TableCell(brokers(move.original), brokers(move.original)),
        TableCell(brokers(move.target), brokers(move.target)),
        TableCell(move.run or UNKNOWN, move.run),
    )


def _number(count: int | None) -> TableCell:
    return TableCell(UNKNOWN if count is None else f"{count:,}", count)
