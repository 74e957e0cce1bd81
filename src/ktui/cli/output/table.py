"""Plain text tables for pipes and terminals alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from ktui.columns import Column

Row = TypeVar("Row")


def table_of(columns: Sequence[Column[str]], rows: Sequence[Row]) -> str:
    """Format rows, each column with its heading, in as many cells as it needs."""
    right = [place for place, column in enumerate(columns) if column.right]
    cells = [[column.cell(row) for column in columns] for row in rows]
    return table([column.heading for column in columns], cells, right=right)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()
) -> str:
    """Align columns with spaces; the columns in `right` (numbered from 0) to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in (header, *rows)
    )
