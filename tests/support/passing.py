"""Ports that pass every call on: a subclass changes one call, or `passes`, which all go through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from ktui.cluster.broker import BrokerConfig, CoordinatedIds, CoordinatorKind
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigResource,
    LogDirsAnswer,
    OffsetsAnswer,
    SettingsAnswer,
    TopicConfigsAnswer,
    TopicsAnswer,
    WriteResult,
)

T = TypeVar("T")
Ask = Callable[[], Awaitable[T]]


class PassingReader:
    """Passes each call on, and returns the answer unchanged."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    async def passes(self, call: str, ask: Ask[T]) -> T:  # noqa: ARG002 - for subclasses
        """Pass a call on, by the name of its method."""
        return await ask()

    async def describe_cluster(self) -> ClusterDescription:
        return await self.passes("describe_cluster", self._reader.describe_cluster)

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return await self.passes("list_reassignments", self._reader.list_reassignments)

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        return await self.passes(
            "describe_topics", lambda: self._reader.describe_topics(names, fresh=fresh)
        )

    def scan_topics(self, *, fresh: bool = False) -> AsyncIterator[TopicsAnswer]:
        return self._reader.scan_topics(fresh=fresh)

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        return await self.passes(
            "log_offsets", lambda: self._reader.log_offsets(broker, ends=ends, starts=starts)
        )

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        return await self.passes("log_dirs", lambda: self._reader.log_dirs(broker, partitions))

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        return await self.passes("topic_configs", lambda: self._reader.topic_configs(names))

    async def broker_config(self, broker: int) -> BrokerConfig:
        return await self.passes("broker_config", lambda: self._reader.broker_config(broker))

    async def coordinated_ids(self, broker: int, kind: CoordinatorKind) -> CoordinatedIds:
        return await self.passes(
            "coordinated_ids", lambda: self._reader.coordinated_ids(broker, kind)
        )

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        return await self.passes("settings", lambda: self._reader.settings(resources, names))

    async def aclose(self) -> None:
        await self._reader.aclose()


class PassingWriter:
    """Passes each call on, and returns the answer unchanged."""

    def __init__(self, writer: ClusterWriter) -> None:
        self._writer = writer

    async def passes(
        self,
        sending: str,  # noqa: ARG002 - for subclasses
        parts: Collection[Any],  # noqa: ARG002
        within_s: float | None,  # noqa: ARG002
        send: Ask[Mapping[T, WriteResult]],
    ) -> Mapping[T, WriteResult]:
        """Pass a call on.

        Args:
            sending: what is sent, in words.
            parts: what it is about, each with a result of its own.
            within_s: how many seconds it may take to leave.
            send: sends it.
        """
        return await send()

    async def _one(
        self, sending: str, part: T, within_s: float | None, send: Ask[WriteResult]
    ) -> WriteResult:
        async def sent() -> Mapping[T, WriteResult]:
            return {part: await send()}

        return (await self.passes(sending, [part], within_s, sent))[part]

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self.passes(
            f"{len(targets)} alters",
            targets,
            leaves_within_s,
            lambda: self._writer.alter_reassignments(
                targets,
                allow_replication_factor_change=allow_replication_factor_change,
                leaves_within_s=leaves_within_s,
            ),
        )

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self.passes(
            f"{len(partitions)} elections",
            partitions,
            leaves_within_s,
            lambda: self._writer.elect_preferred_leaders(
                partitions, leaves_within_s=leaves_within_s
            ),
        )

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        return await self.passes(
            f"settings to {'/'.join(sorted({change.op for change in changes}))}",
            changes,
            leaves_within_s,
            lambda: self._writer.alter_configs(changes, leaves_within_s=leaves_within_s),
        )

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self.passes(
            f"{len(paths)} log dirs of broker {broker}",
            paths,
            leaves_within_s,
            lambda: self._writer.alter_log_dirs(broker, paths, leaves_within_s=leaves_within_s),
        )

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignment: Sequence[Brokers] | None = None,
        *,
        leaves_within_s: float | None = None,
    ) -> WriteResult:
        return await self._one(
            f"partitions for {topic}",
            topic,
            leaves_within_s,
            lambda: self._writer.create_partitions(
                topic, count, assignment, leaves_within_s=leaves_within_s
            ),
        )

    async def unregister_broker(
        self, broker: int, *, leaves_within_s: float | None = None
    ) -> WriteResult:
        return await self._one(
            f"the end of broker {broker}'s registration",
            broker,
            leaves_within_s,
            lambda: self._writer.unregister_broker(broker, leaves_within_s=leaves_within_s),
        )

    async def delete_broker_settings(
        self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
    ) -> WriteResult:
        return await self._one(
            f"the deletion of settings of broker {broker}",
            broker,
            leaves_within_s,
            lambda: self._writer.delete_broker_settings(
                broker, names, leaves_within_s=leaves_within_s
            ),
        )

    async def aclose(self) -> None:
        await self._writer.aclose()
