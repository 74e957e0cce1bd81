"""How far a replica has come: its lag, its share caught up, and its leader's inbound rate."""

from __future__ import annotations

import msgspec

from ktui.cluster.observation import Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress import rates
from ktui.progress.memory import Meter, MoveMemory
from ktui.progress.poll import Poll


class LeaderLog(msgspec.Struct, frozen=True, gc=False):
    """The leader's log, which the followers copy."""

    tp: TopicPartition
    end: Reading | None
    start: Reading | None
    size: Reading | None
    by_offsets: bool
    """Whether offsets measure what is left to copy; false for compacted topics."""
    sizes_differ: bool
    """Whether a replica in sync may be smaller on disk: on tiered topics."""
    ends: Meter | None
    sizes: Meter | None
    messages_s: float | None
    """Messages written to it a second."""
    bytes_s: float | None
    message_bytes: float | None
    """Bytes on disk per message; None where unknown or misleading."""


class ReplicaFigures(msgspec.Struct, frozen=True, gc=False):
    """One replica compared with its leader. Lags are never negative; None where unknown."""

    messages: int | None = None
    size: int | None = None
    """Lag in bytes."""
    share: float | None = None
    approximate: bool = False
    at_s: float | None = None
    """Monotonic second at which the follower was read."""


def read_leader(state: PartitionState, memory: MoveMemory | None, poll: Poll) -> LeaderLog:
    """Read the leader's figures, and continue measuring its inbound rate."""
    observation = poll.observation
    leader = Replica(state.tp, state.leader) if state.leader is not None else None
    end = observation.ends.get(leader) if leader else None
    size = observation.sizes.get(leader) if leader else None
    start = observation.starts.get(state.tp)
    config = observation.topic_configs.get(state.tp.topic)
    by_offsets = config is None or config.offsets_measure_size
    each = _message_bytes(end, start, size) if by_offsets else None
    ends = rates.advance(memory.inbound if memory else None, end, poll)
    sizes = rates.advance(memory.inbound_size if memory else None, size, poll)
    messages_s = rates.rate(ends, poll.now_s, poll.restart_s)
    bytes_s = rates.rate(sizes, poll.now_s, poll.restart_s)
    if each is not None and messages_s is not None:
        bytes_s = messages_s * each
    return LeaderLog(
        tp=state.tp,
        end=end,
        start=start,
        size=size,
        by_offsets=by_offsets,
        sizes_differ=config is not None and config.tiered,
        ends=ends,
        sizes=sizes,
        messages_s=messages_s,
        bytes_s=bytes_s,
        message_bytes=each,
    )


def _message_bytes(
    end: Reading | None, start: Reading | None, size: Reading | None
) -> float | None:
    if end is None or start is None or size is None:
        return None
    messages = end.value - start.value
    return size.value / messages if messages > 0 and size.value > 0 else None


def compare_with_leader(
    leader: LeaderLog, end: Reading | None, size: Reading | None
) -> ReplicaFigures:
    """Compare a replica with its leader: its log end and bytes on disk, each with its own time."""
    messages = None
    if end is not None and leader.end is not None:
        # The leader's reading may be the older one: a follower ahead of it has no lag. One that has
        # not begun will begin where the leader's log does.
        begun = end.value if leader.start is None else max(end.value, leader.start.value)
        messages = max(0, leader.end.value - begun)
    share, approximate = _share(leader, end, size)
    newest = end if end is not None else size
    return ReplicaFigures(
        messages=messages,
        size=_lag_bytes(leader, messages, end, size),
        share=share,
        approximate=approximate,
        at_s=None if newest is None else newest.at_s,
    )


def _lag_bytes(
    leader: LeaderLog, messages: int | None, end: Reading | None, size: Reading | None
) -> int | None:
    if messages == 0:
        return 0
    each = leader.message_bytes
    by_messages = None if messages is None or each is None else round(messages * each)
    if size is None or leader.size is None:
        return by_messages
    newer = end is not None and end.at_s > size.at_s
    if by_messages is not None and (newer or leader.sizes_differ):
        return by_messages
    return max(0, leader.size.value - size.value)


def _share(
    leader: LeaderLog, end: Reading | None, size: Reading | None
) -> tuple[float | None, bool]:
    """Return the share caught up, and whether it is approximate."""
    by_offsets = _offset_share(leader, end)
    if leader.by_offsets and by_offsets is not None:
        return by_offsets, False
    if size is not None and leader.size is not None:
        return _ratio(size.value, leader.size.value), True
    return by_offsets, by_offsets is not None


def _offset_share(leader: LeaderLog, end: Reading | None) -> float | None:
    if end is None or leader.end is None or leader.start is None:
        return None
    start = leader.start.value
    if leader.end.value <= start:
        return 1.0 if end.value >= leader.end.value else 0.0
    return _ratio(end.value - start, leader.end.value - start)


def _ratio(part: int, whole: int) -> float:
    return 1.0 if whole <= 0 else min(1.0, max(0.0, part / whole))
