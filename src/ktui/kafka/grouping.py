"""Partitions as requests want them: topic by topic, in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from ktui.cluster.partition import TopicPartition

_T = TypeVar("_T")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic, each once, keeping the order they come in."""
    grouped: dict[str, dict[int, None]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, {})[tp.partition] = None
    return {topic: list(numbers) for topic, numbers in grouped.items()}


def chunks(items: Iterable[_T], size: int) -> Iterator[Sequence[_T]]:
    """Cut into runs of at most `size`."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
