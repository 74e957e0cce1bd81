"""What a twin has: brokers, settings and rates; topics, and what producers write to them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.broker import LogDir, all_cordoned
from ktui.cluster.clock import Clock
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, ConfigSource, Setting
from ktui.cluster.settings import (
    CORDONED,
    EVERY,
    LOG_DIR_RATE,
    RATES,
    broker_resource,
    topic_resource,
)
from ktui.insights import Prior
from ktui.planning.check.findings import disk_of
from ktui.planning.check.snapshot import LogEnds, Placement, read_log_ends
from ktui.planning.intents.layout import UNKNOWN_BYTES
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.controller import schema
from ktui.simulated.layout import GIB, BrokerSpec, TopicSpec, TopicStart
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.scenario.topics import mean_rate
from ktui.speed.capacity import Capacity, share_of_throttle
from ktui.speed.copies import HALF_AT, SENDING

_LEAST = 0.001


def rates_of(prior: Prior | None) -> SnapshotRates:
    """Return the rates of a broker that adds many replicas at once, as forecasts have them."""
    capacity = Capacity(prior)
    span = capacity.under(NO_THROTTLE).spread(_ANY).times(capacity.alone(_ANY) * (1 + HALF_AT))
    seen = prior is not None and prior.curve.known_to is None
    shown = () if prior is None else sorted(prior.alone)
    of = {broker: _whole(capacity.alone(broker) * (1 + HALF_AT)) for broker in shown}
    return SnapshotRates(
        slow=_whole(span.low),
        usual=_whole(span.middle),
        fast=_whole(span.high),
        half_at=HALF_AT,
        throttled=round(min(1.0, max(_LEAST, share_of_throttle(prior))), 3),
        of=of,
        source=RatesFrom.RECORDED if seen else RatesFrom.ASSUMED,
    )


_ANY = -1  # a broker of which no run shows more than of the others


def _whole(bytes_s: float) -> float:
    return float(max(1, round(bytes_s)))


SESSION_TIMEOUT = "broker.session.timeout.ms"
OF_ONE_BROKER = (*RATES, LOG_DIR_RATE)  # may differ from broker to broker in a twin
OF_ALL_BROKERS = (
    schema.MIN_ISR,
    schema.UNCLEAN,
    "log.retention.bytes",
    "log.cleanup.policy",
    schema.REBALANCE,
    schema.REBALANCE_INTERVAL,
    schema.FETCH_BACKOFF,
    schema.LAG_TIME,
    SESSION_TIMEOUT,
)  # the settings that are the same on all brokers of a twin


class TwinSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings by Kafka's names, where they are not Kafka's defaults."""

    topics: Mapping[str, Mapping[str, str]]
    brokers: Mapping[int, Mapping[str, str]]
    all_brokers: Mapping[str, str]
    notes: tuple[str, ...]


async def read_settings(
    reader: ClusterReader,
    topics: Iterable[str],
    brokers: Iterable[int],
    log_dirs: Mapping[int, tuple[LogDir, ...]],
) -> TwinSettings:
    """Read the settings of topics, and of brokers that are up."""
    names, notes = (*OF_ONE_BROKER, *OF_ALL_BROKERS), []
    of_brokers = await reader.settings([broker_resource(b) for b in brokers], names)
    of_topics = await reader.settings([topic_resource(topic) for topic in topics])
    for kind, failures in (("brokers", of_brokers.failures), ("topics", of_topics.failures)):
        if failures:
            first = min(failures)
            notes.append(
                f"the settings of {len(failures):,} {kind} cannot be read, and Kafka's defaults "
                f"are assumed: {first.scope.value} {first.name}: {failures[first]}"
            )
    shared, differing = _of_all({int(r.name): found for r, found in of_brokers.settings.items()})
    if differing:
        notes.append(
            f"brokers differ in {', '.join(differing)}; the twin's brokers all have the most "
            "common value"
        )
    by_topic = {each.name: of_topics.settings[each] for each in sorted(of_topics.settings)}
    own = {topic: _of_topic(found) for topic, found in by_topic.items()}
    if any(values.get(schema.TIERED) == "true" for values in own.values()):
        shared = {**shared, schema.TIERING: "true"}
    return TwinSettings(
        topics=own,
        brokers={
            broker: _of_broker(of_brokers.settings.get(broker_resource(broker), {}), dirs)
            for broker, dirs in sorted(log_dirs.items())
        },
        all_brokers=shared,
        notes=tuple(notes),
    )


def _of_topic(found: Mapping[str, Setting]) -> dict[str, str]:
    return {
        key: setting.value
        for key, setting in sorted(found.items())
        if setting.own and key in schema.TOPIC and not schema.TOPIC[key].problem(key, setting.value)
    }


def _of_broker(found: Mapping[str, Setting], log_dirs: tuple[LogDir, ...]) -> dict[str, str]:
    own = {
        key: found[key].value
        for key in OF_ONE_BROKER
        if key in found and found[key].source is not ConfigSource.DEFAULT
    }
    return own | ({CORDONED: EVERY} if all_cordoned(log_dirs) else {})


def _of_all(brokers: Mapping[int, Mapping[str, Setting]]) -> tuple[Mapping[str, str], list[str]]:
    shared: dict[str, str] = {}
    differing: list[str] = []
    for key in OF_ALL_BROKERS:
        values = Counter(
            settings[key].value
            for _, settings in sorted(brokers.items())
            if key in settings and settings[key].source is not ConfigSource.DEFAULT
        )
        if not values:
            continue
        value, count = max(values.items(), key=lambda each: (each[1], each[0]))
        defaults = len(brokers) - values.total()
        if count >= defaults:
            shared[key] = value
        if count < len(brokers):
            differing.append(key)
    return shared, differing


_USUAL_DISK = 1_000 * GIB
_ROOM = 2  # a disk of unknown size holds this many times what is on it


class BrokerLoads(msgspec.Struct, frozen=True):
    """What the replicas of each broker hold, and the traffic of those in sync."""

    held: Mapping[int, int]  # bytes
    taken: Mapping[int, float]  # bytes a second that producers and leaders send to the broker
    sent: Mapping[int, float]  # bytes a second that the broker sends to followers


def loads_of(topics: Iterable[TopicSpec], down: frozenset[int]) -> BrokerLoads:
    """Add up what is on each broker of a twin."""
    held: Counter[int] = Counter()
    taken: dict[int, float] = {}
    sent: dict[int, float] = {}
    for topic in topics:
        held += topic.held(down)
        for number in range(len(topic.replicas)):
            isr = topic.in_sync(number, down)
            rate = topic.inbounds[number] if topic.inbounds else topic.inbound
            leader = topic.start.leaders.get(number, isr[0])
            for broker in isr:
                taken[broker] = taken.get(broker, 0.0) + rate
            sent[leader] = sent.get(leader, 0.0) + rate * (len(isr) - 1)
    return BrokerLoads(held, taken, sent)


def broker_spec(
    broker: int,
    *,
    rack: str | None,
    log_dirs: tuple[LogDir, ...] | None,
    configs: Mapping[str, str],
    loads: BrokerLoads,
    rates: SnapshotRates,
) -> BrokerSpec:
    """Return a broker whose machine carries today's traffic, and copies at the fastest rate."""
    held = loads.held.get(broker, 0)
    open_ones = [msgspec.structs.replace(each, cordoned=False) for each in log_dirs or ()]
    room = disk_of(open_ones).room
    most_in = float(round(loads.taken.get(broker, 0.0) + rates.fast))
    return BrokerSpec(
        id=broker,
        rack=rack,
        net_in=most_in,
        net_out=float(round(loads.sent.get(broker, 0.0) + rates.fast / SENDING)),
        disk_write=most_in,
        copy_in=rates.of.get(broker, rates.usual),
        copy_half_at=rates.half_at,
        copy_most_at=math.inf if rates.most_at is None else float(rates.most_at),
        throttle_share=rates.throttled,
        disk_bytes=max(_USUAL_DISK, _ROOM * held) if room is None else max(1, held + room),
        configs=configs,
    )


Sizes = Mapping[TopicPartition, int]


class Moment(msgspec.Struct, frozen=True):
    """The leaders' logs at one moment."""

    ends: Mapping[int, LogEnds]
    sizes: Sizes
    at_s: float  # the second of the sizes

    def offsets(self, state: PartitionState) -> LogEnds | None:
        return None if state.leader is None else self.ends.get(state.leader)

    def messages(self, state: PartitionState) -> int | None:
        read = self.offsets(state)
        end = None if read is None else read.offsets.ends.get(state.tp)
        start = None if read is None else read.offsets.starts.get(state.tp)
        return None if end is None or start is None else end - start


async def read_moment(
    reader: ClusterReader, states: Iterable[PartitionState], sizes: Sizes, clock: Clock
) -> Moment:
    """Read the log offsets of partitions from their leaders, all at once."""
    at_s = clock.monotonic()
    led: dict[int, list[TopicPartition]] = {}
    for state in states:
        if state.leader is not None:
            led.setdefault(state.leader, []).append(state.tp)
    ends, _ = await read_log_ends(reader, led, clock)  # where none answers, sizes tell
    return Moment(ends, sizes, at_s)


def message_size(states: Iterable[PartitionState], now: Moment) -> int | None:
    """Return the average bytes of a topic's messages on disk; None where nothing tells."""
    known = [(now.sizes.get(state.tp), now.messages(state)) for state in states]
    counted = [(size, messages) for size, messages in known if size and messages and messages > 0]
    total = sum(messages for _, messages in counted)
    return max(1, round(sum(size for size, _ in counted) / total)) if total else None


def inbound(
    states: Iterable[PartitionState], first: Moment, last: Moment, *, compacted: bool
) -> Iterator[float | None]:
    """Yield bytes a second written to each partition: by messages, else by growth, else None."""
    for state in states:
        messages = _messages_s(state, first, last)
        if messages == 0:
            yield 0.0
            continue
        each = None if compacted else _bytes_each(state, first)
        yield (
            _growth(state.tp, first, last) if messages is None or each is None else messages * each
        )


def _messages_s(state: PartitionState, first: Moment, last: Moment) -> float | None:
    before, after = first.offsets(state), last.offsets(state)
    if before is None or after is None or after.at_s <= before.at_s:
        return None
    was, now = before.offsets.ends.get(state.tp), after.offsets.ends.get(state.tp)
    if was is None or now is None or now < was:
        return None
    return (now - was) / (after.at_s - before.at_s)


def _bytes_each(state: PartitionState, first: Moment) -> float | None:
    size, messages = first.sizes.get(state.tp), first.messages(state)
    return size / messages if size and messages and messages > 0 else None


def _growth(tp: TopicPartition, first: Moment, last: Moment) -> float | None:
    before, after = first.sizes.get(tp), last.sizes.get(tp)
    if before is None or after is None or after < before or last.at_s <= first.at_s:
        return None
    return (after - before) / (last.at_s - first.at_s)


_DIGITS = 3


def topic_spec(
    name: str,
    states: Sequence[PartitionState],
    placement: Placement,
    *,
    message_size: int | None,
    inbound: Sequence[float | None],
    configs: Mapping[str, str],
) -> TopicSpec:
    """Return a topic as a simulated cluster can begin with it, under the name that it has there."""
    known = (placement.leading_size(state) for state in states)
    sizes = tuple(UNKNOWN_BYTES if size is None else size for size in known)
    inbounds = tuple(float(round(float(f"{rate or 0.0:.{_DIGITS}g}"))) for rate in inbound)
    alike, steady = len({*sizes}) == 1, len({*inbounds}) == 1
    spec = TopicSpec(
        name=name,
        replicas=tuple(state.original for state in states),
        bytes_each=sizes[0] if alike else 0,
        sizes=() if alike else sizes,
        message_bytes=message_size or 1_000,
        inbound=inbounds[0] if steady else mean_rate(inbounds),
        inbounds=() if steady else inbounds,
        configs=configs,
    )
    return msgspec.structs.replace(spec, start=_start(name, states, sizes, placement))


def moves_nothing(state: PartitionState) -> bool:
    """Return whether a reassignment that is under way adds and removes the same replicas."""
    return state.reassigning and {*state.target} == {*state.original}


def led_by_nobody(state: PartitionState, online: frozenset[int]) -> bool:
    """Return whether a partition has no leader, though no broker of its replicas is down."""
    return state.leader is None and online.issuperset(state.replicas)


def _start(
    name: str, states: Sequence[PartitionState], sizes: Sequence[int], placement: Placement
) -> TopicStart:
    leaders: dict[int, int] = {}
    isrs: dict[int, Brokers] = {}
    targets: dict[int, Brokers] = {}
    held: dict[Replica, int] = {}
    for number, (state, size) in enumerate(zip(states, sizes, strict=True)):
        if _healthy(state, placement.online):
            continue
        if state.reassigning and not moves_nothing(state):
            targets[number] = state.target
        members = (*state.original, *(b for b in state.target if b not in state.original))
        isr = _isr(state, members, placement.online)
        up = tuple(b for b in state.original if b in placement.online)
        if {*isr} != {*up}:
            isrs[number] = isr
        able = [b for b in (*state.original, *isr) if b in isr and b in placement.online]
        if state.leader in able and state.leader != able[0]:
            leaders[number] = state.leader
        for broker in members:
            if broker not in isr and (copied := _held(state, broker, size, placement)):
                held[Replica(TopicPartition(name, number), broker)] = copied
    return TopicStart(leaders=leaders, isr=isrs, reassigning=targets, held=held)


def _healthy(state: PartitionState, online: frozenset[int]) -> bool:
    return (
        not state.reassigning
        and state.isr == state.replicas
        and state.leader == state.replicas[0]
        and online.issuperset(state.replicas)
    )


def _isr(state: PartitionState, members: Brokers, online: frozenset[int]) -> Brokers:
    live = tuple(b for b in state.isr if b in members and b in online)
    if live:
        return live
    up = tuple(b for b in state.original if b in online)
    down = tuple(b for b in state.original if b not in online)
    last = tuple(b for b in (*state.isr, *(state.elr or ())) if b in down)
    return tuple(dict.fromkeys(last)) or down or up


def _held(state: PartitionState, broker: int, size: int, placement: Placement) -> int:
    """Return the bytes of a replica out of sync. On a broker that is down, it had everything."""
    if broker not in placement.online:
        return size if broker in state.original else 0
    return min(size, placement.size_on(state.tp, broker) or 0)
