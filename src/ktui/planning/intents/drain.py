"""Brokers give up all their replicas, to where there is room or to one broker."""

from __future__ import annotations

from collections.abc import Collection

from ktui.planning.intents.arguments import check_brokers, check_targets
from ktui.planning.intents.draft import Draft, ReplicaOn
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Wishes
from ktui.planning.intents.placing import evacuate
from ktui.planning.names import join_named


def drain(layout: Layout, brokers: Collection[int], wishes: Wishes) -> MadePlan:
    """Make a plan by which brokers give up all their replicas.

    The other replicas stay, in their order, and new ones follow at the end. Where a drained broker
    was the preferred leader, that of the other replicas in sync comes first which leads the fewest
    partitions. A partition keeps its number of racks unless no other broker is left for it.

    Args:
        layout: the cluster.
        brokers: the brokers to drain; also those that are down.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: a broker is unknown, there is nothing to drain, or no broker may get replicas.
    """
    gone = check_brokers(layout, brokers, leaving=True)
    draft = Draft(layout, wishes, closed=gone, replaces=True)
    evacuate(draft, replicas_on(draft, gone))
    return draft.made()


def swap(layout: Layout, old: int, new: int, wishes: Wishes) -> MadePlan:
    """Make a plan by which a broker takes over what another one holds, in its places of the lists.

    A replica goes elsewhere, as in a drain, where the new broker has one of the partition already,
    has no room, or is on a rack that the partition is on.

    Args:
        layout: the cluster.
        old: the broker that gives up all its replicas; it may be down.
        new: the broker that takes them.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: a broker is unknown, the new one can get no replicas, or the old one has none.
    """
    gone = check_brokers(layout, [old], leaving=True)
    check_targets(layout, [new])
    if old == new:
        raise CannotMake(f"Broker {old} cannot take over its own replicas: name two brokers.")
    draft = Draft(layout, wishes, closed=gone, replaces=True)
    evacuate(draft, replicas_on(draft, gone), successor=new)
    return draft.made()


def replicas_on(draft: Draft, brokers: frozenset[int]) -> list[ReplicaOn]:
    """Return the replicas of brokers in the topics that the plan may change.

    Of the same partitions it returns those on unregistered brokers, too: Kafka would refuse a
    target that keeps them.

    Raises:
        CannotMake: there are none, or no broker may get one.
    """
    found = [
        (tp, broker) for tp in draft.in_scope() for broker in draft.lists[tp] if broker in brokers
    ]
    names = join_named("broker", sorted(brokers))
    if not found:
        raise CannotMake(f"No partition has a replica on {names}: there is nothing to move.")
    if not draft.targets:
        raise CannotMake(
            f"No broker but {names} may get replicas: all others are down or cordoned."
        )
    of_no_broker = draft.layout.unregistered - brokers
    with_it = dict.fromkeys(tp for tp, _ in found) if of_no_broker else ()
    return [*found, *((tp, b) for tp in with_it for b in draft.lists[tp] if b in of_no_broker)]
