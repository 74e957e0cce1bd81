"""A topic with data that lasts for a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics, fill


@contextmanager
def filled_topic(
    connection: Connection, name: str, replicas: Sequence[Sequence[int]], *, bytes_each: int
) -> Iterator[str]:
    """Create a topic with data in each partition, and delete it after the block."""
    create_topic(connection, name, replicas)
    fill(connection, name, range(len(replicas)), bytes_each=bytes_each)
    try:
        yield name
    finally:
        delete_topics(connection, [name])
