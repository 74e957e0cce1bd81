"""What every broker and every rack has before a plan, and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.intents.layout import Layout
from ktui.planning.plan import Plan


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has, or a rack."""

    bytes: int = 0
    """A replica of unknown size counts with the size that the layout assumes."""
    replicas: int = 0
    leaders: int = 0
    """The partitions that have their preferred leader here."""


class BrokerBeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has before a plan, and after it."""

    broker: int
    rack: str | None
    before: Holding
    after: Holding


class RackBeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """What all brokers of a rack have, before a plan and after it."""

    rack: str
    before: Holding
    after: Holding


class BeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan makes of a cluster, over all of its partitions."""

    replicas: int
    """The replicas that are copied to a broker."""
    bytes: int
    """The bytes of these."""
    leaders: int
    """The partitions whose preferred leader becomes another."""
    sizes_unknown: int
    """The partitions of the cluster whose size no broker reports."""
    brokers: tuple[BrokerBeforeAfter, ...]
    """All brokers, by id."""
    racks: tuple[RackBeforeAfter, ...]
    """All racks, by name; brokers without one are in none."""


def before_after(layout: Layout, plan: Plan) -> BeforeAfter:
    """Compare what brokers have before a plan and after it.

    A partition that is being reassigned counts with the replicas that it is to have.
    """
    now = {tp: state.target for tp, state in layout.partitions.items()}
    targets = {each.tp: each.replicas for each in plan.partitions}
    before, after = _holdings(layout, now), _holdings(layout, {**now, **targets})
    brokers = tuple(
        BrokerBeforeAfter(
            broker=broker,
            rack=layout.pool.racks.get(broker),
            before=before.get(broker, _NOTHING),
            after=after.get(broker, _NOTHING),
        )
        for broker in sorted(layout.known | before.keys() | after.keys())
    )
    copied = {tp: len({*replicas} - {*now.get(tp, ())}) for tp, replicas in targets.items()}
    return BeforeAfter(
        replicas=sum(copied.values()),
        bytes=sum(count * layout.size(tp) for tp, count in copied.items()),
        leaders=sum(now.get(tp, ())[:1] != replicas[:1] for tp, replicas in targets.items()),
        sizes_unknown=len(now.keys() - layout.sizes.keys()),
        brokers=brokers,
        racks=_racks(brokers),
    )


_NOTHING = Holding()


def _holdings(layout: Layout, replicas: Mapping[TopicPartition, Brokers]) -> Mapping[int, Holding]:
    size, count, leaders = Counter[int](), Counter[int](), Counter[int]()
    for tp, brokers in replicas.items():
        each = layout.size(tp)
        for broker in brokers:
            size[broker] += each
            count[broker] += 1
        leaders.update(brokers[:1])
    return {
        broker: Holding(bytes=size[broker], replicas=count[broker], leaders=leaders[broker])
        for broker in count
    }


def _racks(brokers: Iterable[BrokerBeforeAfter]) -> tuple[RackBeforeAfter, ...]:
    by_rack: dict[str, list[BrokerBeforeAfter]] = {}
    for broker in brokers:
        if broker.rack is not None:
            by_rack.setdefault(broker.rack, []).append(broker)
    return tuple(
        RackBeforeAfter(
            rack=rack,
            before=_sum(each.before for each in by_rack[rack]),
            after=_sum(each.after for each in by_rack[rack]),
        )
        for rack in sorted(by_rack)
    )


def _sum(holdings: Iterable[Holding]) -> Holding:
    each = list(holdings)
    return Holding(
        bytes=sum(one.bytes for one in each),
        replicas=sum(one.replicas for one in each),
        leaders=sum(one.leaders for one in each),
    )
