"""Small clusters that plans are made for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import MadePlan
from ktui.planning.replication_factor import BrokerPool


def healthy(*lists: Brokers, topic: str = "a") -> dict[TopicPartition, PartitionState]:
    """Return the partitions of a topic, in sync, with these replicas."""
    tps = [TopicPartition(topic, number) for number in range(len(lists))]
    return {
        tp: PartitionState(tp, None, brokers, brokers, brokers[0])
        for tp, brokers in zip(tps, lists, strict=True)
    }


def layout(  # noqa: PLR0913 - a test names the few that it is about
    partitions: Mapping[TopicPartition, PartitionState],
    *,
    brokers: Collection[int] = range(1, 7),
    unregistered: Collection[int] = (),
    down: Collection[int] = (),
    cordoned: Collection[int] = (),
    refused: Collection[int] = (),
    racks: str = "",
    sizes: Mapping[str, int] | None = None,
    room: Mapping[int, int] | None = None,
    weights: Mapping[int, float] | None = None,
) -> Layout:
    """Return a cluster; `racks` has a letter for each broker, and sizes are 1 byte if not given."""
    return Layout(
        partitions={
            tp: _with_down(state, frozenset((*down, *unregistered)))
            for tp, state in partitions.items()
        },
        pool=BrokerPool(
            online=frozenset(brokers) - frozenset(down),
            cordoned=frozenset((*cordoned, *refused)),
            refuses_cordoned=bool(refused),
            racks=dict(zip(brokers, racks, strict=False)),
        ),
        known=frozenset((*brokers, *unregistered)),
        unregistered=frozenset(unregistered),
        sizes={tp: (sizes or {}).get(str(tp), 1) for tp in partitions},
        room=room or {},
        weights=weights or {},
    )


def _with_down(state: PartitionState, down: frozenset[int]) -> PartitionState:
    isr = tuple(broker for broker in state.isr if broker not in down)
    offline = tuple(broker for broker in state.replicas if broker in down)
    leader = isr[0] if isr else None
    return msgspec.structs.replace(state, isr=isr, leader=leader, offline=offline)


def targets(made: MadePlan) -> dict[str, Brokers]:
    """Return the replicas of each partition of a plan."""
    return {str(each.tp): each.replicas for each in made.plan.partitions}


def left(made: MadePlan) -> set[tuple[str, int | None, str]]:
    """Return what a plan leaves undone, and why."""
    return {(str(each.tp), each.broker, each.why.value) for each in made.left}
