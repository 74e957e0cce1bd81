"""Brokers lead their share of the partitions; nothing is copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import LeaderFlow
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why
from ktui.planning.intents.shares import Band, weighted_shares
from ktui.planning.intents.wishes import Wishes


def leaders(layout: Layout, wishes: Wishes) -> MadePlan:
    """Make a plan by which each broker is the preferred leader of its share of the partitions.

    Only the order of replicas changes, of as few partitions as possible. The share is by weight, up
    to the next whole number, of the partitions of the topics that the plan may change.

    Args:
        layout: the cluster.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: all lead their share already.
    """
    return even_leaders(layout, wishes, layout.pool.online, tolerance=0)


def even_leaders(
    layout: Layout, wishes: Wishes, brokers: Collection[int], *, tolerance: float
) -> MadePlan:
    """Make a plan by which some brokers lead as many partitions as each other, by weight.

    Raises:
        CannotMake: they do so already.
    """
    draft = Draft(layout, wishes)
    counted = [tp for tp in draft.in_scope() if draft.lists[tp]]
    leads = Counter(draft.lists[tp][0] for tp in counted)
    among = sorted({*brokers} & layout.pool.online)
    free = [tp for tp in counted if not draft.fixed(tp)]
    shares = weighted_shares(layout, among, leads, leads_possible(draft, among, leads, free))
    bands = {broker: Band.around(shares[broker], tolerance, whole=True) for broker in among}
    if all(band.off(leads[broker]) == 0 for broker, band in bands.items()):
        raise CannotMake("Every broker leads its share of the partitions already.")
    flow = LeaderFlow(draft, free, bands, leads)
    why = flow.even() or Why.NO_REPLICA
    for broker, by in flow.off().items():
        draft.leave(None, broker, why, by)
    return draft.made()


def leads_possible(
    draft: Draft,
    brokers: Collection[int],
    leads: Mapping[int, int],
    free: Iterable[TopicPartition],
) -> dict[int, int]:
    """Return how many partitions each broker could lead."""
    most = Counter({broker: leads.get(broker, 0) for broker in brokers})
    for tp in free:
        most.update(broker for broker in draft.lists[tp][1:] if draft.may_lead(tp, broker))
    return most
