"""Follow a replica that is catching up, poll by poll: rates, time left, headway."""

from __future__ import annotations

import msgspec

from ktui.cluster.observation import Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress import poll as rates
from ktui.progress.flows import message_bytes
from ktui.progress.memory import (
    CopySpan,
    LaneMemory,
    Meter,
    MoveMemory,
    StillClock,
    count_still,
    starved,
)
from ktui.progress.poll import Poll
from ktui.speed.answer import Span


class LeaderLog(msgspec.Struct, frozen=True, gc=False):
    """The leader's log, which the followers copy."""

    tp: TopicPartition
    end: Reading | None
    start: Reading | None
    size: Reading | None
    by_offsets: bool  # whether offsets measure what is left to copy; false for compacted topics
    sizes_differ: bool  # whether a replica in sync may be smaller on disk: on tiered topics
    ends: Meter | None
    sizes: Meter | None
    messages_s: float | None
    bytes_s: float | None
    message_bytes: float | None  # bytes on disk per message; None where unknown or misleading


class ReplicaFigures(msgspec.Struct, frozen=True, gc=False):
    """One replica compared with its leader. Lags are never negative; None where unknown."""

    messages: int | None = None
    size: int | None = None
    share: float | None = None
    approximate: bool = False
    at_s: float | None = None


def read_leader(state: PartitionState, memory: MoveMemory | None, poll: Poll) -> LeaderLog:
    """Read the leader's figures, and continue measuring its inbound rate."""
    observation = poll.observation
    leader = Replica(state.tp, state.leader) if state.leader is not None else None
    end = observation.ends.get(leader) if leader else None
    size = observation.sizes.get(leader) if leader else None
    start = observation.starts.get(state.tp)
    config = observation.topic_configs.get(state.tp.topic)
    by_offsets = config is None or config.offsets_measure_size
    each = message_bytes(end, start, size) if by_offsets else None
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


INTERVAL_S = 22.0  # two throttle windows: shorter intervals show its gulps
INTERVALS = 6  # intervals kept: some two minutes
_ENOUGH = 2
_WIDEST = 10.0  # the far end is at most this many times the estimate: a stop need not last

_UNSURE = 1.15  # to either side, at least: copies that share the rate come and go
_AT_FIRST = 2.0  # the factor until enough intervals have shown how much the net rate changes
SEEN_S = 2.0  # seconds until an end is seen: the replica joins the ISR, and a poll shows it


def time_left(lag: int | None, net: float | None, nets: tuple[float, ...]) -> Span | None:
    """Forecast the seconds until the lag is gone, p10 to p90; None if unknown or never."""
    if lag is None:
        return None
    if lag == 0:
        return Span(0.0, 0.0, 0.0)
    if net is None or net <= 0.0:
        return None
    slow, fast = _spread(net, nets)
    return Span(low=lag / fast, middle=lag / net, high=lag / slow + SEEN_S)


def _spread(net: float, nets: tuple[float, ...]) -> tuple[float, float]:
    if len(nets) < _ENOUGH:
        return net / _AT_FIRST, net * _AT_FIRST
    ordered = sorted(nets)
    slow, fast = _quantile(ordered, 0.1), _quantile(ordered, 0.9)
    return min(net / _UNSURE, max(slow, net / _WIDEST)), max(net * _UNSURE, fast)


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


_LEAST_NET = 0.2  # a lag that shrinks is taken to shrink by this part of the copy rate, at least


class CatchUp(msgspec.Struct, frozen=True, gc=False):
    """The state of one catching-up replica, as of one poll."""

    figures: ReplicaFigures
    messages_s: float | None
    bytes_s: float | None
    inbound_bytes_s: float | None
    left_s: Span | None
    memory: LaneMemory


class _Lag(msgspec.Struct, frozen=True, gc=False):
    value: int | None
    net: float | None
    in_bytes: bool
    passed_s: float  # observed seconds since its last reading; 0 without a new one


def follow_replica(
    broker: int, leader: LeaderLog, before: LaneMemory | None, poll: Poll, *, blocked: bool
) -> CatchUp:
    """Fold one poll of a replica; `blocked` if nothing can be copied: time counts all the same."""
    replica = Replica(leader.tp, broker)
    end = poll.observation.ends.get(replica)
    size = poll.observation.sizes.get(replica)
    figures = compare_with_leader(leader, end, size)
    memory = before or LaneMemory(None, None, StillClock(poll.now_s))
    jumps = end is not None and _is_short(memory.messages, leader)
    messages = rates.advance(None if jumps else memory.messages, end, poll)
    sizes = rates.advance(memory.size, size, poll)
    messages_s = rates.rate(messages, poll.now_s, poll.restart_s)
    sizes_s = rates.rate(sizes, poll.now_s, poll.restart_s)
    in_bytes = _in_bytes(leader, figures)
    was, now = (memory.messages, messages) if end is not None else (memory.size, sizes)
    lag = _Lag(
        value=figures.size if in_bytes else figures.messages,
        net=_net(leader, sizes_s if in_bytes else messages_s, in_bytes=in_bytes),
        in_bytes=in_bytes,
        passed_s=_observed_between(was, now, poll),
    )
    still = _still(memory.still, was, now, lag, poll, blocked=blocked)
    nets, from_lag, from_s = _nets(memory, lag, now, poll)
    starving_s = _starving(memory, replica, lag, poll)
    rising_s, rising_from = _rising(memory, lag)
    if starved(starving_s):  # the cause of the rise is known until there is room again
        rising_s, rising_from = 0.0, lag.value
    shared = _sharing_changed(leader.tp, broker, poll)
    if shared:
        messages, sizes = rates.discount_rate(messages), rates.discount_rate(sizes)
    if blocked:
        messages, sizes = rates.restart_rate(messages), rates.restart_rate(sizes)
    bound = _bound(broker, poll)
    since = None if blocked or shared else _span(memory.since, lag, figures.at_s, bound)
    remembered = LaneMemory(
        messages=messages,
        size=sizes,
        still=still,
        rising_s=rising_s,
        rising_from=rising_from,
        in_bytes=in_bytes,
        from_lag=from_lag,
        from_s=from_s,
        nets=nets,
        starving_s=starving_s,
        since=since,
    )
    if blocked:
        return CatchUp(figures, 0.0, 0.0, leader.bytes_s, None, remembered)
    per_message = leader.message_bytes
    bytes_s = (
        messages_s * per_message if messages_s is not None and per_message is not None else sizes_s
    )
    net = _steadied(lag, sizes_s if in_bytes else messages_s, figures.at_s, since)
    left_s = None if starved(starving_s) else time_left(lag.value, net, nets)
    return CatchUp(figures, messages_s, bytes_s, leader.bytes_s, left_s, remembered)


def _bound(broker: int, poll: Poll) -> int | None:
    config = poll.observation.broker_configs.get(broker)
    return None if config is None else config.follower_throttle_rate


def _span(
    before: CopySpan | None, lag: _Lag, at_s: float | None, bound: int | None
) -> CopySpan | None:
    if before is not None and before.bound == bound and before.in_bytes is lag.in_bytes:
        return before
    return (
        None
        if lag.value is None or at_s is None
        else CopySpan(at_s, lag.value, lag.in_bytes, bound)
    )


def _steadied(
    lag: _Lag, copied_s: float | None, at_s: float | None, since: CopySpan | None
) -> float | None:
    """Return the mean of the present net rate and of that since the beginning of the span.

    The present one alone is nothing to go by where a throttle lets copies through in gulps. Where
    producers write nearly as fast as the replica copies, the net rate is mostly noise.
    """
    if lag.net is None or lag.net <= 0.0 or lag.value is None or copied_s is None:
        return lag.net
    net = lag.net
    if since is not None and at_s is not None and at_s > since.at_s:
        net = (net + (since.lag - lag.value) / (at_s - since.at_s)) / 2.0
    return max(net, _LEAST_NET * copied_s)


def _is_short(before: Meter | None, leader: LeaderLog) -> bool:
    """Whether a replica was short of the log's start: it jumps there, and copies nothing for it."""
    return before is not None and leader.start is not None and before.value < leader.start.value


def _sharing_changed(tp: TopicPartition, broker: int, poll: Poll) -> bool:
    """Whether other copies came or went, so that the replica's rate so far means little.

    Never under a throttle: its copies come in gulps, and smoothing these takes the whole average.
    """
    state = poll.observation.partitions[tp]
    return poll.shares_anew(state, broker) and poll.throttles.binding(state, broker) is None


def _in_bytes(leader: LeaderLog, figures: ReplicaFigures) -> bool:
    if figures.messages is None:
        return figures.size is not None
    return not leader.by_offsets and bool(figures.size)


def _net(leader: LeaderLog, copied: float | None, *, in_bytes: bool) -> float | None:
    inbound = leader.bytes_s if in_bytes else leader.messages_s
    return None if copied is None or inbound is None else copied - inbound


def _observed_between(was: Meter | None, now: Meter | None, poll: Poll) -> float:
    """Return the seconds between two readings, without the time when the cluster was not polled."""
    if was is None or now is None or now is was:
        return 0.0
    return min(now.at_s - was.at_s, poll.passed_s)


def _still(
    clock: StillClock, was: Meter | None, now: Meter | None, lag: _Lag, poll: Poll, *, blocked: bool
) -> StillClock:
    if clock.blocked and not blocked:
        return StillClock(poll.now_s)
    if now is not was and now is not None:
        moved = was is not None and now.value != was.value
        if moved or was is None or lag.value == 0:
            return StillClock(now.at_s, moved=moved, blocked=blocked)
        if not blocked and lag.value is not None:
            return count_still(clock, lag.passed_s)
    if not blocked:
        return clock
    return count_still(msgspec.structs.replace(clock, blocked=True), poll.passed_s)


def _rising(memory: LaneMemory, lag: _Lag) -> tuple[float, int | None]:
    if lag.value is None:
        return memory.rising_s, memory.rising_from
    start = memory.rising_from
    rising = lag.net is not None and lag.net < 0.0
    if not rising or start is None or lag.value < start or lag.in_bytes != memory.in_bytes:
        return 0.0, lag.value
    return memory.rising_s + lag.passed_s, start


def _starving(memory: LaneMemory, replica: Replica, lag: _Lag, poll: Poll) -> float:
    """Return the seconds for which at least as much was written as its throttle lets through.

    Compares the throttle's rate with what is written, not with what is copied. After a lowered rate
    nothing is copied for some 11 s, and the smoothed rate of copying falls for longer.
    """
    state, already = poll.observation.partitions[replica.tp], starved(memory.starving_s)
    bound = poll.throttles.starving(state, replica.broker, already=already)
    if bound is None or lag.value == 0:
        return 0.0
    return memory.starving_s if lag.value is None else memory.starving_s + poll.passed_s


def _nets(
    memory: LaneMemory, lag: _Lag, now: Meter | None, poll: Poll
) -> tuple[tuple[float, ...], int | None, float]:
    if lag.value is None or now is None:
        return memory.nets, memory.from_lag, memory.from_s
    restarted = now.rate is None or lag.in_bytes != memory.in_bytes
    if restarted or memory.from_lag is None:
        return (), lag.value, now.at_s
    if memory.from_s <= poll.lost_s:
        return memory.nets, lag.value, now.at_s
    passed_s = now.at_s - memory.from_s
    if passed_s < INTERVAL_S:
        return memory.nets, memory.from_lag, memory.from_s
    net = (memory.from_lag - lag.value) / passed_s
    return (*memory.nets, net)[-INTERVALS:], lag.value, now.at_s
