"""Which partitions begin first, so that no long copy is left alone at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from ktui.pacing.decision import WantedPartition
from ktui.pacing.situation import Situation

_TWENTIETH = 20


class Copies(NamedTuple):
    """What is copied of one partition on the way to its target."""

    leader: int
    receivers: tuple[int, ...]
    size: int
    """Bytes of each copy."""

    @property
    def bytes(self) -> int:
        """What the leader sends in all."""
        return self.size * len(self.receivers)


def bytes_ahead(partitions: Sequence[Copies]) -> list[int]:
    """Return, for each partition, the bytes by which it goes before others; 0 for most.

    A partition goes ahead if its leader sends more than a twentieth of all that the busiest broker
    sends and receives. At most twenty partitions of a leader do.
    """
    least = max(_bytes_by_broker(partitions).values(), default=0) / _TWENTIETH
    return [each.bytes if each.bytes > least else 0 for each in partitions]


def put_long_first(wanted: Sequence[WantedPartition]) -> list[WantedPartition]:
    """Return partitions that have not begun, with the bytes by which each goes ahead."""
    copies = [_copies(each.situation, each.size) for each in wanted]
    return [
        each if not ahead else msgspec.structs.replace(each, ahead=ahead)
        for each, ahead in zip(wanted, bytes_ahead(copies), strict=True)
    ]


def _copies(now: Situation, size: int) -> Copies:
    leader = now.replicas[0] if now.leader is None else now.leader
    return Copies(leader, tuple(b for b in now.target if b not in now.replicas), size)


def _bytes_by_broker(partitions: Iterable[Copies]) -> Counter[int]:
    moved: Counter[int] = Counter()
    for each in partitions:
        moved[each.leader] += each.bytes
        for broker in each.receivers:
            moved[broker] += each.size
    return moved
