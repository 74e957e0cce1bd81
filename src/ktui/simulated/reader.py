"""The reading port of a simulated cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping

from ktui.cluster.broker import (
    SHARE,
    TRANSACTIONS_NEED,
    Broker,
    BrokerConfig,
    CoordinatedId,
    CoordinatedIds,
    CoordinatorKind,
    LogDir,
    TopicConfig,
    coordinating_partition,
    java_hash,
    share_state_key,
)
from ktui.cluster.errors import ClusterError, Failure, KafkaError, NotAuthorized, Operation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ConfigResource,
    ConfigScope,
    LogDirsAnswer,
    OffsetsAnswer,
    Setting,
    SettingsAnswer,
    TopicConfigsAnswer,
    TopicsAnswer,
)
from ktui.cluster.text import clean
from ktui.planning.plan import topic_name_problem
from ktui.simulated.core import PORT, Calls, SimulatedCore, host
from ktui.simulated.data.hosts import STORAGE_ERROR

PAGE = 2_000  # partitions per page of a scan (max.request.partition.size.limit)

_DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED  # for each topic; other requests are denied whole


class SimulatedReader:
    """A `ClusterReader` on a simulated cluster."""

    def __init__(self, cluster: SimulatedCore) -> None:
        self._cluster = cluster
        self._calls = Calls(cluster)
        self._members: tuple[frozenset[int], frozenset[int]] | None = None
        self._brokers: Mapping[int, Broker] = {}

    async def describe_cluster(self) -> ClusterDescription:
        await self._calls.any_broker("describe_cluster")
        cluster = self._cluster
        rules = cluster.controller.rules
        members = (cluster.metadata.registered, cluster.metadata.fenced)
        if members != self._members:
            self._members, self._brokers = members, self._described_brokers(*members)
        brokers = self._brokers
        return ClusterDescription(
            cluster.spec.name,
            cluster.any_live_broker(),
            brokers,
            waits_for_kept=not rules.completes_without_kept,
            reports_fenced=rules.tells_fenced_brokers,
            refuses_cordoned=rules.refuses_cordoned,
        )

    def _described_brokers(
        self, registered: frozenset[int], fenced: frozenset[int]
    ) -> Mapping[int, Broker]:
        reports_fenced = self._cluster.controller.rules.tells_fenced_brokers
        return {
            spec.id: Broker(spec.id, host(spec.id), PORT, spec.rack, spec.id not in fenced)
            for spec in self._cluster.spec.brokers
            if spec.id in registered and (reports_fenced or spec.id not in fenced)
        }

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        await self._calls.any_broker("list_reassignments")
        await self._calls.controller()
        return {
            tp: Reassignment(known.replicas, known.adding, known.removing)
            for tp, known in self._cluster.controller.reassigning.items()
        }

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        if not names:
            return TopicsAnswer({})
        if fresh:
            await self._calls.fresh_metadata()
        try:
            await self._calls.any_broker("describe_topics")
        except NotAuthorized:
            return TopicsAnswer({}, failures=_denied(Operation.METADATA, names))
        return self._described(sorted(set(names)))

    def _described(self, names: Collection[str]) -> TopicsAnswer:
        partitions: dict[TopicPartition, PartitionState] = {}
        absent, failures = set(), []
        for name in names:
            if topic_name_problem(name):
                answer = KafkaError.INVALID_TOPIC_EXCEPTION
                failures.append(Failure(Operation.METADATA, answer, topic=clean(name)))
            elif found := self._cluster.described(name):
                partitions |= found
            else:
                absent.add(name)
        return TopicsAnswer(partitions, frozenset(absent), tuple(failures))

    async def scan_topics(self, *, fresh: bool = False) -> AsyncIterator[TopicsAnswer]:
        if fresh:
            await self._calls.fresh_metadata()
        try:
            await self._calls.any_broker("scan_topics")
        except NotAuthorized:
            return  # brokers leave out the topics that one may not describe
        page: dict[TopicPartition, PartitionState] = {}
        for name in self._cluster.metadata.topics():
            for tp, state in self._described([name]).partitions.items():
                page[tp] = state
                if len(page) == PAGE:
                    yield TopicsAnswer(page)
                    page = {}
        if page:
            yield TopicsAnswer(page)

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        try:
            await self._calls.broker(broker, "log_offsets")
        except NotAuthorized:
            return OffsetsAnswer({}, {}, dict.fromkeys({*ends, *starts}, _DENIED))
        replication = self._cluster.replication
        requested_ends, requested_starts = frozenset(ends), frozenset(starts)
        found_ends, found_starts, errors = {}, {}, {}
        for tp in dict.fromkeys((*ends, *starts)):
            end = replication.end(tp, broker)
            if end is None:
                errors[tp] = self._missing(tp, broker)
                continue
            if tp in requested_ends:
                found_ends[tp] = end
            if tp in requested_starts:
                found_starts[tp] = min(end, replication.start(tp))
        return OffsetsAnswer(found_ends, found_starts, errors)

    def _missing(self, tp: TopicPartition, broker: int) -> str:
        known = self._cluster.metadata.partition(tp)
        if known is None:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        return STORAGE_ERROR if broker in known[1].offline else KafkaError.NOT_LEADER_OR_FOLLOWER

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        await self._calls.broker(broker, "log_dirs")
        replication = self._cluster.replication
        log_dirs = replication.log_dirs(broker)
        total = next(spec.disk_bytes for spec in self._cluster.spec.brokers if spec.id == broker)
        usable = max(0, total - replication.used(broker))
        described = tuple(
            LogDir(broker, path, error=STORAGE_ERROR)
            if path in log_dirs.failed
            else LogDir(
                broker,
                path,
                total_bytes=total,
                usable_bytes=usable,
                cordoned=path in log_dirs.cordoned,
            )
            for path in log_dirs.paths
        )
        named = replication.replicas_on(broker) if partitions is None else partitions
        found = ((tp, replication.replica_dir(tp, broker)) for tp in named)
        return LogDirsAnswer(described, {tp: held for tp, held in found if held is not None})

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        if not names:
            return TopicConfigsAnswer({})
        try:
            await self._calls.any_broker("topic_configs")
        except NotAuthorized:
            return TopicConfigsAnswer({}, _denied(Operation.TOPIC_CONFIGS, names))
        configs: dict[str, TopicConfig] = {}
        absent = []
        for name in sorted(set(names)):
            found = self._cluster.controller.configs.topic_config(name)
            if found is None:
                absent.append(clean(name))
            else:
                configs[name] = found
        failures = (
            Failure(Operation.TOPIC_CONFIGS, KafkaError.UNKNOWN_TOPIC_OR_PARTITION, topic=name)
            for name in absent
        )
        return TopicConfigsAnswer(configs, tuple(failures), tuple(absent))

    async def broker_config(self, broker: int) -> BrokerConfig:
        await self._calls.broker(broker, "broker_config")
        return self._cluster.controller.configs.broker_config(broker)

    async def coordinated_ids(self, broker: int, kind: CoordinatorKind) -> CoordinatedIds:
        """Without permission no transactional ids are shown, as by brokers without any grant."""
        try:
            await self._calls.broker(broker, "coordinated_ids")
        except NotAuthorized:
            if kind is CoordinatorKind.TRANSACTION:
                return CoordinatedIds((), TRANSACTIONS_NEED)
            raise
        cluster = self._cluster
        if kind is CoordinatorKind.TRANSACTION:
            types = dict.fromkeys(cluster.transactional_ids, "")
        else:
            joined = {*cluster.spec.groups, *cluster.groups.names}
            types = dict.fromkeys(joined, "consumer") | dict.fromkeys(cluster.share_groups, SHARE)
        every = (
            CoordinatedId(clean(name), java_hash(name), of) for name, of in sorted(types.items())
        )
        led_by = CoordinatorKind.GROUP if kind is CoordinatorKind.SHARE_GROUP else kind
        found = tuple(each for each in every if self._keeps(broker, each, led_by))
        if kind is not CoordinatorKind.SHARE_GROUP:
            return CoordinatedIds(found)
        return CoordinatedIds(tuple(one for group in found for one in self._state_of(group.name)))

    def _state_of(self, group: str) -> Iterator[CoordinatedId]:
        for topic in self._cluster.share_groups.get(group, ()):
            for tp, (topic_id, _) in self._cluster.metadata.topic(topic).items():
                key = share_state_key(group, topic_id, tp.partition)
                yield CoordinatedId(clean(group), java_hash(key), SHARE)

    def _keeps(self, broker: int, of: CoordinatedId, kind: CoordinatorKind) -> bool:
        found = self._cluster.metadata.topic(kind.topic)
        if not found:
            return False
        tp = TopicPartition(kind.topic, coordinating_partition(of, len(found)))
        return found[tp][1].leader == broker

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        described: dict[ConfigResource, Mapping[str, Setting]] = {}
        failures: dict[ConfigResource, str] = {}
        errors: dict[ConfigResource, KafkaError] = {}
        for resource in sorted(set(resources)):
            try:
                await self._permit(resource)
            except ClusterError as error:
                failed = SettingsAnswer.failed([resource], error)
                failures, errors = {**failures, **failed.failures}, {**errors, **failed.errors}
                continue
            found = self._cluster.controller.configs.described(resource)
            if found is None:
                failures[resource] = errors[resource] = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            elif names:
                described[resource] = {name: found[name] for name in names if name in found}
            else:
                described[resource] = {name: s for name, s in found.items() if s.own is not None}
        return SettingsAnswer(described, failures, errors)

    async def _permit(self, resource: ConfigResource) -> None:
        if resource.scope is ConfigScope.BROKER:
            await self._calls.broker(int(resource.name), "broker_config")
        else:
            await self._calls.any_broker("topic_configs")

    async def aclose(self) -> None:
        self._calls.closed = True


def _denied(operation: Operation, names: Collection[str]) -> tuple[Failure, ...]:
    return tuple(
        Failure(operation, _DENIED, topic=clean(name), denied=True) for name in sorted(set(names))
    )
