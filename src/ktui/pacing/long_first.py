"""Which partitions begin first, so that no long copy is left alone at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ktui.cluster.partition import Brokers
from ktui.pacing.decision import WantedPartition

PartitionT = TypeVar("PartitionT", bound=msgspec.Struct)

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


def copies_to(target: Brokers, replicas: Brokers, leader: int | None, size: int) -> Copies:
    """Return what is copied of a partition; without a leader, by its preferred one."""
    receivers = tuple(broker for broker in target if broker not in replicas)
    return Copies(replicas[0] if leader is None else leader, receivers, size)


def with_bytes_ahead(
    partitions: Sequence[PartitionT], copies: Callable[[PartitionT], Copies]
) -> list[PartitionT]:
    """Return partitions, each with the bytes by which it goes ahead in its field `ahead`."""
    return [
        each if not ahead else msgspec.structs.replace(each, ahead=ahead)
        for each, ahead in zip(partitions, bytes_ahead(list(map(copies, partitions))), strict=True)
    ]


def put_long_first(wanted: Sequence[WantedPartition]) -> list[WantedPartition]:
    """Return partitions that have not begun, with the bytes by which each goes ahead."""
    return with_bytes_ahead(wanted, _copies)


def _copies(wanted: WantedPartition) -> Copies:
    now = wanted.situation
    return copies_to(now.target, now.replicas, now.leader, wanted.size)


def _bytes_by_broker(partitions: Iterable[Copies]) -> Counter[int]:
    moved: Counter[int] = Counter()
    for each in partitions:
        moved[each.leader] += each.bytes
        for broker in each.receivers:
            moved[broker] += each.size
    return moved
