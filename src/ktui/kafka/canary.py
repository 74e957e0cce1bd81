"""The canary: its topic, what keeps it from using one, and its records with their latency."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, TopicMetadata  # type: ignore[attr-defined]  # its documented names
from confluent_kafka.admin import ConfigResource as BrokerResource  # type: ignore[attr-defined]  # the same
from kafka.protocol.admin.topics import CreateTopicsRequest, DeleteRecordsRequest
from kafka.protocol.producer.produce import ProduceRequest

from ktui.cluster.errors import ClusterError, KafkaError, Means, Refused, TimedOut, error_of, means
from ktui.cluster.ports import CanaryObstacles, ConfigResource, ConfigScope
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests.configs import read_settings
from ktui.kafka.transport.client import RequestFactory, Wire
from ktui.kafka.transport.translate_errors import Purpose, describe_error
from ktui.kafka.workload import (
    acked_producer,
    admin_client,
    assign_round_robin,
    create_topic,
    delete_topics,
)
from ktui.planning.throttle_rates import CANARY_RECORDS_S, canary_topic

SETTINGS: Mapping[str, str] = {"retention.ms": "600000", "segment.bytes": str(16 * 1024 * 1024)}
DEFAULT_FACTOR = "default.replication.factor"
_MIN_ISR = "min.insync.replicas"
_USUAL_FACTOR = 3
_NO_PARTITION = 2**31 - 1  # a partition that no topic has
_LAST_WITH_NAMES = 12  # the last version of Produce that names topics; later ones have ids
_ALL_IN_SYNC = -1
_ANSWER_MS = 5_000
_ASKING = Purpose("asking what a canary may do")


def canary_replicas(brokers: Sequence[int], default_factor: str | None) -> list[list[int]]:
    """Return the replicas of one partition for each live broker, which is first in it."""
    factor = _USUAL_FACTOR if default_factor is None else int(default_factor)
    return assign_round_robin(len(brokers), min(factor, len(brokers)), brokers)


async def find_obstacles(connection: Connection, topic: str) -> CanaryObstacles:
    """Ask a cluster what keeps a canary from making, writing and deleting its topic."""
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
        refusal = describe_error(creation.error_code, creation.error_message)
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


log = logging.getLogger(__name__)

WINDOW_S = 10.0  # seconds of records by which a percentile is taken
_RECORD_BYTES = 512
_TICK_S = 0.01
_TIMEOUT_S = 30.0  # seconds after which a record counts with the time that it has waited
_AGAIN_S = 10.0  # seconds after a failure until the topic is made again
_ELECT_S = 30.0
_NO_TOPIC = "UNKNOWN_TOPIC_OR_PART"
_FEWEST = 20  # the fewest records by which a percentile is taken


class _Sent(NamedTuple):
    at_s: float
    took_s: float | None


class Canary:
    """Write to the topic in a thread, and know how long each broker took to acknowledge."""

    def __init__(self, connection: Connection, run: str) -> None:
        self.topic = canary_topic(run)
        self.problem = "the canary has not written for long enough"
        self._connection = connection
        self._lock = threading.Lock()
        self._sent: dict[int, deque[_Sent]] = defaultdict(deque)
        self._waiting: dict[int, dict[int, float]] = defaultdict(dict)
        self._number = 0
        self._lost = False
        """Whether a record was given up: the topic may be gone, and is looked at again."""
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        if not self._threads:
            for serve in (self._serve, self._keep_leaders):
                self._threads.append(threading.Thread(target=serve, name=self.topic, daemon=True))
                self._threads[-1].start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._threads:
            try:
                delete_topics(self._connection, [self.topic])
            except Refused as refused:
                if refused.code != _NO_TOPIC:
                    raise

    def percentiles_s(self, percent: float) -> dict[int, float]:
        """Return each broker's percentile of the last window in seconds; waiting records count."""
        now_s = time.monotonic()
        with self._lock:
            brokers = self._sent.keys() | self._waiting.keys()
            known = {broker: self._percentile_s(broker, percent, now_s) for broker in brokers}
        return {broker: seconds for broker, seconds in known.items() if seconds is not None}

    def _percentile_s(self, broker: int, percent: float, now_s: float) -> float | None:
        sent = self._sent[broker]
        while sent and now_s - sent[0].at_s > WINDOW_S:
            sent.popleft()
        took = [each.took_s for each in sent if each.took_s is not None]
        took += [now_s - at_s for at_s in self._waiting[broker].values()]
        if len(took) < _FEWEST:
            return None
        return sorted(took)[math.ceil(len(took) * percent / 100) - 1]

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                self._write(self._leaders())
            except (ClusterError, KafkaException) as error:
                self.problem = f"the canary: {clean(str(error))}"
                self._stop.wait(_AGAIN_S)
            except Exception as error:  # it begins again, and until then there is no figure
                log.exception("the canary failed")
                self.problem = f"the canary: {error!r:.200}"
                self._stop.wait(_AGAIN_S)

    def _leaders(self) -> Sequence[int]:
        admin = admin_client(self._connection)
        found = admin.list_topics(timeout=_TIMEOUT_S)
        brokers = sorted(found.brokers)
        if not brokers:
            raise TimedOut("finding brokers for the canary")
        leaders = preferred_leaders(found.topics.get(self.topic))
        if not {*leaders} >= {*brokers}:
            if leaders:
                delete_topics(self._connection, [self.topic])
            replicas = canary_replicas(brokers, _default_factor(admin, brokers[0]))
            create_topic(self._connection, self.topic, replicas, settings=SETTINGS)
            leaders = [first for first, *_ in replicas]
        return leaders

    def _keep_leaders(self) -> None:
        while not self._stop.wait(_ELECT_S):
            try:
                self._elect_preferred()
            except (ClusterError, KafkaException, TimeoutError):
                continue  # the next look finds out
            except Exception:
                log.exception("the leaders of the canary were not looked at")

    def _elect_preferred(self) -> None:
        admin = admin_client(self._connection)
        found = admin.list_topics(self.topic, timeout=_TIMEOUT_S).topics[self.topic]
        if away := led_elsewhere(found):
            partitions = [TopicPartition(self.topic, number) for number in away]
            admin.elect_leaders(ElectionType.PREFERRED, partitions).result(_TIMEOUT_S)

    def _write(self, leaders: Sequence[int]) -> None:
        settings = {"linger.ms": 0, "message.timeout.ms": int(_TIMEOUT_S * 1000)}
        producer = acked_producer(self._connection, settings)
        began_s, written, self._lost = time.monotonic(), 0, False
        value = os.urandom(_RECORD_BYTES)
        while not (self._lost or self._stop.wait(_TICK_S)):
            due = int((time.monotonic() - began_s) * CANARY_RECORDS_S)
            for _ in range(written, due):
                for partition, leader in enumerate(leaders):
                    self._produce(producer, value, partition, leader)
            written = due
            producer.poll(0)
        with suppress(KafkaException):
            producer.purge()
            producer.flush(1.0)

    def _produce(self, producer: Producer, value: bytes, partition: int, broker: int) -> None:
        self._number += 1
        number, sent_s = self._number, time.monotonic()

        def delivered(error: Any, _message: Any) -> None:
            took_s = time.monotonic() - sent_s if error is None else _TIMEOUT_S
            self._lost = self._lost or error is not None
            with self._lock:
                self._waiting[broker].pop(number, None)
                self._sent[broker].append(_Sent(sent_s, took_s))

        with self._lock:
            self._waiting[broker][number] = sent_s
        with suppress(BufferError):  # the queue is full of records that wait: they tell enough
            producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
            return
        with self._lock:
            self._waiting[broker].pop(number, None)


def preferred_leaders(topic: TopicMetadata | None) -> list[int]:
    """Return the broker that each partition of a topic is for; none without a topic."""
    partitions = {} if topic is None else topic.partitions
    return [partitions[number].replicas[0] for number in sorted(partitions)]


def led_elsewhere(topic: TopicMetadata) -> list[int]:
    """Return the partitions whose first replica could lead, and does not."""
    return [
        number
        for number, partition in sorted(topic.partitions.items())
        if partition.leader != partition.replicas[0] and partition.replicas[0] in partition.isrs
    ]


def _default_factor(admin: AdminClient, broker: int) -> str | None:
    resource = BrokerResource(BrokerResource.Type.BROKER, str(broker))
    try:
        found = admin.describe_configs([resource])[resource].result(timeout=_TIMEOUT_S)
    except (KafkaException, TimeoutError):
        return None
    entry = found.get(DEFAULT_FACTOR)
    return None if entry is None else entry.value
