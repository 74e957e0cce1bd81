"""What a plan is made from: every partition with its size, and the brokers with their room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import msgspec

from ktui.cluster.errors import Failure
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.planning.check.findings import disk_of
from ktui.planning.check.snapshot import Placement, read_placement
from ktui.planning.plan import Plan, join_named

UNKNOWN_BYTES = 1024**3
"""The size of a partition that no broker reports: as under the limits of a run."""


class Layout(Placement, frozen=True, kw_only=True):
    """The replicas of a cluster, and the room for them; running reassignments count as over."""

    sizes: Mapping[TopicPartition, int] = {}  # bytes of one replica, where reported
    room: Mapping[int, int] = {}  # bytes that fit on a broker's disks; others have no bound
    disks: Mapping[int, int] = {}  # bytes of a broker's disks in all, where it reports them
    weights: Mapping[int, float] = {}  # the share that a broker is to have; 1 where absent

    def size(self, tp: TopicPartition) -> int:
        return self.sizes.get(tp, UNKNOWN_BYTES)

    def weight(self, broker: int) -> float:
        return self.weights.get(broker, 1.0)


def unread_warnings(failures: Sequence[Failure]) -> Iterator[str]:
    """Warn of brokers whose log dirs could not be read, with the reason of the first."""
    if failures:
        brokers = [each.broker for each in failures]
        yield (
            f"warning: the log dirs of {join_named('broker', brokers)} could not be read, so the "
            "room there is unknown, and so are sizes that no other broker reports: "
            f"{failures[0].answer}"
        )


def rack_warnings(layout: Layout) -> Iterator[str]:
    """Warn where racks are not kept because only some brokers have one."""
    unracked = without_rack(layout)
    if 0 < len(unracked) < len(layout.pool.online):
        yield (
            f"warning: no rack is known of {join_named('broker', unracked)}, so the plan does not "
            "keep partitions on their racks"
        )


def without_rack(layout: Layout) -> Sequence[int]:
    """Return the live brokers whose rack is not known."""
    racks = layout.pool.racks
    return [broker for broker in sorted(layout.pool.online) if racks.get(broker) is None]


async def read_layout(reader: ClusterReader) -> Layout:
    """Read a layout; brokers that do not report log dirs are failures, and not cordoned."""
    placement = await read_placement(reader)
    log_dirs = placement.log_dirs
    disks = {broker: disk_of(log_dirs[broker].log_dirs) for broker in sorted(log_dirs)}
    full = {
        broker: 0
        for broker, dirs in log_dirs.items()
        if dirs.log_dirs and all(d.error is not None or d.cordoned for d in dirs.log_dirs)
    }
    return Layout(
        **msgspec.structs.asdict(placement),
        sizes={
            tp: size
            for tp, state in sorted(placement.partitions.items(), key=itemgetter(0))
            if (size := placement.leading_size(state)) is not None
        },
        room=full | {b: disk.room for b, disk in disks.items() if disk.room is not None},
        disks={b: disk.total for b, disk in disks.items() if disk.total is not None},
    )


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has, or a rack."""

    bytes: int = 0  # a replica of unknown size counts with the size that the layout assumes
    replicas: int = 0
    leaders: int = 0


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
    bytes: int
    leaders: int
    sizes_unknown: int
    brokers: tuple[BrokerBeforeAfter, ...]
    racks: tuple[RackBeforeAfter, ...]  # all racks, by name; brokers without one are in none


def before_after(layout: Layout, plan: Plan) -> BeforeAfter:
    """Compare what brokers have before a plan and after it; running reassignments count as over."""
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
