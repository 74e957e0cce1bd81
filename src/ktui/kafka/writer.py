"""The writing port on a real cluster, over kafka-python's raw requests.

Elections and settings go this way too, rather than through confluent-kafka: its futures do not
tell a change that was never sent from one whose answer was lost, and that is the difference
between an error and `Verdict.UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from ktui.cluster.errors import Unsupported
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, Verdict, WriteResult
from ktui.cluster.resources import group_by_resource
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests import configs, elections, reassignments
from ktui.kafka.transport.batches import BatchedRequest, Sender, chunks
from ktui.kafka.transport.client import Build, Wire
from ktui.kafka.transport.send_deadline import SendDeadline
from ktui.kafka.transport.translate_errors import Purpose

_ALTER = Purpose("altering reassignments", needs="Alter on the cluster")
_ELECT = Purpose("electing preferred leaders", needs="Alter on the cluster")
_CONFIGS = Purpose("altering settings", needs="AlterConfigs on the topics or the cluster")

_PARTITIONS_A_REQUEST = 1_000
"""Brokers take 10,000 at most, and not all or nothing; fewer keep a request under a second."""

_TOPICS_A_REQUEST = 500


class KafkaWriter:
    """A `ClusterWriter` on a real cluster. Connects at the first call.

    It has connections of its own: a read that times out, and takes its connection along, costs
    no change its answer.
    """

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, wire: Wire | None = None
    ) -> None:
        self._wire = wire or Wire(connection, timeout_s=timeout_s, changes=True)
        self._reader = KafkaReader(connection, wire=self._wire)

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        """Start reassignments, or with None cancel them, a thousand partitions a request."""
        leave = SendDeadline.within(leaves_within_s)
        if allow_replication_factor_change:
            return await self._alter(targets, leave, guarded=False)
        try:
            return await self._alter(targets, leave, guarded=True)
        except Unsupported:  # before 4.1; the client found out by itself, so nothing was sent
            refused = await self._of_another_factor(targets)
            rest = {tp: replicas for tp, replicas in targets.items() if tp not in refused}
            return {**refused, **await self._alter(rest, leave, guarded=False)}

    async def _alter(
        self, targets: reassignments.TargetsOrCancel, leave: SendDeadline, *, guarded: bool
    ) -> dict[TopicPartition, WriteResult]:
        changes = []
        for chunk in chunks(targets, _PARTITIONS_A_REQUEST):
            part = {tp: targets[tp] for tp in chunk}
            limit = self._wire.timeout_s
            build = partial(reassignments.alter_request, part, limit, guarded=guarded)
            changes.append(BatchedRequest(chunk, build))
        return await Sender(self._wire, _ALTER, reassignments.altered).in_turn(changes, leave)

    async def _of_another_factor(
        self, targets: reassignments.TargetsOrCancel
    ) -> dict[TopicPartition, WriteResult]:
        """Refuse what a broker of 4.1 would: targets of another length than the present one."""
        wanted = {tp: replicas for tp, replicas in targets.items() if replicas is not None}
        moving = await self._reader.list_reassignments()
        topics = await self._reader.describe_topics({tp.topic for tp in wanted})
        hidden = {failure.topic for failure in topics.failures}
        refused = {}
        for tp, replicas in wanted.items():
            state = topics.partitions.get(tp)
            if tp.topic in hidden:
                refused[tp] = _unguarded(tp.topic)
            elif state is not None:
                present = (
                    state.with_reassignment(moving[tp]).target if tp in moving else state.replicas
                )
                if len(replicas) != len(present):
                    refused[tp] = _factor_changed(len(present), len(replicas))
        return refused

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        """Elect the first replica of each. ELECTION_NOT_NEEDED counts as ACCEPTED."""
        limit = self._wire.timeout_s
        changes = [
            BatchedRequest(chunk, partial(elections.elect_request, chunk, limit))
            for chunk in chunks(dict.fromkeys(partitions), _PARTITIONS_A_REQUEST)
        ]
        leave = SendDeadline.within(leaves_within_s)
        return await Sender(self._wire, _ELECT, elections.elected).in_turn(changes, leave)

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        """Change settings: those of topics many to a request, each broker's sent to itself."""
        theirs = group_by_resource(changes)
        alone = [r for r in theirs if r.scope is ConfigScope.BROKER and r.name]
        others = [r for r in theirs if r.scope is not ConfigScope.BROKER or not r.name]
        requests = [
            *(BatchedRequest([r], _changing(theirs, [r]), broker=int(r.name)) for r in alone),
            *(BatchedRequest(c, _changing(theirs, c)) for c in chunks(others, _TOPICS_A_REQUEST)),
        ]
        leave = SendDeadline.within(leaves_within_s)
        sender = Sender(self._wire, _CONFIGS, configs.altered, _to_alter)
        return await sender.together(requests, leave)

    async def aclose(self) -> None:
        """Close every connection and thread. Idempotent."""
        await self._wire.aclose()


def _changing(
    changes: Mapping[ConfigResource, Sequence[ConfigChange]], resources: Sequence[ConfigResource]
) -> Build:
    return partial(configs.alter_request, {r: changes[r] for r in resources})


def _to_alter(resource: ConfigResource) -> str:
    return f"AlterConfigs on {configs.granted_on(resource)}"


def _factor_changed(present: int, wanted: int) -> WriteResult:
    """Refuse in the words of the brokers that have the guard themselves."""
    message = f"The replication factor is changed from {present} to {wanted}"
    return WriteResult(Verdict.REFUSED, "INVALID_REPLICATION_FACTOR", message)


def _unguarded(topic: str) -> WriteResult:
    message = f"{topic} cannot be described, so its replication factor cannot be compared"
    return WriteResult(Verdict.REFUSED, "INVALID_REPLICATION_FACTOR", message)
