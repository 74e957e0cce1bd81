"""The time from the start of a move to now, as the cells that lanes and the lag curve share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.progress.slots import merge_marks
from ktui.progress.timeline import Slots


class TimeAxis(msgspec.Struct, frozen=True):
    """So many cells, each of `slots_per_cell` slots of a lane's history, the last holding now.

    A cell is a whole number of slots, so that a lane grows to the right and does not crawl.
    """

    start_s: float
    cell_s: float
    cells: int
    slots_per_cell: int

    @classmethod
    def over(cls, histories: Sequence[Slots], width: int) -> TimeAxis | None:
        """Fit the longest history into `width` cells; None when there is no history yet."""
        longest = max(histories, key=lambda slots: len(slots.marks), default=None)
        if longest is None or not longest.marks or width <= 0:
            return None
        count = len(longest.marks)
        each = -(-count // width)
        return cls(
            start_s=longest.end_s - count * longest.slot_s,
            cell_s=each * longest.slot_s,
            cells=-(-count // each),
            slots_per_cell=each,
        )

    def marks(self, slots: Slots) -> bytes:
        """Give one mark a cell: the most telling of its slots."""
        each = self.slots_per_cell
        groups = (slots.marks[at : at + each] for at in range(0, len(slots.marks), each))
        return bytes(_most_telling(group) for group in groups)


def _most_telling(marks: bytes) -> int:
    mark = marks[0]
    for later in marks[1:]:
        mark = merge_marks(mark, later)
    return mark
