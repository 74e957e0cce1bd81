"""One column of a list, a screen or a printed table: heading, room, figure, order and drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
