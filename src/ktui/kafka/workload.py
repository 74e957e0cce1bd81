"""Topics, data, load and throttles for demonstrations and tests. Every call blocks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from ktui.cluster.errors import ClusterError, Refused, TimedOut
from ktui.cluster.partition import Replica
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.pool import redirect_client_log

_LIMIT_S = 60.0
_LEADERS_S = 120.0  # until a new topic has leaders: a cluster's first one takes long
_ATTEMPT_S = 8.0  # seconds for one attempt: one whose broker is dead or too busy waits in vain
_POLL_S = 0.05


def create_topic(
    connection: Connection,
    name: str,
    replicas: Sequence[Sequence[int]],
    *,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with these replicas, and return when every partition has a leader."""
    topic = NewTopic(
        name,
        num_partitions=len(replicas),
        replica_assignment=[list(brokers) for brokers in replicas],
        config=dict(settings or {}),
    )

    def ask(admin: AdminClient) -> Any:
        return admin.create_topics([topic], request_timeout=_ATTEMPT_S)[name]

    _retry(connection, ask, "creating a topic", name, before="TOPIC_ALREADY_EXISTS")
    admin = admin_client(connection)
    until = time.monotonic() + _LEADERS_S
    while not _have_leaders(admin, name, len(replicas)):
        if time.monotonic() > until:
            raise TimedOut("waiting for a new topic's leaders", where=name)
        time.sleep(_POLL_S)


def assign_round_robin(partitions: int, factor: int, brokers: Sequence[int]) -> list[list[int]]:
    """Assign replicas to brokers round robin; partition 0 begins at the first broker."""
    count = len(brokers)
    return [[brokers[(p + i) % count] for i in range(factor)] for p in range(partitions)]


def delete_topics(connection: Connection, names: Collection[str]) -> None:
    """Delete topics."""
    for name in names:

        def ask(admin: AdminClient, name: str = name) -> Any:
            return admin.delete_topics([name], request_timeout=_ATTEMPT_S)[name]

        _retry(connection, ask, "deleting a topic", name, before="UNKNOWN_TOPIC_OR_PART")


def fill(
    connection: Connection,
    topic: str,
    partitions: Collection[int],
    *,
    bytes_each: int,
    message_bytes: int = 8192,
) -> int:
    """Write `bytes_each` of incompressible messages to each partition, acked by the ISR."""
    each = -(-bytes_each // message_bytes)
    tally = _Tally()
    producer = acked_producer(connection, {"linger.ms": 20, "batch.size": 64 * 1024})
    value = os.urandom(message_bytes)
    for _ in range(each):
        for partition in partitions:
            _produce(producer, topic, value, partition, tally)
        tally.check(topic)
    if producer.flush(_LIMIT_S):
        raise TimedOut("writing messages", where=topic)
    tally.check(topic)
    return each


class SteadyProducer:
    """A thread that writes to every partition in turn at a steady rate, as a context manager."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        partitions: int,
        *,
        messages_s: float,
        message_bytes: int = 512,
    ) -> None:
        self._producer = acked_producer(connection, {"linger.ms": 5})
        self._topic = topic
        self._partitions = partitions
        self._messages_s = messages_s
        self._value = os.urandom(message_bytes)
        self._tally = _Tally()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer of {topic}", daemon=True)

    @property
    def acknowledged(self) -> int:
        return self._tally.acknowledged

    @property
    def failed(self) -> int:
        return self._tally.failed

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(_POLL_S if error else _LIMIT_S)

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stop.wait(_POLL_S):
            due = int((time.monotonic() - began) * self._messages_s)
            for number in range(sent, due):
                partition = number % self._partitions
                _produce(self._producer, self._topic, self._value, partition, self._tally)
            sent = due
            self._producer.poll(0)


def throttle_followers(
    connection: Connection, replicas: Collection[Replica], *, bytes_s: int
) -> None:
    """Limit how fast replicas copy, in bytes a second a broker, on the followers' side only."""
    for topic, listed in _throttled_entries(replicas).items():
        _set(connection, ConfigResource.Type.TOPIC, topic, FOLLOWER_REPLICAS, ",".join(listed))
    for broker in sorted({replica.broker for replica in replicas}):
        _set(connection, ConfigResource.Type.BROKER, str(broker), FOLLOWER_RATE, str(bytes_s))


def remove_throttles(connection: Connection, replicas: Collection[Replica]) -> None:
    """Remove the throttles that `throttle_followers` set for these replicas' topics and brokers."""
    for broker in sorted({replica.broker for replica in replicas}):
        _set(connection, ConfigResource.Type.BROKER, str(broker), FOLLOWER_RATE, None)
    for topic in _throttled_entries(replicas):
        _set(connection, ConfigResource.Type.TOPIC, topic, FOLLOWER_REPLICAS, None)


def _throttled_entries(replicas: Collection[Replica]) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for replica in sorted(replicas):
        lists.setdefault(replica.tp.topic, []).append(f"{replica.tp.partition}:{replica.broker}")
    return lists


def _set(connection: Connection, kind: Any, name: str, key: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])

    def ask(admin: AdminClient) -> Any:
        return admin.incremental_alter_configs([resource], request_timeout=_ATTEMPT_S)[resource]

    _retry(connection, ask, f"setting {key}", name)


class _Tally:
    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self._why = ""

    def count(self, error: Any, _message: Message) -> None:
        """Count one delivery report; confluent-kafka calls it from poll and flush."""
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self._why = clean(str(error))

    def check(self, topic: str) -> None:
        if self.failed:
            raise TimedOut("writing messages", where=topic, answer=self._why)


def admin_client(connection: Connection) -> AdminClient:
    """Return an admin client. Keep a reference: a collected admin client drops its calls."""
    settings: dict[str, Any] = {**connection.for_confluent()}
    return AdminClient(settings, logger=redirect_client_log("librdkafka"))


def acked_producer(connection: Connection, settings: Mapping[str, Any]) -> Producer:
    """Return a producer with acks=all; the settings, under librdkafka's names, go before ours."""
    limit = {"message.timeout.ms": int(_LIMIT_S * 1000), "acks": "all"}
    return Producer(
        {**connection.for_confluent(), **limit, **settings},
        logger=redirect_client_log("librdkafka"),
    )


def _produce(producer: Producer, topic: str, value: bytes, partition: int, tally: _Tally) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition, on_delivery=tally.count)
        except BufferError:
            producer.poll(_POLL_S)
        else:
            return


def _have_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    try:
        found = admin.list_topics(topic, timeout=_ATTEMPT_S).topics[topic].partitions.values()
    except KafkaException as error:
        failure = _error(error, "describing a topic", topic)
        if isinstance(failure, TimedOut):
            return False
        raise failure from None
    return len(found) == partitions and all(partition.leader >= 0 for partition in found)


def _retry(
    connection: Connection,
    ask: Callable[[AdminClient], Any],
    attempted: str,
    where: str,
    *,
    before: str = "",
) -> None:
    """Ask one client after another; the code `before` shows that an earlier attempt worked."""
    until = time.monotonic() + _LIMIT_S
    asked_before = False
    while True:
        admin = admin_client(connection)
        try:
            return _outcome(ask(admin), attempted, where)
        except TimedOut:
            if time.monotonic() > until:
                raise
        except Refused as refused:
            if not asked_before or refused.code != before:
                raise
            return None
        asked_before = True


def _outcome(future: Any, attempted: str, where: str) -> None:
    try:
        future.result(timeout=_LIMIT_S)
    except KafkaException as error:
        raise _error(error, attempted, where) from None
    except TimeoutError:
        raise TimedOut(attempted, where=where) from None


def _error(error: KafkaException, attempted: str, where: str) -> ClusterError:
    cause = error.args[0]
    if cause.name() in ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "REQUEST_TIMED_OUT"):
        return TimedOut(attempted, where=where, answer=clean(cause.str()))
    return Refused(attempted, code=cause.name(), where=where, answer=clean(cause.str()))
