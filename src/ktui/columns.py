"""Columns of lists, screens and tables: heading, room, figure, drawing; and plain text tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

Cell = TypeVar("Cell")
C = TypeVar("C", bound="Column[Any]")


class Column(msgspec.Struct, Generic[Cell], frozen=True, kw_only=True, eq=False):
    """A column. What its functions take is said where the columns of a list are defined."""

    heading: str
    cell: Callable[..., Cell]  # draws the cell of a row: text, or coloured pieces
    right: bool = False  # whether its cells are aligned to the right, as figures are
    width: int = 0  # its least cells; 0 for as many as the widest cell has
    wide: int = 0  # its cells where there is much room; 0 for no more than elsewhere
    needs: Callable[..., int] | None = None  # the cells below which something is cut
    most: int = 0  # the cells beyond which others come in first; 0 for no such bound
    rank: int = 0  # the higher, the sooner it is left out; 0 always stays
    has: Callable[..., bool] = lambda *_: True  # whether there is anything to show in it
    figure: Callable[..., float | None] | None = None
    largest_first: bool = False  # whether the largest figure usually comes first
    steady: bool = False  # whether rows may follow its figures without jumping


def leave_out(columns: Sequence[C], fit: Callable[[Sequence[C]], bool]) -> list[C]:
    """Leave out columns by their rank until the others fit, or none may go."""
    shown = list(columns)
    for least_needed in sorted(columns, key=lambda column: -column.rank):
        if not least_needed.rank or fit(shown):
            break
        shown.remove(least_needed)
    return shown


def column(heading: str, cell: Callable[[Any], str]) -> Column[str]:
    """Return a column of words; `cell` gets a row."""
    return Column(heading=heading, cell=cell)


def figures(heading: str, cell: Callable[[Any], str]) -> Column[str]:
    """Return a column of figures, aligned to the right."""
    return Column(heading=heading, cell=cell, right=True)


def table_of(columns: Sequence[Column[str]], rows: Iterable[object]) -> str:
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
