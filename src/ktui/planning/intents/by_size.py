"""The replicas of a broker that may move, in the order of their sizes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft

_Sized = tuple[int, str, int, TopicPartition]


class BySize:
    """The movable replicas of each broker, small ones first.

    Args:
        draft: the draft.
        brokers: the brokers.
    """

    def __init__(self, draft: Draft, brokers: Iterable[int]) -> None:
        self._of: dict[int, list[_Sized]] = {broker: [] for broker in brokers}
        size = draft.layout.size
        for tp in draft.in_scope():
            if draft.immovable(tp):
                continue
            for broker in draft.lists[tp]:
                if (found := self._of.get(broker)) is not None:
                    found.append((size(tp), tp.topic, tp.partition, tp))
        for found in self._of.values():
            found.sort(key=lambda each: each[:3])

    def __getitem__(self, broker: int) -> list[_Sized]:
        """Return the replicas of a broker with their sizes."""
        return self._of[broker]

    def near(
        self, broker: int, size: float, fits: Callable[[TopicPartition], bool]
    ) -> TopicPartition | None:
        """Return the replica that fits and whose size is nearest to this one; or None."""
        for place in self._outward(broker, size):
            tp = self._of[broker][place][3]
            if fits(tp):
                return tp
        return None

    def _outward(self, broker: int, size: float) -> Iterator[int]:
        sized = self._of[broker]
        above = bisect_left(sized, size, key=lambda each: each[0])
        below = above - 1
        while below >= 0 or above < len(sized):
            if below < 0 or (
                above < len(sized) and sized[above][0] - size < size - sized[below][0]
            ):
                yield above
                above += 1
            else:
                yield below
                below -= 1

    def remove(self, broker: int, tp: TopicPartition, size: int) -> None:
        """Remove a replica that has moved."""
        sized = self._of[broker]
        key = (size, tp.topic, tp.partition)
        del sized[bisect_left(sized, key, key=lambda each: each[:3])]

    def put(self, broker: int, tp: TopicPartition, size: int) -> None:
        """Put back a replica that has not moved after all."""
        insort(self._of[broker], (size, tp.topic, tp.partition, tp), key=lambda each: each[:3])
