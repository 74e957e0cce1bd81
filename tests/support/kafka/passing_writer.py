"""A writer that passes every call on to another one; what it changes is in its subclasses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterWriter, ConfigChange, ConfigResource, WriteResult


class PassingWriter:
    """Passes calls on.

    Args:
        writer: the other writer.
    """

    def __init__(self, writer: ClusterWriter) -> None:
        self._writer = writer

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self._writer.alter_reassignments(
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
            leaves_within_s=leaves_within_s,
        )

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self._writer.elect_preferred_leaders(
            partitions, leaves_within_s=leaves_within_s
        )

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        return await self._writer.alter_configs(changes, leaves_within_s=leaves_within_s)

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self._writer.alter_log_dirs(broker, paths, leaves_within_s=leaves_within_s)

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignment: Sequence[Brokers] | None = None,
        *,
        leaves_within_s: float | None = None,
    ) -> WriteResult:
        return await self._writer.create_partitions(
            topic, count, assignment, leaves_within_s=leaves_within_s
        )

    async def unregister_broker(
        self, broker: int, *, leaves_within_s: float | None = None
    ) -> WriteResult:
        return await self._writer.unregister_broker(broker, leaves_within_s=leaves_within_s)

    async def delete_broker_settings(
        self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
    ) -> WriteResult:
        return await self._writer.delete_broker_settings(
            broker, names, leaves_within_s=leaves_within_s
        )

    async def aclose(self) -> None:
        await self._writer.aclose()
