"""What looks wrong is believed once it has lasted: a broker's metadata may be late."""

from __future__ import annotations

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition

_FRESH_LOOKS = 2
_LOOKS, _SECONDS = 3, 2.0
"""How long it has to last where metadata is not known to be fresh."""


class Doubts:
    """Partitions that were seen otherwise than expected, since when and how often."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[object, float, int]] = {}

    def confirmed(self, tp: TopicPartition, what: object, seen: Observation) -> bool:
        """Take note of what was seen, and tell whether it is certain by now.

        Args:
            tp: the partition.
            what: that which must stay the same from look to look.
            seen: the look.
        """
        before = self._since.get(tp)
        same = before is not None and before[0] == what
        since, looks = (before[1], before[2] + 1) if before and same else (seen.monotonic_s, 1)
        self._since[tp] = (what, since, looks)
        if seen.fresh:
            return looks >= _FRESH_LOOKS
        return looks >= _LOOKS and seen.monotonic_s - since >= _SECONDS

    def clear(self, tp: TopicPartition) -> None:
        """Forget a doubt: the partition is as expected, or was given up."""
        self._since.pop(tp, None)
