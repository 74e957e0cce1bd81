"""Plans and clusters for preflights: values, each partition by its replicas, target and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances, ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.speed.answer import Bound, HowLong
from ktui.speed.capacity import Capacity

GB = 1_000_000_000
TOPIC = "orders"
Way = tuple[tuple[int, ...], tuple[int, ...]]
"""The replicas of a partition, of which the first leads, and its target replicas."""


def tp(number: int) -> TopicPartition:
    return TopicPartition(TOPIC, number)


def a_plan(*ways: Way) -> Plan:
    return Plan(
        tuple(PartitionTarget(TOPIC, number, target) for number, (_, target) in enumerate(ways))
    )


def a_snapshot(
    *ways: Way,
    sizes: Iterable[int | None] = (),
    rooms: Mapping[int, tuple[int, int]] | None = None,
    min_isr: int = 1,
    **more: Any,
) -> ClusterSnapshot:
    """Return a healthy cluster that holds the partitions of a plan.

    Args:
        ways: partitions 0, 1, ... of one topic.
        sizes: of each partition, in bytes; 1 GB where there is none, None for an unknown one.
        rooms: total and usable bytes of brokers' disks.
        min_isr: the topic's min.insync.replicas.
        more: further fields of the snapshot.
    """
    given = [*sizes, *[GB] * len(ways)]
    states = {
        tp(n): PartitionState(
            tp=tp(n), topic_id=None, replicas=replicas, isr=replicas, leader=replicas[0]
        )
        for n, (replicas, _) in enumerate(ways)
    }
    known = {
        Replica(tp(n), way[0][0]): size
        for n, (way, size) in enumerate(zip(ways, given, strict=False))
        if size is not None
    }
    brokers = {broker for way in ways for replicas in way for broker in replicas}
    fields: dict[str, Any] = {
        "partitions": states,
        "brokers": {broker: Broker(broker) for broker in sorted(brokers)},
        "configs": {TOPIC: TopicConfig(min_insync_replicas=min_isr)},
        "sizes": known,
        "log_dirs": {
            broker: (LogDir(broker, "/data", total_bytes=total, usable_bytes=usable),)
            for broker, (total, usable) in (rooms or {}).items()
        },
    }
    return ClusterSnapshot(**(fields | more))


def preflight(
    plan: Plan,
    snapshot: ClusterSnapshot,
    limits: Limits,
    known: Capacity | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
    *,
    throttle_leaders: bool = False,
    slow: bool = False,
) -> PlanPreview:
    """Preview a plan of which nothing but its figures is asked."""
    terms = Terms(
        limits=limits,
        throttle=throttle,
        throttle_leaders=throttle_leaders,
        allowed=Allowances(slow=slow),
    )
    return base(plan, snapshot, known).under(terms)


def base(plan: Plan, snapshot: ClusterSnapshot, known: Capacity | None = None) -> PreviewBase:
    """Return what previews share of which nothing but figures is asked."""
    ground = PreviewBase(plan, ClusterFacts(seen=snapshot), check=lambda _: ())
    if known is not None:
        ground.known = known
    return ground


def how_long(preview: PlanPreview) -> HowLong:
    assert preview.how_long is not None
    return preview.how_long


def least(preview: PlanPreview) -> Bound:
    bound = how_long(preview).pacesetter
    assert bound is not None
    return bound


def throttled(preview: PlanPreview) -> dict[int, int]:
    """Return the throttles of a preview, by broker."""
    rates = ((each.broker, each.throttle_bytes_s) for each in preview.brokers)
    return {broker: rate for broker, rate in rates if rate is not None}
