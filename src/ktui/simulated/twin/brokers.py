"""The brokers of a twin: racks, disks, settings, and how fast they take in new replicas."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ktui.cluster.broker import LogDir, all_cordoned
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
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.controller import schema
from ktui.simulated.layout import GIB, BrokerSpec, TopicSpec
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
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
        for number, replicas in enumerate(topic.replicas):
            isr = topic.start.isr.get(number) or (
                tuple(b for b in replicas if b not in down) if down else replicas
            )
            size = topic.size(number)
            rate = topic.inbounds[number] if topic.inbounds else topic.inbound
            leader = topic.start.leaders.get(number, isr[0])
            for broker in isr:
                held[broker] += size
                taken[broker] = taken.get(broker, 0.0) + rate
            sent[leader] = sent.get(leader, 0.0) + rate * (len(isr) - 1)
        for replica, size in topic.start.held.items():
            held[replica.broker] += size
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
