"""Labelled facts in as many columns as the room has, all labels and all values aligned."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

_GAP = 3
_MOST = 4
"""The most columns: further apart, a value no longer seems to belong to its label."""


def facts(pairs: Sequence[tuple[str, Content]], width: int) -> list[Content]:
    """Lay out (label, value) pairs row by row, in as many columns as fit side by side."""
    for count in range(min(_MOST, len(pairs)), 0, -1):
        columns = [pairs[at::count] for at in range(count)]
        widths = [(_label_width(column), _value_width(column)) for column in columns]
        if count == 1 or sum(map(sum, widths)) + len(widths) * (_GAP + 2) - _GAP <= width:
            break
    return [
        Content("").join(
            _fact(label, value, *widths[column])
            for column, (label, value) in enumerate(pairs[at : at + count])
        )
        for at in range(0, len(pairs), count)
    ]


def _fact(label: str, value: Content, labels: int, values: int) -> Content:
    room = values - value.cell_length + _GAP
    return Content.assemble((f"{label:<{labels}}  ", "$dim"), value, " " * room)


def _label_width(column: Sequence[tuple[str, Content]]) -> int:
    return max(cell_len(label) for label, _ in column)


def _value_width(column: Sequence[tuple[str, Content]]) -> int:
    return max(value.cell_length for _, value in column)
