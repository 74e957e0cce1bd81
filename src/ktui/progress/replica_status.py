"""How far each replica of a plan is (KIP-179), as far as one observation shows it."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.progress.timeline import Lane, Progress
from ktui.speed.answer import Span


class ReplicaStatus(enum.StrEnum):
    """The status of a planned replica, in KIP-179's words; "Broker is down" is ours."""

    IN_SYNC = "In sync"
    BEHIND = "Behind"
    UNKNOWN_TOPIC = "Unknown topic"
    UNKNOWN_PARTITION = "Unknown partition"
    UNKNOWN_BROKER = "Unknown broker"
    NOT_HOSTED = "Broker does not host this partition"
    DOWN = "Broker is down"
    NOT_KNOWN = "Not known"


class ReplicaProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One replica that a plan wants, and how far it is."""

    tp: TopicPartition
    broker: int
    status: ReplicaStatus
    messages: int | None = None
    bytes: int | None = None
    rate_bytes_s: float | None = None
    left_s: Span | None = None  # until it has caught up; known from the second observation on


def replica_progress(
    progress: Progress, targets: Mapping[TopicPartition, Brokers], topics: Collection[str]
) -> Iterator[ReplicaProgress]:
    """Yield each replica of a plan, in the plan's order."""
    seen = progress.last
    if seen is None:
        return
    for tp, brokers in targets.items():
        timeline = progress.timelines.get(tp)
        lanes = {} if timeline is None else timeline.lanes
        for broker in brokers:
            status = _status(seen, tp, broker, topics)
            behind = status is ReplicaStatus.BEHIND
            lane = lanes.get(broker) if behind else None
            yield _progress(tp, broker, status, lane, _lag(seen, tp, broker) if behind else None)


def _progress(
    tp: TopicPartition, broker: int, status: ReplicaStatus, lane: Lane | None, lag: int | None
) -> ReplicaProgress:
    if lane is None:
        return ReplicaProgress(tp=tp, broker=broker, status=status, messages=lag)
    return ReplicaProgress(
        tp=tp,
        broker=broker,
        status=status,
        messages=lag,
        bytes=lane.lag_bytes,
        rate_bytes_s=lane.rate_bytes_s,
        left_s=lane.left_s,
    )


def _status(
    seen: Observation, tp: TopicPartition, broker: int, topics: Collection[str]
) -> ReplicaStatus:
    state = seen.partitions.get(tp)
    if tp.topic not in topics:
        return ReplicaStatus.UNKNOWN_TOPIC
    if tp in seen.absent:
        return ReplicaStatus.UNKNOWN_PARTITION
    if broker not in seen.brokers and (state is None or broker not in state.replicas):
        return ReplicaStatus.UNKNOWN_BROKER  # Kafka before 4.0 does not list one that is down
    if state is None or not state.described:
        return ReplicaStatus.NOT_KNOWN
    return _status_in(state, broker, alive=seen.alive(broker))


def _status_in(state: PartitionState, broker: int, *, alive: bool) -> ReplicaStatus:
    if broker not in state.replicas:
        return ReplicaStatus.NOT_HOSTED
    if not alive:
        return ReplicaStatus.DOWN
    return ReplicaStatus.IN_SYNC if broker in state.isr else ReplicaStatus.BEHIND


def _lag(seen: Observation, tp: TopicPartition, broker: int) -> int | None:
    leader = seen.partitions[tp].leader
    start = seen.starts.get(tp)
    ends = [seen.ends.get(Replica(tp, each)) for each in (leader, broker) if each is not None]
    match ends:
        case [first, second] if first is not None and second is not None:
            begun = second.value if start is None else max(second.value, start.value)
            return max(0, first.value - begun)
        case _:
            return None
