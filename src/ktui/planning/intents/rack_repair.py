"""Partitions on too few racks get as many as they can have."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why
from ktui.planning.intents.placing import Placer, obstacle
from ktui.planning.intents.wishes import Wishes


def rack_repair(layout: Layout, wishes: Wishes) -> MadePlan:
    """Make a plan by which partitions get as many racks as there are replicas and racks for.

    Only replicas that share a rack move, and of those rather one that is down, out of sync or not
    the preferred leader. Nothing else moves.

    Args:
        layout: the cluster.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: no racks are known, or every partition is on as many as it can be.
    """
    draft = Draft(layout, wishes)
    if len(draft.racks(draft.targets)) < 2:  # noqa: PLR2004 - with one rack there is no choice
        raise CannotMake(
            "Fewer than two racks have brokers that may get replicas: set broker.rack on brokers."
        )
    size = layout.size
    wanted = [tp for tp in draft.in_scope() if racks_lacking(draft, tp)]
    if not wanted:
        raise CannotMake("Every partition is on as many racks as it can be: nothing to repair.")
    placer = Placer(draft)
    for tp in sorted(wanted, key=lambda tp: (size(tp), tp.topic, tp.partition)):
        if why := draft.immovable(tp) or repair(draft, placer, tp):
            draft.leave(tp, None, why)
    return draft.made()


def racks_lacking(draft: Draft, tp: TopicPartition) -> int:
    """Return how many more racks a partition could be on."""
    brokers = draft.lists[tp]
    racks = draft.racks(brokers)
    reachable = racks | draft.racks(draft.targets)
    return min(len(brokers), len(reachable)) - len(racks)


def repair(draft: Draft, placer: Placer, tp: TopicPartition) -> Why | None:
    """Move replicas of a partition to racks that it lacks, and return why it lacks some still."""
    while racks_lacking(draft, tp):
        surplus = _surplus(draft, tp)
        old = next((each for each in surplus if not _lacks(draft, tp, each)), None)
        if old is None:
            return _lacks(draft, tp, surplus[0])
        more = len(draft.racks(draft.lists[tp])) + 1
        if not placer.place(tp, old, more):
            return obstacle(draft, tp, old, more)
        draft.raise_floor(tp)
    return None


def _lacks(draft: Draft, tp: TopicPartition, old: int) -> Why | None:
    size, leader = draft.cost(tp, old)
    return draft.budget.lacks(size, leader=leader)


def _surplus(draft: Draft, tp: TopicPartition) -> list[int]:
    """Return the replicas without which a partition is on as many racks, the best to move first."""
    brokers = draft.lists[tp]
    racks = len(draft.racks(brokers))
    layout = draft.layout
    found = [
        broker for broker in brokers if len(draft.racks(b for b in brokers if b != broker)) == racks
    ]
    return sorted(
        found,
        key=lambda each: (
            draft.may_lead(tp, each),
            each == brokers[0],
            -draft.bytes[each] / (layout.weight(each) or 1),
            each,
        ),
    )
