"""The brokers of a twin: their racks, disks and settings, and what their machines can do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ktui.cluster.broker import LogDir
from ktui.planning.check.disks import disk_of
from ktui.simulated.layout import GIB, BrokerSpec, TopicSpec
from ktui.simulated.scenario.record import SnapshotRates
from ktui.speed.copies import SENDING

_USUAL_DISK = 1_000 * GIB
_ROOM = 2
"""A disk of unknown size holds this many times what is on it."""


class BrokerLoads(msgspec.Struct, frozen=True):
    """What the replicas of each broker hold, and the traffic of those in sync."""

    held: Mapping[int, int]
    """Bytes."""
    taken: Mapping[int, float]
    """Bytes a second that producers and leaders send to the broker."""
    sent: Mapping[int, float]
    """Bytes a second that the broker sends to followers."""


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
    """Return a broker whose machine carries today's traffic, and copies at the fastest rate.

    Args:
        broker: its id.
        rack: its rack, as in the twin.
        log_dirs: its log dirs; None for a broker that is down or does not report them.
        configs: its own settings.
        loads: what is on each broker.
        rates: what a broker takes in of copies; usually it does no more than the usual rate.
    """
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
