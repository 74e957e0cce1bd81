"""Hand-made observations, each described in one line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import msgspec

from ktui.cluster.broker import Broker
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


def a_partition(
    tp: TopicPartition = T0,
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    isr: tuple[int, ...] | None = None,
    topic_id: str | None = "",
    **more: Any,
) -> PartitionState:
    """Return a partition, by default all in sync and led by its first replica."""
    values: dict[str, Any] = {
        "isr": replicas if isr is None else isr,
        "leader": replicas[0] if replicas else None,
        "leader_epoch": 1,
    }
    named = f"id-of-{tp.topic}" if topic_id == "" else topic_id
    return PartitionState(tp, named, replicas, **{**values, **more})


def a_move(
    tp: TopicPartition = T0,
    original: tuple[int, ...] = (1, 2, 3),
    target: tuple[int, ...] = (4, 2, 3),
    **more: Any,
) -> PartitionState:
    """Return a partition that the controller lists as moving from `original` to `target`."""
    adding = tuple(b for b in target if b not in original)
    removing = tuple(b for b in original if b not in target)
    values: dict[str, Any] = {"isr": original, "leader": original[0]}
    return a_partition(
        tp, (*target, *removing), adding=adding, removing=removing, **{**values, **more}
    )


def an_observation(
    partitions: Iterable[PartitionState] = (),
    at_s: float = 0.0,
    *,
    brokers: Collection[int] = range(1, 10),
    down: Collection[int] = (),
    ends: Mapping[tuple[TopicPartition, int], int | Reading] | None = None,
    starts: Mapping[TopicPartition, int | Reading] | None = None,
    sizes: Mapping[tuple[TopicPartition, int], int | Reading] | None = None,
    **more: Any,
) -> Observation:
    """Return a poll at `at_s` seconds after START; plain figures were read at that time."""
    values: dict[str, Any] = {
        "cluster_id": "a-cluster",
        "controller": min(brokers, default=None),
        "brokers": {b: Broker(b, "127.0.0.1", 9000 + b, alive=b not in down) for b in brokers},
        "partitions": {state.tp: state for state in partitions},
        "ends": {Replica(*key): _reading(value, at_s) for key, value in (ends or {}).items()},
        "starts": {tp: _reading(value, at_s) for tp, value in (starts or {}).items()},
        "sizes": {Replica(*key): _reading(value, at_s) for key, value in (sizes or {}).items()},
        "at": START + timedelta(seconds=at_s),
        "monotonic_s": at_s,
        "took_s": 0.01,
    }
    return Observation(**{**values, **more})


def _reading(value: int | Reading, at_s: float) -> Reading:
    return value if isinstance(value, Reading) else Reading(value, at_s)


def folded(observations: Iterable[Observation], progress: Progress | None = None) -> Progress:
    """Fold all observations in order."""
    return reduce(fold, observations, progress or Progress())


def at(observation: Observation, at_s: float) -> Observation:
    """Return the same poll at another second; its figures keep the time of their read."""
    return msgspec.structs.replace(
        observation, at=START + timedelta(seconds=at_s), monotonic_s=at_s
    )
