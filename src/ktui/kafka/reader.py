"""The reading port on a real cluster, over kafka-python's raw requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ktui.cluster.broker import (
    TRANSACTIONS_NEED,
    BrokerConfig,
    CoordinatedIds,
    CoordinatorKind,
    TopicConfig,
)
from ktui.cluster.errors import (
    ClusterError,
    Failure,
    KafkaError,
    Means,
    Operation,
    Refused,
    Unsupported,
    means,
)
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ConfigResource,
    ConfigScope,
    LogDirsAnswer,
    OffsetsAnswer,
    SettingsAnswer,
    TopicConfigsAnswer,
    TopicsAnswer,
)
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests import configs as settings
from ktui.kafka.requests import metadata, reassignments
from ktui.kafka.requests.metadata import UpToDateBrokers
from ktui.kafka.requests.reassignments import RulesInForce
from ktui.kafka.transport.batches import chunks
from ktui.kafka.transport.client import RequestFactory, Wire
from ktui.kafka.transport.translate_errors import Purpose

_CLUSTER = Purpose("describing the cluster")
_LIST = Purpose("listing reassignments", needs="Describe on the cluster")
_TOPICS = Purpose("describing topics", needs="Describe on the topics")
_OFFSETS = Purpose("reading log offsets", needs="Describe on the topics")
_LOG_DIRS = Purpose("describing log dirs", needs="Describe on the cluster")
_TOPIC_CONFIGS = Purpose("reading topic settings", needs="DescribeConfigs on the topics")
_BROKER_CONFIG = Purpose("reading broker settings", needs="DescribeConfigs on the cluster")
_GROUPS = Purpose("listing groups", needs="Describe on the cluster")
_SHARE_GROUPS = Purpose("describing share groups", needs="Describe on the groups")
_TRANSACTIONS = Purpose("listing transactional ids", needs=TRANSACTIONS_NEED)

_PAUSE_S = 0.2
_TOPICS_A_REQUEST = 1_000
_OFFSETS_A_REQUEST = 10_000

Ask = Callable[[Purpose, RequestFactory], Awaitable[Any]]


class KafkaReader:
    """A `ClusterReader` on a real cluster. Connects at the first call."""

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, wire: Wire | None = None
    ) -> None:
        self.wire = wire or Wire(connection, timeout_s=timeout_s)
        self._timeout_s = self.wire.timeout_s
        self._rules = RulesInForce(self.wire)

    async def describe_cluster(self) -> ClusterDescription:
        answer = await self.wire.ask(_CLUSTER, metadata.cluster_request)
        description = metadata.cluster_description(answer)
        self.wire.learn(description.brokers.values())
        rules = await self._rules.now(description.online)
        return msgspec.structs.replace(description, **rules._asdict())

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        request = partial(reassignments.list_request, self._timeout_s)
        return reassignments.read_reassignments(await self.wire.ask(_LIST, request))

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        if not names:
            return TopicsAnswer({})
        ask = (await UpToDateBrokers.as_of_now(self.wire)).ask if fresh else self.wire.ask
        parts = chunks(sorted(set(names)), _TOPICS_A_REQUEST)
        return metadata.merge_answers(
            [page for part in parts async for page in self._pages(part, ask)]
        )

    async def scan_topics(self, *, fresh: bool = False) -> AsyncIterator[TopicsAnswer]:
        ask = (await UpToDateBrokers.as_of_now(self.wire)).ask if fresh else self.wire.ask
        async for page in self._pages((), ask):
            yield page

    async def _pages(self, names: Sequence[str], ask: Ask) -> AsyncIterator[TopicsAnswer]:
        cursor: Any = None
        while True:
            remaining = metadata.remaining_names(names, cursor)
            request = partial(metadata.page_request, remaining, cursor)
            try:
                answer = await ask(_TOPICS, request)
            except Unsupported:
                yield await self._by_metadata(names, ask)
                return
            yield metadata.topics_answer(answer.topics)
            cursor = answer.next_cursor
            if cursor is None:
                return

    async def _by_metadata(self, names: Sequence[str], ask: Ask) -> TopicsAnswer:
        """Fetch the topics of a broker before 3.8, which can only answer for all at once."""
        request = partial(metadata.metadata_request, names or None)
        return metadata.topics_answer((await ask(_TOPICS, request)).topics)

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        errors: dict[TopicPartition, str] = {}
        answers = await asyncio.gather(
            self._offsets(broker, ends, metadata.LATEST),
            self._offsets(broker, starts, metadata.EARLIEST_LOCAL),
        )
        found_ends, found_starts = (metadata.read_offsets(answer, errors) for answer in answers)
        return OffsetsAnswer(found_ends, found_starts, errors)

    async def _offsets(
        self, broker: int, partitions: Collection[TopicPartition], timestamp: int
    ) -> list[Any]:
        requests = [
            partial(metadata.offsets_request, chunk, timestamp, self._timeout_s)
            for chunk in chunks(partitions, _OFFSETS_A_REQUEST)
        ]
        calls = (self.wire.ask(_OFFSETS, request, broker=broker) for request in requests)
        return await asyncio.gather(*calls)

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        request = partial(reassignments.log_dirs_request, partitions)
        answer = await self.wire.ask(_LOG_DIRS, request, broker=broker)
        if not answer.results:
            raise reassignments.error_for_empty(broker, answer.version, _LOG_DIRS)
        return reassignments.read_log_dirs(broker, answer, partitions)

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        requests = [
            partial(settings.topics_request, chunk)
            for chunk in chunks(sorted(set(names)), _TOPICS_A_REQUEST)
        ]
        calls = (self.wire.ask(_TOPIC_CONFIGS, request) for request in requests)
        configs: dict[str, TopicConfig] = {}
        failures: list[Failure] = []
        absent: list[str] = []
        for answer in await asyncio.gather(*calls):
            for result in answer.results:
                topic, code = clean(result.resource_name), result.error_code
                if means(code, Means.ABSENT):
                    absent.append(topic)
                if code:
                    message = result.error_message
                    failures.append(
                        metadata.topic_failure(Operation.TOPIC_CONFIGS, topic, code, message)
                    )
                else:
                    configs[topic] = settings.topic_config(result)
        return TopicConfigsAnswer(configs, tuple(failures), tuple(absent))

    async def broker_config(self, broker: int) -> BrokerConfig:
        request = partial(settings.broker_request, broker)
        answer = await self.wire.ask(_BROKER_CONFIG, request, broker=broker)
        result = answer.results[0]
        if result.error_code:
            where = f"broker {broker}"
            raise _BROKER_CONFIG.refusal(result.error_code, result.error_message, where)
        return settings.broker_config(result)

    async def coordinated_ids(self, broker: int, kind: CoordinatorKind) -> CoordinatedIds:
        from ktui.kafka.requests import groups as coordinated  # noqa: PLC0415 - slow to import

        if kind is not CoordinatorKind.TRANSACTION:
            answer = await self._once_loaded(_GROUPS, coordinated.all_groups, broker)
            if kind is CoordinatorKind.GROUP:
                return CoordinatedIds(coordinated.read_groups(answer))
            return await self._share_state(broker, coordinated.share_groups(answer))
        answer, permission = await asyncio.gather(
            self._once_loaded(_TRANSACTIONS, coordinated.all_transactions, broker),
            self.wire.ask(_TRANSACTIONS, coordinated.any_transaction, broker=broker),
        )
        lacks = "" if coordinated.may_describe_all(permission) else _TRANSACTIONS.needs
        return CoordinatedIds(coordinated.read_transactions(answer), lacks)

    async def _share_state(self, broker: int, groups: Collection[str]) -> CoordinatedIds:
        from ktui.kafka.requests import groups as coordinated  # noqa: PLC0415 - the same

        if not groups:
            return CoordinatedIds(())
        request = partial(coordinated.share_state_request, groups)
        answer = await self.wire.ask(_SHARE_GROUPS, request, broker=broker)
        for group in answer.groups:
            if group.error_code:
                where = clean(group.group_id)
                raise _SHARE_GROUPS.refusal(group.error_code, group.error_message, where)
        return CoordinatedIds(tuple(coordinated.read_share_state(answer)))

    async def _once_loaded(self, purpose: Purpose, build: RequestFactory, broker: int) -> Any:
        """Ask a coordinator, and again while it loads what it coordinates: after an election."""
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                left_s = until - time.monotonic()
                return await self.wire.ask(purpose, build, broker=broker, limit_s=left_s)
            except Refused as refused:
                if refused.code != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
                await asyncio.sleep(_PAUSE_S)
                if time.monotonic() >= until:
                    raise

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        caught_up = await self._caught_up()
        brokers = [r for r in resources if r.scope is ConfigScope.BROKER]
        topics = sorted(r for r in resources if r.scope is ConfigScope.TOPIC)
        ask = self.wire.ask if caught_up is None else caught_up.ask
        calls = [
            *(self._broker_settings(r, names, caught_up) for r in brokers),
            *(
                settings.read_settings(partial(ask, _TOPIC_CONFIGS), chunk, names)
                for chunk in chunks(topics, _TOPICS_A_REQUEST)
            ),
        ]
        answers = await asyncio.gather(*calls)
        found = {r: theirs for answer in answers for r, theirs in answer.settings.items()}
        failures = {r: why for answer in answers for r, why in answer.failures.items()}
        errors = {r: error for answer in answers for r, error in answer.errors.items()}
        return SettingsAnswer(found, failures, errors)

    async def _caught_up(self) -> UpToDateBrokers | None:
        try:
            return await UpToDateBrokers.as_of_now(self.wire)
        except Unsupported:
            return None

    async def _broker_settings(
        self, resource: ConfigResource, names: Collection[str], caught_up: UpToDateBrokers | None
    ) -> SettingsAnswer:
        broker = int(resource.name)
        try:
            if caught_up is not None:
                await caught_up.wait_for(broker)
        except ClusterError as error:
            return SettingsAnswer.failed([resource], error)
        ask = partial(self.wire.ask, _BROKER_CONFIG, broker=broker)
        return await settings.read_settings(ask, [resource], names)

    async def aclose(self) -> None:
        await self.wire.aclose()
