"""The topic of a canary: its replicas and settings, and what keeps a canary from using it.

Asking changes nothing, whether the topic exists or not: a creation is only validated, and the other
requests are for a partition that no topic has. Kafka checks the permission before all else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from kafka.protocol.admin.topics import CreateTopicsRequest, DeleteRecordsRequest
from kafka.protocol.producer.produce import ProduceRequest

from ktui.cluster.kafka_error import KafkaError, Means, error_of, means
from ktui.cluster.permissions import CanaryObstacles
from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests.configs import read_settings
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.client import RequestFactory, Wire
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.workload import assign_round_robin

SETTINGS: Mapping[str, str] = {
    "retention.ms": "600000",
    "segment.bytes": str(16 * 1024 * 1024),
}
DEFAULT_FACTOR = "default.replication.factor"
_MIN_ISR = "min.insync.replicas"
_USUAL_FACTOR = 3
_NO_PARTITION = 2**31 - 1
"""A partition that no topic has."""
_LAST_WITH_NAMES = 12
"""The highest version of Produce in which topics are named; later ones have ids."""
_ALL_IN_SYNC = -1
_ANSWER_MS = 5_000
_ASKING = Purpose("asking what a canary may do")


def canary_replicas(brokers: Sequence[int], default_factor: str | None) -> list[list[int]]:
    """Return the replicas of one partition for each live broker, which is first in it.

    Args:
        brokers: the live brokers.
        default_factor: the cluster's default replication factor; None where it may not be read.
    """
    factor = _USUAL_FACTOR if default_factor is None else int(default_factor)
    return assign_round_robin(len(brokers), min(factor, len(brokers)), brokers)


async def find_obstacles(connection: Connection, topic: str) -> CanaryObstacles:
    """Ask a cluster what keeps a canary from making, writing and deleting its topic.

    Raises:
        ClusterError: no broker answers.
    """
    async with aclosing(Wire(connection)) as wire:
        brokers = sorted(await wire.broker_ids())
        settings = await _default_settings(wire, brokers[0])
        replicas = canary_replicas(brokers, settings.get(DEFAULT_FACTOR))
        created, produced, deleted = await asyncio.gather(
            # Of one partition: a quota (controller_mutation_rate) charges what is only validated.
            wire.ask(_ASKING, partial(_create_request, topic, replicas[:1])),
            wire.ask(_ASKING, partial(_produce_request, topic)),
            wire.ask(_ASKING, partial(_delete_request, topic)),
        )
    creation = created.topics[0]
    codes = {
        "Create": creation.error_code,
        "Write": produced.responses[0].partition_responses[0].error_code,
        "Delete": deleted.topics[0].partitions[0].error_code,
    }
    refusal = ""
    code = creation.error_code
    made_later = {None, KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.THROTTLING_QUOTA_EXCEEDED}
    if code and error_of(code) not in made_later and not means(code, Means.DENIED):
        refusal = error_codes.describe_error(creation.error_code, creation.error_message)
    return CanaryObstacles(
        tuple(operation for operation, code in codes.items() if means(code, Means.DENIED)),
        refusal or min_isr_problem(len(replicas[0]), settings.get(_MIN_ISR)),
    )


def min_isr_problem(factor: int, min_isr: str | None) -> str:
    """Return why a topic with so many replicas takes no record; empty if it does, or for None."""
    if min_isr is None or factor >= int(min_isr):
        return ""
    return (
        f"it has {factor} of the {min_isr} replicas that {_MIN_ISR} wants by default, so it takes "
        "no record with acks=all"
    )


async def _default_settings(wire: Wire, broker: int) -> Mapping[str, str]:
    """Return the defaults of new topics, as far as they may be read."""

    async def ask(build: RequestFactory) -> Any:
        return await wire.ask(_ASKING, build, broker=broker)

    resource = ConfigResource(ConfigScope.BROKER, str(broker))
    answer = await read_settings(ask, [resource], [DEFAULT_FACTOR, _MIN_ISR])
    found = answer.settings.get(resource, {})
    return {name: setting.value for name, setting in found.items()}


def _create_request(name: str, replicas: Sequence[Sequence[int]]) -> Any:
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[
            topic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
                    for number, brokers in enumerate(replicas)
                ],
                configs=[
                    topic.CreatableTopicConfig(name=key, value=value)
                    for key, value in SETTINGS.items()
                ],
            )
        ],
        timeout_ms=_ANSWER_MS,
        validate_only=True,
    )


def _produce_request(name: str) -> Any:
    topic = ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData(index=_NO_PARTITION, records=None)
    return ProduceRequest(
        transactional_id=None,
        acks=_ALL_IN_SYNC,
        timeout_ms=_ANSWER_MS,
        topic_data=[topic(name=name, partition_data=[partition])],
        max_version=_LAST_WITH_NAMES,
    )


def _delete_request(name: str) -> Any:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    partition = topic.DeleteRecordsPartition(partition_index=_NO_PARTITION, offset=0)
    return DeleteRecordsRequest(
        topics=[topic(name=name, partitions=[partition])], timeout_ms=_ANSWER_MS
    )
