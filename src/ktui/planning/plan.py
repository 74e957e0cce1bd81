"""A plan: which replicas each partition shall have, in the format of kafka-reassign-partitions."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from ktui.cluster.partition import TopicPartition

VERSION = 1
MOST_BYTES = 128 * 1024 * 1024
MOST_PARTITIONS = 500_000
LARGEST = 2**31 - 1
"""Kafka's broker ids and partition numbers are signed 32-bit integers."""
ANY_LOG_DIR: Final = "any"

PlanNumber = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
ReplicaList = Annotated[tuple[PlanNumber, ...], msgspec.Meta(min_length=1)]


class PartitionTarget(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True
):
    """The replicas that one partition shall have, the first being the preferred leader."""

    topic: str
    partition: PlanNumber
    replicas: ReplicaList
    log_dirs: tuple[Literal["any"], ...] = ()
    """One for each replica, or empty where the plan does not say. Kafka's tool also takes paths."""
    original_replicas: ReplicaList = ()
    """What the partition had when the plan was made (KIP-236); empty where it does not say."""

    @property
    def tp(self) -> TopicPartition:
        """The partition it is about."""
        return TopicPartition(self.topic, self.partition)


class Plan(msgspec.Struct, frozen=True):
    """Targets in the order of the plan; no partition is in it twice."""

    partitions: tuple[PartitionTarget, ...]
    text: bytes = b""
    """The file it was read from, to find a partition's place in it again. Empty for a plan that
    was made, also for one made from another: the places would be wrong."""


def written(plan: Plan) -> str:
    """Give the plan as JSON that Kafka's own tool reads too, one partition a line.

    `log_dirs` and `original_replicas` (which Kafka's tool ignores) stand where they are known.
    """
    lines = ",\n".join(f"  {_one_line(target)}" for target in plan.partitions)
    return f'{{"version": {VERSION}, "partitions": [\n{lines}\n]}}\n'


def _one_line(target: PartitionTarget) -> str:
    return msgspec.json.encode(target).decode()
