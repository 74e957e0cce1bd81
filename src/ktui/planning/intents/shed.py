"""A broker gives up so many bytes."""

from __future__ import annotations

from math import ceil

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.arguments import check_brokers
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes
from ktui.planning.intents.placing import Placer, obstacle
from ktui.planning.intents.shares import least_sum


def shed(layout: Layout, broker: int, free_bytes: int, wishes: Wishes) -> MadePlan:
    """Make a plan by which a broker gives up at least so many bytes, and as few more as can be.

    Replicas go where they go in a drain, but racks are never given up.

    Args:
        layout: the cluster.
        broker: the broker.
        free_bytes: the bytes to free, more than 0.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: the broker is unknown, holds nothing that may be moved, or no bytes are asked.
    """
    check_brokers(layout, [broker])
    if free_bytes <= 0:
        raise CannotMake(f"{free_bytes:,} bytes are to be freed: nothing to do.")
    draft = Draft(layout, wishes, closed=[broker])
    held = [tp for tp in draft.in_scope() if broker in draft.lists[tp]]
    movable = [tp for tp in held if not draft.immovable(tp) and layout.size(tp) > 0]
    if not movable:
        raise CannotMake(f"Broker {broker} holds no replica that may be moved.")
    freed, why = _shed(draft, broker, free_bytes, movable)
    if freed < free_bytes:
        draft.leave(None, broker, why, free_bytes - freed)
    return draft.made()


def bytes_above(layout: Layout, broker: int, share: float) -> int:
    """Return the bytes in use on a broker's disks above a share of them.

    Args:
        layout: the cluster.
        broker: the broker.
        share: the part of its disks that may be in use, 0 to 1.

    Raises:
        CannotMake: the broker is unknown or does not report its disks, or less is in use.
    """
    check_brokers(layout, [broker])
    total, room = layout.disks.get(broker), layout.room.get(broker)
    if not total or room is None:
        raise CannotMake(
            f"Broker {broker} does not report how large its disks are: give the bytes to free."
        )
    used = total - room
    above = ceil(used - share * total)
    if above <= 0:
        raise CannotMake(
            f"{used / total:.0%} of the disks of broker {broker} is in use, not more than "
            f"{share:.0%}: there is nothing to move."
        )
    return above


def _shed(draft: Draft, broker: int, wanted: int, movable: list[TopicPartition]) -> tuple[int, Why]:
    """Move replicas, and return the bytes freed and what keeps more from being so."""
    size, budget = draft.layout.size, draft.budget
    placer, why, freed = Placer(draft), Why.NO_REPLICA, 0
    free = [tp for tp in movable if _placeable(draft, tp, broker)]
    if len(free) < len(movable):
        why = next(
            obstacle(draft, tp, broker) for tp in movable if not _placeable(draft, tp, broker)
        )
    while free and freed < wanted:
        if lacks := budget.lacks_leader_change():
            followers = [tp for tp in free if not draft.cost(tp, broker)[1]]
            free, why = followers, lacks if len(followers) < len(free) else why
        if lacks := budget.lacks(0):
            return freed, lacks
        chosen = _choose(draft, free, wanted - freed)
        if not chosen:
            return freed, Why.MAX_BYTES if budget.bytes_left is not None else why
        gone = set[TopicPartition]()
        for tp in sorted(chosen, key=lambda tp: (-size(tp), tp.topic, tp.partition)):
            if draft.budget.lacks(size(tp), leader=draft.cost(tp, broker)[1]):
                continue
            gone.add(tp)
            if placer.place(tp, broker):
                freed += size(tp)
            else:
                why = obstacle(draft, tp, broker)
        free = [tp for tp in free if tp not in gone]
    if freed < wanted and (lacks := budget.lacks(min(map(size, free), default=0))):
        why = lacks
    return freed, why


def _placeable(draft: Draft, tp: TopicPartition, broker: int) -> bool:
    return any(draft.why_not(tp, broker, new) is None for new in draft.targets)


def _choose(draft: Draft, free: list[TopicPartition], wanted: int) -> list[TopicPartition]:
    """Return the replicas with the fewest bytes that are enough, within budgets."""
    sizes = [draft.layout.size(tp) for tp in free]
    budget = draft.budget
    chosen = [free[place] for place in least_sum(sizes, wanted, budget.bytes_left)]
    if budget.max_moves is not None and len(chosen) > budget.max_moves - budget.moves:
        chosen = _largest(draft, free, budget.max_moves - budget.moves)
    return chosen


def _largest(draft: Draft, free: list[TopicPartition], count: int) -> list[TopicPartition]:
    """Return so many of the largest replicas that fit the budget of bytes."""
    left, found = draft.budget.bytes_left, list[TopicPartition]()
    size = draft.layout.size
    for tp in sorted(free, key=lambda tp: (-size(tp), tp.topic, tp.partition)):
        if len(found) == count:
            break
        if left is None or size(tp) <= left:
            found.append(tp)
            left = None if left is None else left - size(tp)
    return found
