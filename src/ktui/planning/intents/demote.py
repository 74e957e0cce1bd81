"""Brokers give up leading partitions; nothing is copied."""

from __future__ import annotations

from collections.abc import Collection

from ktui.planning.intents.arguments import check_brokers
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why
from ktui.planning.intents.wishes import Wishes
from ktui.planning.names import join_named


def demote(layout: Layout, brokers: Collection[int], wishes: Wishes) -> MadePlan:
    """Make a plan by which brokers come last in the lists of replicas, and so lead nothing.

    Where one of them was the preferred leader, that of the other replicas in sync comes first which
    leads the fewest partitions by its weight. The sets of replicas stay as they are.

    Args:
        layout: the cluster.
        brokers: the brokers to demote.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: a broker is unknown, or all are last already.
    """
    last = check_brokers(layout, brokers, leaving=True)
    draft = Draft(layout, wishes)
    found = False
    for tp in draft.in_scope():
        before = draft.lists[tp]
        kept = [broker for broker in before if broker not in last]
        after = (*kept, *(broker for broker in before if broker in last))
        if before == after and not (before and before[0] in last):
            continue
        found = True
        leads_now = before[0] in last
        able = [broker for broker in kept if draft.may_lead(tp, broker)]
        why = draft.fixed(tp)
        if not why and leads_now:
            why = draft.budget.lacks_leader_change() if able else Why.LAST_REPLICA
        if why:
            draft.leave(tp, before[0] if leads_now else None, why)
            continue
        if leads_now:
            leader = min(able, key=lambda broker: (_relative(draft, broker), after.index(broker)))
            after = (leader, *(broker for broker in after if broker != leader))
        draft.reorder(tp, after)
    if not found:
        names = join_named("broker", sorted(last))
        raise CannotMake(f"No partition has a replica on {names} that is not last already.")
    return draft.made()


def _relative(draft: Draft, broker: int) -> float:
    return draft.leads[broker] / (draft.layout.weight(broker) or 1e-9)
