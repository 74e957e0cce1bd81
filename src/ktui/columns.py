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
    cell: Callable[..., Cell]
    """Draws the cell of a row: text, or pieces of it with their colours."""
    right: bool = False
    """Whether its cells are aligned to the right, as figures are."""
    width: int = 0
    """Its least cells; 0 for as many as the widest cell has."""
    wide: int = 0
    """Its cells where there is much room; 0 for no more than elsewhere."""
    needs: Callable[..., int] | None = None
    """The cells without which something is cut, where that depends on the rows."""
    most: int = 0
    """The cells beyond which others come in first; 0 for no such bound."""
    rank: int = 0
    """The higher, the sooner it is left out where not all columns fit; 0 always stays."""
    has: Callable[..., bool] = lambda *_: True
    """Whether there is anything to show in it."""
    figure: Callable[..., float | None] | None = None
    largest_first: bool = False
    """Whether the largest figure usually comes first."""
    steady: bool = False
    """Whether figures change so seldom that rows may follow them without jumping."""


def leave_out(columns: Sequence[C], fit: Callable[[Sequence[C]], bool]) -> list[C]:
    """Leave out columns by their rank until the others fit, or none may go."""
    shown = list(columns)
    for least_needed in sorted(columns, key=lambda column: -column.rank):
        if not least_needed.rank or fit(shown):
            break
        shown.remove(least_needed)
    return shown
