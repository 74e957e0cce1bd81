"""A canary: what producers feel, measured by ktui's own producer on a topic of its own.

The topic has one partition led by each broker, with the cluster's default replication factor and
min.insync.replicas. Records are written with acks=all. Where a broker leads its partition no more
although it could, it is elected again, so that every broker stays measured.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    ConfigResource,
    TopicMetadata,
)

from ktui.cluster.errors import ClusterError, Refused, TimedOut
from ktui.cluster.text import clean
from ktui.kafka.canary_topic import DEFAULT_FACTOR, SETTINGS, canary_replicas
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import acked_producer, admin_client, create_topic, delete_topics
from ktui.planning.objective import CANARY_RECORDS_S, canary_topic

log = logging.getLogger(__name__)

WINDOW_S = 10.0
"""Seconds of records by which a percentile is taken."""
_RECORD_BYTES = 512
_TICK_S = 0.01
_TIMEOUT_S = 30.0
"""Seconds after which a record counts with the time that it has waited."""
_AGAIN_S = 10.0
"""Seconds after a failure until the topic is made again."""
_ELECT_S = 30.0
"""Seconds between two looks at who leads."""
_NO_TOPIC = "UNKNOWN_TOPIC_OR_PART"
_FEWEST = 20
"""The fewest records by which a percentile is taken."""


class _Sent(NamedTuple):
    """A record, and the seconds until it was acknowledged; None until then."""

    at_s: float
    took_s: float | None


class Canary:
    """Write to the topic in a thread, and know how long each broker took to acknowledge.

    Args:
        connection: how to reach the cluster.
        run: the name of the run that the topic is named by.
    """

    def __init__(self, connection: Connection, run: str) -> None:
        self.topic = canary_topic(run)
        self.problem = "the canary has not written for long enough"
        """Why nothing is known."""
        self._connection = connection
        self._lock = threading.Lock()
        self._sent: dict[int, deque[_Sent]] = defaultdict(deque)
        """The records of the last window, by the broker that is to lead their partition."""
        self._waiting: dict[int, dict[int, float]] = defaultdict(dict)
        """When each record that is not acknowledged was sent, by broker and number."""
        self._number = 0
        self._lost = False
        """Whether a record was given up: the topic may be gone, and is looked at again."""
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Make the topic and begin to write, in a thread; a second call does nothing."""
        if not self._threads:
            for serve in (self._serve, self._keep_leaders):
                self._threads.append(threading.Thread(target=serve, name=self.topic, daemon=True))
                self._threads[-1].start()

    def close(self) -> None:
        """Stop writing, and delete the topic.

        Raises:
            ClusterError: the topic may be left; the cluster refused, or did not answer.
        """
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
        """Return the percentile of each broker's last window in seconds, where it is known.

        Records that wait count with the time that they have waited.
        """
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
        """Make the topic unless it is there, and return the broker that each partition is for.

        A topic that lacks a partition for some broker is replaced: the broker has joined since.

        Raises:
            ClusterError: the cluster refused, or did not answer.
            KafkaException: the cluster did not answer.
        """
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
    """Return default.replication.factor of a broker; None where it may not be read."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    try:
        found = admin.describe_configs([resource])[resource].result(timeout=_TIMEOUT_S)
    except (KafkaException, TimeoutError):
        return None
    entry = found.get(DEFAULT_FACTOR)
    return None if entry is None else entry.value
