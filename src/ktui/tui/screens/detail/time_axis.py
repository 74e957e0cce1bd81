"""The time axis from the start of a move to now, in cells that lanes and lag curve share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.progress.row import merge_marks
from ktui.progress.timeline import Slots


class TimeAxis(msgspec.Struct, frozen=True):
    """An axis of `cells` cells, each `slots_per_cell` slots of a lane's history, the last with now.

    A cell is a whole number of slots, so that a lane grows to the right and does not crawl.
    """

    start_s: float
    cell_s: float
    cells: int
    slots_per_cell: int

    @classmethod
    def over(cls, histories: Sequence[Slots], width: int) -> TimeAxis | None:
        """Fit the longest history into `width` cells; None if there is no history yet."""
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
        """Return one mark per cell: the most significant mark of its slots."""
        each = self.slots_per_cell
        groups = (slots.marks[at : at + each] for at in range(0, len(slots.marks), each))
        return bytes(_most_significant(group) for group in groups)


def _most_significant(marks: bytes) -> int:
    mark = marks[0]
    for later in marks[1:]:
        mark = merge_marks(mark, later)
    return mark
