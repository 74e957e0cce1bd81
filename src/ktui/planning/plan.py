"""A plan: target replicas for partitions, in the format of kafka-reassign-partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

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
    """The target replicas of one partition, with the preferred leader first."""

    topic: str
    partition: PlanNumber
    replicas: ReplicaList
    log_dirs: tuple[str, ...] = ()
    """One per replica: "any" or a path (KIP-113); empty if the plan has none.

    A run moves replicas between brokers, and leaves the choice of a log dir to the broker.
    """
    original_replicas: ReplicaList = ()
    """The replicas when the plan was made (KIP-236); empty if the plan has none."""

    @property
    def tp(self) -> TopicPartition:
        """The topic and partition of the target."""
        return TopicPartition(self.topic, self.partition)

    @property
    def named_log_dirs(self) -> Iterator[tuple[int, str]]:
        """The replicas' brokers for which the plan names a log dir, each with its path."""
        pairs = zip(self.replicas, self.log_dirs, strict=False)
        return ((broker, path) for broker, path in pairs if path != ANY_LOG_DIR)


class Plan(msgspec.Struct, frozen=True):
    """Targets in the order of the plan, with no partition twice."""

    partitions: tuple[PartitionTarget, ...]
    text: bytes = b""
    """The text of the plan's file, in which partitions are located for messages.

    Empty for a generated plan, even if it was made from a file: the locations would be wrong.
    """
    note: str = ""
    """Which part of the file is the plan, where the file holds more than a plan."""


def plan_as_json(plan: Plan) -> str:
    """Format the plan as JSON that Kafka's own tool also reads, one partition per line.

    `log_dirs` and `original_replicas` (which Kafka's tool ignores) are written where known.
    """
    lines = ",\n".join(f"  {_one_line(target)}" for target in plan.partitions)
    return f'{{"version": {VERSION}, "partitions": [\n{lines}\n]}}\n'


def _one_line(target: PartitionTarget) -> str:
    return msgspec.json.encode(target).decode()
