"""What copies bring into each broker, and take from it: a fold that no step interrupts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica
from ktui.cluster.settings import list_includes

WINDOW_S = 22.0  # two windows of Kafka's throttle, which averages over 11 s
GULP_S = 15.0
"""A throttle lets copies through in gulps: a pause of up to this long belongs to the next one.

Kafka averages over 11 s, and a gulp takes a poll or two to be seen. With less, forecasts of
partitions follow single gulps (bench/forecast/ablation.py); with more, stops are seen later.
"""
LEAST_SPAN_S = 5.0  # with less than this observed, no rate is known
_SPACING_S = 1.0  # more frequent polls replace the last point


class FlowMeter(msgspec.Struct, frozen=True, gc=False):
    """All that was copied on one side of a broker, at the end of each poll."""

    points: tuple[tuple[float, float], ...]  # (second, bytes in all), oldest first
    copying: bool = True


def advance_meter(meter: FlowMeter, grown: float, at_s: float, *, copying: bool) -> FlowMeter:
    """Add the bytes copied up to a second, at or after that of the last point."""
    points = meter.points
    total = points[-1][1] + grown
    if len(points) > 1 and at_s - points[-2][0] < _SPACING_S:
        points = points[:-1]
    oldest_s = at_s - WINDOW_S - 2 * GULP_S
    needless = bisect_left(points, oldest_s, lo=1, key=_second) - 1
    return FlowMeter((*points[needless:], (at_s, total)), copying)


def flow_rate(meter: FlowMeter | None, now_s: float) -> float | None:
    """Return bytes a second from gulp to gulp; None with too few points or none for long."""
    if meter is None or now_s - meter.points[-1][0] > GULP_S:
        return None
    points = meter.points
    if points[-1][0] - points[0][0] < LEAST_SPAN_S:
        return None
    end = _end(meter)
    start = _start(points, end[0] - WINDOW_S)
    passed_s = end[0] - start[0]
    return (end[1] - start[1]) / passed_s if passed_s > 0.0 else 0.0


def is_over(meter: FlowMeter) -> bool:
    """Whether nothing is copied, nor was within the window."""
    oldest, newest = meter.points[0], meter.points[-1]
    started = next((p for p in meter.points if p[0] >= newest[0] - WINDOW_S), newest)
    whole = newest[0] - oldest[0] >= WINDOW_S
    return not meter.copying and whole and started[1] == newest[1]


def _second(point: tuple[float, float]) -> float:
    return point[0]


def _end(meter: FlowMeter) -> tuple[float, float]:
    points = meter.points
    newest = points[-1]
    if not meter.copying or newest[0] - points[0][0] < WINDOW_S:
        return newest
    gulp = next((p for p in points if p[1] == newest[1]), newest)
    return gulp if newest[0] - gulp[0] < GULP_S else newest


def _start(points: tuple[tuple[float, float], ...], latest_s: float) -> tuple[float, float]:
    before = bisect_right(points, latest_s, key=_second)
    if not before:
        return points[0]
    last = points[before - 1]
    gulps = (points[p] for p in range(before - 1, 0, -1) if points[p][1] > points[p - 1][1])
    gulp = next(gulps, None)
    return gulp if gulp is not None and last[0] - gulp[0] < GULP_S else last


SLOT_S = 5.0
SLOTS = 120  # the history of ten minutes, in slots of this many seconds
RESTART_S = 60.0  # after a longer time without polls, everything is measured from the start again
_OVER = 1.1  # a flow this many times its throttle is above it
OVER_S = 40.0  # longer than the window of a rate: a throttle just lowered is not broken
OVER_POLLS = 5
_NO_TOPIC = TopicConfig()


class BrokerFlow(msgspec.Struct, frozen=True, gc=False):
    """The copies into and out of one broker. Bytes a second; None where unknown."""

    in_s: float | None = None
    out_s: float | None = None
    throttle: int | None = None  # where it limits every copy onto the broker
    over_s: float = 0.0
    over_polls: int = 0

    @property
    def breaks_throttle(self) -> bool:
        return self.over_s >= OVER_S and self.over_polls >= OVER_POLLS


class FlowSlot(NamedTuple):
    """The flows as of the last poll in a slot of time."""

    number: int
    brokers: Mapping[int, BrokerFlow]


class Counted(msgspec.Struct, frozen=True, gc=False):
    """How far one copy has been counted."""

    at_s: float
    value: int
    start: int  # of the leader's log: a copy below has yet to jump there; 0 for disk
    by_offsets: bool
    each: float | None  # bytes that one of `value` stands for; None while unknown
    goal: int | None  # the leader's value: a copy that joins the ISR has reached at least that
    leader: int | None


class Flows(msgspec.Struct, frozen=True):
    """The flows of all brokers, by the polls so far."""

    brokers: Mapping[int, BrokerFlow] = msgspec.field(default_factory=dict)
    history: tuple[FlowSlot, ...] = ()  # oldest first, SLOTS at most: 20 kB a broker that copies
    at_s: float | None = None
    counted: Mapping[Replica, Counted] = msgspec.field(default_factory=dict)  # private
    inward: Mapping[int, FlowMeter] = msgspec.field(default_factory=dict)
    outward: Mapping[int, FlowMeter] = msgspec.field(default_factory=dict)

    @property
    def bytes_s(self) -> float | None:
        return flow_into_all(self.brokers) if self.brokers else None

    def of(self, broker: int) -> BrokerFlow:
        return self.brokers.get(broker, _NOTHING)


_NOTHING = BrokerFlow()


def flow_into_all(brokers: Mapping[int, BrokerFlow]) -> float | None:
    """Return what all brokers receive together: nothing where none copies, None if unknown."""
    known = [each.in_s for each in brokers.values() if each.in_s is not None]
    return sum(known) if known or not brokers else None


def throttle_of_all(brokers: Mapping[int, BrokerFlow]) -> float | None:
    """Return the sum of the throttles that limit every copy; None where none does."""
    return sum(each.throttle or 0 for each in brokers.values()) or None


class _Growth:
    def __init__(self) -> None:
        self.into: defaultdict[int, float] = defaultdict(float)
        self.out_of: defaultdict[int, float] = defaultdict(float)
        self.receiving: set[int] = set()
        self.sending: set[int] = set()
        self.read_into: set[int] = set()
        self.read_out_of: set[int] = set()
        self.unthrottled: set[int] = set()

    def add(self, broker: int, leader: int | None, copied: float) -> None:
        self.into[broker] += copied
        self.read_into.add(broker)
        if leader is not None:
            self.out_of[leader] += copied
            self.read_out_of.add(leader)


def fold_flows(before: Flows, last: Observation | None, now: Observation, now_s: float) -> Flows:
    """Fold one observation into the flows so far, which stay unchanged."""
    if before.at_s is not None and now_s <= before.at_s:
        return before
    if before.at_s is not None and now_s - before.at_s > RESTART_S:
        before, last = Flows(history=before.history), None
    growth = _Growth()
    counted = _count(before.counted, now, growth)
    _add_finished(before.counted, counted, last, now, growth)
    down = {broker for broker in growth.receiving if not now.alive(broker)}
    read_into, read_out_of = growth.read_into | down, growth.read_out_of
    inward = _advance(before.inward, growth.into, growth.receiving, read_into, now_s)
    outward = _advance(before.outward, growth.out_of, growth.sending, read_out_of, now_s)
    brokers = {
        broker: _flow(broker, before, inward, outward, _throttle(broker, growth, now), now_s)
        for broker in sorted(inward.keys() | outward.keys())
    }
    history = _until_stops(before, brokers, inward, outward)
    slot = int(now_s // SLOT_S)
    kept = history[:-1] if history and history[-1].number >= slot else history
    extended = (*kept, FlowSlot(slot, brokers))[-SLOTS:]
    return Flows(brokers, extended, now_s, counted, inward, outward)


def _until_stops(
    before: Flows,
    brokers: Mapping[int, BrokerFlow],
    inward: Mapping[int, FlowMeter],
    outward: Mapping[int, FlowMeter],
) -> tuple[FlowSlot, ...]:
    """Return the history without the flows that it has from after the last bytes came.

    A rate lasts until a pause is too long to be one between two gulps, and a window ends later
    than what it averages. Once nothing flows, it is known since when.
    """
    stops: dict[int, dict[str, float]] = {}
    for name, was, now in (("in_s", before.inward, inward), ("out_s", before.outward, outward)):
        for broker, flow in before.brokers.items():
            if getattr(flow, name) and not getattr(brokers.get(broker, _NOTHING), name):
                meter = now.get(broker) or was[broker]
                stops.setdefault(broker, {})[name] = _still_since(meter)
    if not stops:
        return before.history
    return tuple(_stopped(slot, stops) for slot in before.history)


def _stopped(slot: FlowSlot, stops: Mapping[int, Mapping[str, float]]) -> FlowSlot:
    changed = {
        broker: msgspec.structs.replace(slot.brokers[broker], **dict.fromkeys(names, 0.0))
        for broker, since_s in stops.items()
        if broker in slot.brokers
        and (names := [name for name, at_s in since_s.items() if at_s < slot.number * SLOT_S])
    }
    return slot._replace(brokers={**slot.brokers, **changed}) if changed else slot


def _still_since(meter: FlowMeter) -> float:
    return next(at_s for at_s, total in meter.points if total == meter.points[-1][1])


def copies_of(state: PartitionState) -> Iterator[int]:
    """Yield the brokers whose replica is catching up: being added, or out of the ISR."""
    for broker in state.replicas:
        if broker in state.isr or broker == state.leader or broker in state.removing:
            continue
        if broker in state.adding or state.described:
            yield broker


def _count(
    before: Mapping[Replica, Counted], now: Observation, growth: _Growth
) -> dict[Replica, Counted]:
    counted: dict[Replica, Counted] = {}
    for tp, state in now.partitions.items():
        config = now.topic_configs.get(tp.topic, _NO_TOPIC)
        for broker in copies_of(state):
            replica = Replica(tp, broker)
            growth.receiving.add(broker)
            if state.leader is not None:
                growth.sending.add(state.leader)
            if not list_includes(config.follower_throttled_replicas, tp.partition, broker):
                growth.unthrottled.add(broker)
            was = before.get(replica)
            is_ = _read(replica, state, config, was, now)
            if is_ is not None:
                counted[replica] = _advanced(was, is_, broker, growth)
            elif was is not None:
                counted[replica] = was
    return counted


def _advanced(was: Counted | None, is_: Counted, broker: int, growth: _Growth) -> Counted:
    if was is None or was.by_offsets is not is_.by_offsets or is_.value < was.value:
        return is_
    if is_.at_s <= was.at_s:
        return was
    if is_.each is None:  # counted once it is known how many bytes a message has
        return was
    growth.add(broker, is_.leader, _copied(was.value, is_.value, is_.start) * is_.each)
    return is_


def _copied(before: int, now: int, start: int) -> int:
    """Return what a copy has copied on the way, without the jump to the start of the log."""
    return max(0, now - max(before, start))


def _read(
    replica: Replica,
    state: PartitionState,
    config: TopicConfig,
    was: Counted | None,
    now: Observation,
) -> Counted | None:
    leader = None if state.leader is None else Replica(state.tp, state.leader)
    ends, sizes = now.ends, now.sizes
    end, size = ends.get(replica), sizes.get(replica)
    whole = None if leader is None else ends.get(leader)
    if end is not None and config.offsets_measure_size:
        each = message_bytes(
            whole, now.starts.get(state.tp), None if leader is None else sizes.get(leader)
        )
        if each is None and was is not None and was.by_offsets:
            each = was.each
        if each is not None or size is None or (was is not None and was.by_offsets):
            goal = None if whole is None else whole.value
            start = now.starts.get(state.tp)
            return _counted(end, each, goal, state, start=0 if start is None else start.value)
    if size is None:
        return None
    full = None if leader is None else sizes.get(leader)
    goal = None if full is None else full.value
    return _counted(size, 1.0, goal, state)


def _counted(
    reading: Reading,
    each: float | None,
    goal: int | None,
    state: PartitionState,
    start: int | None = None,
) -> Counted:
    """Return how far a copy is; `start` is that of its leader's log, None for bytes on disk."""
    by_offsets = start is not None
    return Counted(reading.at_s, reading.value, start or 0, by_offsets, each, goal, state.leader)


def message_bytes(end: Reading | None, start: Reading | None, size: Reading | None) -> float | None:
    """Return the bytes on disk per message of a leader's log; None where they tell nothing."""
    if end is None or start is None or size is None or end.value <= start.value or size.value <= 0:
        return None
    return size.value / (end.value - start.value)


def _add_finished(
    before: Mapping[Replica, Counted],
    counted: Mapping[Replica, Counted],
    last: Observation | None,
    now: Observation,
    growth: _Growth,
) -> None:
    """Count what copies that have joined the ISR must have copied since their last reading."""
    for replica, was in before.items():
        if replica in counted or was.each is None or was.goal is None or last is None:
            continue
        state, earlier = now.partitions.get(replica.tp), last.partitions.get(replica.tp)
        if state is None or earlier is None or state.topic_id != earlier.topic_id:
            continue
        if replica.broker in state.isr:
            copied = _copied(was.value, was.goal, was.start)
            growth.add(replica.broker, was.leader, copied * was.each)


def _advance(
    before: Mapping[int, FlowMeter],
    grown: Mapping[int, float],
    copying: set[int],
    read: set[int],
    now_s: float,
) -> dict[int, FlowMeter]:
    # what was copied before is not known
    meters = {broker: FlowMeter(((now_s, 0.0),)) for broker in copying - before.keys()}
    for broker, meter in before.items():
        if broker in copying and broker not in read:
            meters[broker] = meter
            continue
        busy = broker in copying
        later = advance_meter(meter, grown.get(broker, 0.0), now_s, copying=busy)
        if not is_over(later):
            meters[broker] = later
    return meters


def _flow(
    broker: int,
    before: Flows,
    inward: Mapping[int, FlowMeter],
    outward: Mapping[int, FlowMeter],
    throttle: int | None,
    now_s: float,
) -> BrokerFlow:
    was = before.brokers.get(broker, _NOTHING)
    in_s = flow_rate(inward.get(broker), now_s)
    over = throttle is not None and in_s is not None and in_s > throttle * _OVER
    goes_on = over and was.throttle == throttle
    passed_s = 0.0 if before.at_s is None else now_s - before.at_s
    return BrokerFlow(
        in_s=in_s,
        out_s=flow_rate(outward.get(broker), now_s),
        throttle=throttle,
        over_s=was.over_s + passed_s if goes_on else 0.0,
        over_polls=was.over_polls + 1 if goes_on else 0,
    )


def _throttle(broker: int, growth: _Growth, now: Observation) -> int | None:
    config = now.broker_configs.get(broker)
    if config is None or broker in growth.unthrottled or broker not in growth.receiving:
        return None
    return config.follower_throttle_rate


def merge_flows(past: Flows, own: Flows, *, goes_on: bool) -> Flows:
    """Start a view's flows with earlier ones; `goes_on` if its polls followed closely enough."""
    first = own.history[0].number if own.history else None
    older = tuple(each for each in past.history if first is None or each.number < first)
    if not older or not goes_on:
        return msgspec.structs.replace(own, history=(*older, *own.history)[-SLOTS:])
    last = past.history[-1].number
    newer = (each for each in own.history if each.number > last)
    return msgspec.structs.replace(past, history=(*past.history, *newer)[-SLOTS:])


Figure = Callable[[Mapping[int, BrokerFlow]], float | None]


def flow_slots(flows: Flows, now_s: float, figure: Figure, count: int) -> list[float | None]:
    """Return a figure of each of the last `count` slots, oldest first; None where unknown.

    A poll stands for the time since the one before: with polls further apart than a slot, as of a
    cluster that is simulated at ten times its speed, there are no gaps.
    """
    last = int(now_s // SLOT_S)
    values: list[float | None] = [None] * count
    before = None
    for slot in flows.history:
        if before is None or (slot.number - before) * SLOT_S > RESTART_S:
            before = slot.number - 1
        value = figure(slot.brokers)
        for number in range(max(before, last - count) + 1, min(slot.number, last) + 1):
            values[number - last + count - 1] = value
        before = slot.number
    return values


def seen_slots(flows: Flows, now_s: float) -> int:
    """Return how many slots reach back to the first flow that was seen; SLOTS at most."""
    first = next((slot.number for slot in flows.history if slot.brokers), None)
    return 0 if first is None else max(0, min(SLOTS, int(now_s // SLOT_S) - first + 1))
