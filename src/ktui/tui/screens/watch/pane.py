"""The place beside the list for a pane that follows its cursor."""

from __future__ import annotations

from textual.containers import Vertical

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition

PANE_FROM = 160
"""Cells of width from which the list shares the screen with the pane."""


class PartitionPane(Vertical):
    """A pane that shows nothing; `screens/detail` fills it."""

    @property
    def interest(self) -> Interest:
        return NO_INTEREST

    def show_partition(self, tp: TopicPartition | None, *, again: bool) -> None:
        """Show a partition as of the last poll; None where no row is under the cursor.

        Args:
            tp: the partition.
            again: whether to draw it also if it is the same one as before.
        """
