"""A producer and a consumer at work while partitions move: nothing acknowledged may be missing."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from ktui.kafka.connection import Connection
from ktui.kafka.quiet import hush

_LIMIT_S = 60.0


class AckedMessages:
    """Writes numbered messages with acks=all, and reads them back, while its `with` lasts."""

    def __init__(self, connection: Connection, topic: str, partitions: int) -> None:
        settings = connection.for_confluent()
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {**settings, "acks": "all", "enable.idempotence": True, "linger.ms": 5},
            logger=hush("librdkafka"),
        )
        self._consumer = Consumer(
            {**settings, "group.id": "checker", "enable.auto.commit": False},
            logger=hush("librdkafka"),
        )
        self._leave = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._write, self._read)]
        self.acknowledged: set[int] = set()
        self.read: set[int] = set()
        self.failed: list[str] = []

    @property
    def missing(self) -> set[int]:
        """Messages that were acknowledged, and that nobody could read."""
        return self.acknowledged - self.read

    def __enter__(self) -> Self:
        """Begin to write and to read."""
        assigned = [TopicPartition(self._topic, n, 0) for n in range(self._partitions)]
        self._consumer.assign(assigned)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write no more, and read to the end."""
        self._leave.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()

    def _write(self) -> None:
        number = 0
        while not self._leave.wait(0.005):
            self._producer.produce(
                self._topic,
                key=str(number).encode(),
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1
        self._producer.flush(_LIMIT_S)

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
                until = time.monotonic() + _LIMIT_S

    @property
    def _writing(self) -> bool:
        return self._threads[0].is_alive()
