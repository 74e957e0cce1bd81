"""A broker takes over what another one holds."""

from __future__ import annotations

from ktui.planning.intents.arguments import check_brokers, check_targets
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.drain import replicas_on
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan
from ktui.planning.intents.placing import evacuate
from ktui.planning.intents.wishes import Wishes


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
