"""Producers and consumers that run while partitions move: no acknowledged message may be lost."""

from __future__ import annotations

import enum
import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.pool import redirect_client_log

_LIMIT_S = 60.0
_SESSION_MS = 6_000
_IN_A_TRANSACTION = 20


class Writing(enum.StrEnum):
    """How a producer writes; always with acks=all."""

    PLAIN = "acks-all"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


class AckedMessages:
    """Writes numbered messages with acks=all and reads them back, inside a `with` block.

    Message n goes to partition n modulo the number of partitions.

    Args:
        connection: the connection to the cluster.
        topic: an existing topic.
        partitions: the topic's number of partitions.
        writing: how the producer writes.
        every_s: seconds between two messages.
        group: a consumer group that reads the messages; None to read without a group.
        limit_s: seconds to flush and to read the remaining messages at the end.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        partitions: int,
        *,
        writing: Writing = Writing.IDEMPOTENT,
        every_s: float = 0.005,
        group: str | None = None,
        limit_s: float = _LIMIT_S,
    ) -> None:
        self._settings: dict[str, Any] = {**connection.for_confluent()}
        self._topic, self._partitions = topic, partitions
        self._writing_as, self._every_s, self._limit_s = writing, every_s, limit_s
        self._producer = self._a_producer()
        self._group = group
        self._consumer = Consumer(
            {
                **self._settings,
                "group.id": group or "checker",
                "enable.auto.commit": group is not None,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": _SESSION_MS,
            },
            logger=redirect_client_log("librdkafka"),
        )
        self._leave = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._write, self._read)]
        self.acknowledged: set[int] = set()
        self.read: set[int] = set()
        self.failed: list[str] = []

    @property
    def missing(self) -> set[int]:
        """Messages that were acknowledged, but could not be read."""
        return self.acknowledged - self.read

    def __enter__(self) -> Self:
        """Start to write and to read."""
        if self._group is None:
            assigned = [TopicPartition(self._topic, n, 0) for n in range(self._partitions)]
            self._consumer.assign(assigned)
        else:
            self._consumer.subscribe([self._topic])
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop writing, and read to the end."""
        self._leave.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()
        del self._producer  # its threads end with it

    def _write(self) -> None:
        if self._writing_as is Writing.TRANSACTIONAL:
            self._write_transactions()
            return
        number = 0
        while not self._leave.wait(self._every_s):
            try:
                self._produce(number, self._delivered)
            except KafkaException as error:  # an idempotent producer is unusable after some errors
                self.failed.append(str(error))
                self._producer = self._a_producer()
            number += 1
        self._producer.flush(self._limit_s)

    def _produce(self, number: int, on_delivery: Any) -> None:
        self._producer.produce(
            self._topic,
            key=str(number).encode(),
            partition=number % self._partitions,
            on_delivery=on_delivery,
        )
        self._producer.poll(0)

    def _write_transactions(self) -> None:
        """Count a message as acknowledged once its transaction is committed."""
        number, begun = 0, False
        while not self._leave.is_set():
            try:
                if not begun:
                    self._producer.init_transactions(self._limit_s)
                    begun = True
                self._producer.begin_transaction()
                numbers = range(number, number + _IN_A_TRANSACTION)
                number = numbers.stop
                for each in numbers:
                    self._leave.wait(self._every_s)
                    self._produce(each, _passed_over)
                self._commit()
            except KafkaException as error:
                self.failed.append(str(error))
                begun = begun and self._aborted(error.args[0])
            else:
                self.acknowledged.update(numbers)

    def _commit(self) -> None:
        """Commit, and try again while the outcome of the commit is unknown."""
        until = time.monotonic() + self._limit_s
        while True:
            try:
                return self._producer.commit_transaction(self._limit_s)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    def _aborted(self, error: KafkaError) -> bool:
        """Abort a transaction and return whether that worked; if not, make a new producer."""
        if error.txn_requires_abort():
            try:
                self._producer.abort_transaction(self._limit_s)
            except KafkaException as again:
                self.failed.append(str(again))
            else:
                return True
        self._producer = self._a_producer()
        return False

    def _a_producer(self) -> Producer:
        settings: dict[str, Any] = {"acks": "all", "linger.ms": 5}
        match self._writing_as:
            case Writing.TRANSACTIONAL:
                settings["transactional.id"] = self._topic
            case _:
                settings["enable.idempotence"] = self._writing_as is Writing.IDEMPOTENT
        return Producer({**self._settings, **settings}, logger=redirect_client_log("librdkafka"))

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.add(int(message.key()))

    def _read(self) -> None:
        until = None
        while until is None or (time.monotonic() < until and (self._writing or self.missing)):
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None and (key := message.key()):
                self.read.add(int(key))
            if self._leave.is_set() and until is None:
                until = time.monotonic() + self._limit_s

    @property
    def _writing(self) -> bool:
        return self._threads[0].is_alive()


def _passed_over(_error: Any, _message: Any) -> None:
    """Ignore a delivery report: the commit decides the fate of the message."""
