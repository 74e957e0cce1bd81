"""Debounce surprising metadata: a broker's metadata lags behind the controller."""

from __future__ import annotations

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition

_FRESH_POLLS = 2
_POLLS, _SECONDS = 3, 2.0
"""How long a surprise has to last where metadata is not known to be fresh."""


class Debounce:
    """Partitions in an unexpected state, each with the first time and the number of polls."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[object, float, int]] = {}

    def confirmed(self, tp: TopicPartition, what: object, seen: Observation) -> bool:
        """Record an unexpected state, and return whether it is certain by now.

        Args:
            tp: the partition.
            what: the value that must stay the same from poll to poll.
            seen: the poll.
        """
        before = self._since.get(tp)
        same = before is not None and before[0] == what
        since, polls = (before[1], before[2] + 1) if before and same else (seen.monotonic_s, 1)
        self._since[tp] = (what, since, polls)
        if seen.fresh:
            return polls >= _FRESH_POLLS
        return polls >= _POLLS and seen.monotonic_s - since >= _SECONDS

    def clear(self, tp: TopicPartition) -> None:
        """Forget a doubt: the partition is as expected, or was given up."""
        self._since.pop(tp, None)
