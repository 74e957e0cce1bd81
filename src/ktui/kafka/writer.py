"""The writing port on a real cluster, over kafka-python's raw requests.

Elections and settings go this way too, rather than through confluent-kafka. Its futures do not
distinguish a change that was never sent from one whose answer was lost. The first is an error,
the second is `Verdict.UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from ktui.cluster.errors import KafkaError, Unsupported
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import broker_resource, group_by_resource
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests import configs, reassignments
from ktui.kafka.requests.metadata import ControllerWire, find_controllers
from ktui.kafka.transport.batches import BatchedRequest, Sender, chunks
from ktui.kafka.transport.client import RequestFactory, Wire
from ktui.kafka.transport.pool import SendDeadline
from ktui.kafka.transport.translate_errors import Purpose

_ALTER = Purpose("altering reassignments", needs="Alter on the cluster")
_ELECT = Purpose("electing preferred leaders", needs="Alter on the cluster")
_ALTER_LOG_DIRS = Purpose("moving replicas between log dirs", needs="Alter on the cluster")
_CREATE_PARTITIONS = Purpose("adding partitions", needs="Alter on the topic")
_UNREGISTER = Purpose("unregistering a broker", needs="Alter on the cluster")
_DELETE_BY_CONTROLLER = Purpose(
    "deleting settings through a controller", needs="AlterConfigs on the cluster"
)
_ALTER_CONFIGS = Purpose("altering settings", needs="AlterConfigs on the topics or the cluster")

_PARTITIONS_PER_REQUEST = 1_000  # brokers accept 10,000; a thousand take under a second

_TOPICS_PER_REQUEST = 500


class KafkaWriter:
    """A `ClusterWriter` with its own connections: a read that times out closes its connection."""

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, wire: Wire | None = None
    ) -> None:
        self._connection = connection
        self._wire = wire or Wire(connection, timeout_s=timeout_s, changes=True)
        self._controllers: ControllerWire | None = None
        self._reader = KafkaReader(connection, wire=self._wire)

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        deadline = SendDeadline.within(leaves_within_s)
        if allow_replication_factor_change:
            return await self._alter(targets, deadline, guarded=False)
        try:
            return await self._alter(targets, deadline, guarded=True)
        except Unsupported:  # before 4.1; the client itself refused, so nothing was sent
            refused = await self._other_factor_refusals(targets)
            rest = {tp: replicas for tp, replicas in targets.items() if tp not in refused}
            return {**refused, **await self._alter(rest, deadline, guarded=False)}

    async def _alter(
        self, targets: reassignments.TargetsOrCancel, deadline: SendDeadline, *, guarded: bool
    ) -> dict[TopicPartition, WriteResult]:
        changes = []
        for chunk in chunks(targets, _PARTITIONS_PER_REQUEST):
            part = {tp: targets[tp] for tp in chunk}
            limit = self._wire.timeout_s
            build = partial(reassignments.alter_request, part, limit, guarded=guarded)
            changes.append(BatchedRequest(chunk, build))
        return await Sender(self._wire, _ALTER, reassignments.read_alter_results).in_turn(
            changes, deadline
        )

    async def _other_factor_refusals(
        self, targets: reassignments.TargetsOrCancel
    ) -> dict[TopicPartition, WriteResult]:
        """Refuse what a 4.1 broker would refuse: targets with another replication factor."""
        targeted = {tp: replicas for tp, replicas in targets.items() if replicas is not None}
        in_flight = await self._reader.list_reassignments()
        topics = await self._reader.describe_topics({tp.topic for tp in targeted})
        hidden = {failure.topic for failure in topics.failures}
        why: dict[TopicPartition, str] = {}
        for tp, replicas in targeted.items():
            state = topics.partitions.get(tp)
            if tp.topic in hidden:
                why[tp] = (
                    f"{tp.topic} cannot be described, so its replication factor cannot be compared"
                )
            elif state is not None:
                present = in_flight[tp].target if tp in in_flight else state.replicas
                before, after = len(present), len(replicas)
                if before != after:
                    why[tp] = f"The replication factor is changed from {before} to {after}"
        code = KafkaError.INVALID_REPLICATION_FACTOR
        return {tp: WriteResult(Verdict.REFUSED, code, message) for tp, message in why.items()}

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        limit = self._wire.timeout_s
        changes = [
            BatchedRequest(chunk, partial(reassignments.elect_request, chunk, limit))
            for chunk in chunks(dict.fromkeys(partitions), _PARTITIONS_PER_REQUEST)
        ]
        deadline = SendDeadline.within(leaves_within_s)
        return await Sender(self._wire, _ELECT, reassignments.read_election_results).in_turn(
            changes, deadline
        )

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        by_target = group_by_resource(changes)
        single = [r for r in by_target if r.scope is ConfigScope.BROKER and r.name]
        batched = [r for r in by_target if r.scope is not ConfigScope.BROKER or not r.name]
        requests = [
            *(
                BatchedRequest([r], _change_request(by_target, [r]), broker=int(r.name))
                for r in single
            ),
            *(
                BatchedRequest(c, _change_request(by_target, c))
                for c in chunks(batched, _TOPICS_PER_REQUEST)
            ),
        ]
        deadline = SendDeadline.within(leaves_within_s)
        sender = Sender(self._wire, _ALTER_CONFIGS, configs.read_alter_results, _alter_configs_on)
        return await sender.together(requests, deadline)

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        changes = [
            BatchedRequest(
                chunk, partial(reassignments.move_request, {tp: paths[tp] for tp in chunk}), broker
            )
            for chunk in chunks(paths, _PARTITIONS_PER_REQUEST)
        ]
        deadline = SendDeadline.within(leaves_within_s)
        return await Sender(self._wire, _ALTER_LOG_DIRS, reassignments.read_moves).in_turn(
            changes, deadline
        )

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignment: Sequence[Brokers] | None = None,
        *,
        leaves_within_s: float | None = None,
    ) -> WriteResult:
        build = partial(
            reassignments.create_request, topic, count, assignment, self._wire.timeout_s
        )
        sender = Sender(
            self._wire, _CREATE_PARTITIONS, reassignments.read_create_results, _alter_topic
        )
        change = BatchedRequest([topic], build)
        return (await sender.in_turn([change], SendDeadline.within(leaves_within_s)))[topic]

    async def unregister_broker(
        self, broker: int, *, leaves_within_s: float | None = None
    ) -> WriteResult:
        read_result = partial(reassignments.read_unregister_result, broker)
        change = BatchedRequest(
            [broker], partial(reassignments.UnregisterBrokerRequest, broker_id=broker)
        )
        sender = Sender(self._wire, _UNREGISTER, read_result)
        return (await sender.in_turn([change], SendDeadline.within(leaves_within_s)))[broker]

    async def delete_broker_settings(
        self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
    ) -> WriteResult:
        deadline = SendDeadline.within(leaves_within_s)
        resource = broker_resource(broker)
        deletions = [ConfigChange(resource, name, ConfigOp.DELETE) for name in names]
        request = BatchedRequest([resource], _change_request({resource: deletions}, [resource]))
        sender = Sender(
            await self._controller_wire(),
            _DELETE_BY_CONTROLLER,
            configs.read_alter_results,
            _alter_configs_on,
        )
        return (await sender.in_turn([request], deadline))[resource]

    async def _controller_wire(self) -> ControllerWire:
        if self._controllers is None:
            named = self._connection.controllers
            if named is None:
                servers, connection = await find_controllers(self._wire), self._connection
            else:
                servers, connection = ",".join(named.bootstrap_servers), named
            cluster_id = (await self._reader.describe_cluster()).cluster_id
            self._controllers = ControllerWire(
                connection.at(servers, cluster_id), timeout_s=self._wire.timeout_s, changes=True
            )
        return self._controllers

    async def aclose(self) -> None:
        await self._wire.aclose()
        if self._controllers is not None:
            await self._controllers.aclose()


def _change_request(
    changes: Mapping[ConfigResource, Sequence[ConfigChange]], resources: Sequence[ConfigResource]
) -> RequestFactory:
    return partial(configs.alter_request, {r: changes[r] for r in resources})


def _alter_configs_on(resource: ConfigResource) -> str:
    return f"AlterConfigs on {configs.permission_target(resource)}"


def _alter_topic(topic: str) -> str:
    return f"Alter on topic {topic}"
