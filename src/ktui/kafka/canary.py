"""A canary: what producers feel, measured by ktui's own producer on a topic of its own.

The topic has one partition led by each broker, with the cluster's default replication factor and
min.insync.replicas. Records are written with acks=all.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    ConfigResource,
)

from ktui.cluster.errors import ClusterError, Refused, TimedOut
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import (
    acked_producer,
    admin_client,
    assign_round_robin,
    create_topic,
    delete_topics,
)
from ktui.planning.objective import CANARY_PREFIX

RECORDS_S = 20.0
"""Records a second to each broker."""
WINDOW_S = 10.0
"""Seconds of records by which a percentile is taken."""
_RECORD_BYTES = 512
_TICK_S = 0.01
_TIMEOUT_S = 30.0
"""Seconds after which a record counts with the time that it has waited."""
_AGAIN_S = 10.0
"""Seconds after a failure until the topic is made again."""
_USUAL_FACTOR = 3
_NO_TOPIC = "UNKNOWN_TOPIC_OR_PART"
_FEWEST = 20
"""The fewest records by which a percentile is taken."""
_SETTINGS = {"retention.ms": "600000", "segment.bytes": str(16 * 1024 * 1024)}


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
        self.topic = CANARY_PREFIX + run
        self.problem = "the canary has not written for long enough"
        """Why nothing is known."""
        self._connection = connection
        self._lock = threading.Lock()
        self._sent: dict[int, deque[_Sent]] = defaultdict(deque)
        """The records of the last window, by the broker that led their partition at first."""
        self._waiting: dict[int, dict[int, float]] = defaultdict(dict)
        """When each record that is not acknowledged was sent, by broker and number."""
        self._number = 0
        self._lost = False
        """Whether a record was given up: the topic may be gone, and is looked at again."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the topic and begin to write, in a thread; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self.topic, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop writing, and delete the topic.

        Raises:
            ClusterError: the topic may be left; the cluster refused, or did not answer.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
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
                self.problem = f"the canary: {error}"
                self._stop.wait(_AGAIN_S)

    def _leaders(self) -> Sequence[int]:
        """Make the topic unless it is there, and return the leader of each partition.

        Raises:
            ClusterError: the cluster refused, or did not answer.
            KafkaException: the cluster did not answer.
        """
        admin = admin_client(self._connection)
        found = admin.list_topics(timeout=_TIMEOUT_S)
        brokers = sorted(found.brokers)
        if self.topic not in found.topics:
            factor = min(_default_factor(admin, brokers), len(brokers))
            replicas = assign_round_robin(len(brokers), factor, brokers)
            create_topic(self._connection, self.topic, replicas, settings=_SETTINGS)
            found = admin.list_topics(self.topic, timeout=_TIMEOUT_S)
        partitions = found.topics[self.topic].partitions
        return [partitions[number].leader for number in sorted(partitions)]

    def _write(self, leaders: Sequence[int]) -> None:
        settings = {"linger.ms": 0, "message.timeout.ms": int(_TIMEOUT_S * 1000)}
        producer = acked_producer(self._connection, settings)
        began_s, written, self._lost = time.monotonic(), 0, False
        value = os.urandom(_RECORD_BYTES)
        while not (self._lost or self._stop.wait(_TICK_S)):
            due = int((time.monotonic() - began_s) * RECORDS_S)
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


def _default_factor(admin: AdminClient, brokers: Sequence[int]) -> int:
    """Return default.replication.factor of a broker; 3 where it may not be read."""
    if not brokers:
        raise TimedOut("finding brokers for the canary")
    resource = ConfigResource(ConfigResource.Type.BROKER, str(brokers[0]))
    try:
        found = admin.describe_configs([resource])[resource].result(timeout=_TIMEOUT_S)
        return int(found["default.replication.factor"].value)
    except (KafkaException, TimeoutError, KeyError, TypeError, ValueError):
        return _USUAL_FACTOR
