"""A reader of a simulated cluster that counts the calls it gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.coordination import CoordinatedIds, CoordinatorKind
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterReader,
    ConfigResource,
    LogDirsAnswer,
    OffsetsAnswer,
    SettingsAnswer,
    TopicConfigsAnswer,
    TopicsAnswer,
)


class CountingReader:
    """Forwards every call to `reader`, and returns the answers unchanged."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self.calls: Counter[str] = Counter()
        self.described: list[frozenset[str]] = []
        self.asked_offsets: list[tuple[int, frozenset[TopicPartition]]] = []
        self.most_lists_at_once = 0
        self._lists = 0

    def asked(self, broker: int) -> int:
        """Return how often log ends were requested from a broker."""
        return [each for each, _ in self.asked_offsets].count(broker)

    async def describe_cluster(self) -> ClusterDescription:
        self.calls["describe_cluster"] += 1
        return await self._reader.describe_cluster()

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        self.calls["list_reassignments"] += 1
        self._lists += 1
        self.most_lists_at_once = max(self.most_lists_at_once, self._lists)
        try:
            return await self._reader.list_reassignments()
        finally:
            self._lists -= 1

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        self.calls["describe_topics"] += 1
        self.described.append(frozenset(names))
        return await self._reader.describe_topics(names, fresh=fresh)

    def scan_topics(self, *, fresh: bool = False) -> AsyncIterator[TopicsAnswer]:
        self.calls["scan_topics"] += 1
        return self._reader.scan_topics(fresh=fresh)

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        self.calls["log_offsets"] += 1
        self.asked_offsets.append((broker, frozenset(ends)))
        return await self._reader.log_offsets(broker, ends=ends, starts=starts)

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        self.calls["log_dirs"] += 1
        return await self._reader.log_dirs(broker, partitions)

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        self.calls["topic_configs"] += 1
        return await self._reader.topic_configs(names)

    async def broker_config(self, broker: int) -> BrokerConfig:
        self.calls["broker_config"] += 1
        return await self._reader.broker_config(broker)

    async def coordinated_ids(self, broker: int, kind: CoordinatorKind) -> CoordinatedIds:
        self.calls["coordinated_ids"] += 1
        return await self._reader.coordinated_ids(broker, kind)

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        self.calls["settings"] += 1
        return await self._reader.settings(resources, names)

    async def aclose(self) -> None:
        await self._reader.aclose()
