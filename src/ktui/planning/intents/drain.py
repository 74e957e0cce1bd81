"""Brokers give up all their replicas, or some bytes; topics get another replication factor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.intents.draft import Draft, ReplicaOn
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import (
    CannotMake,
    MadePlan,
    Why,
    Wishes,
    check_brokers,
    check_factor,
    check_targets,
    check_topics,
)
from ktui.planning.intents.placing import Placer, evacuate, obstacle
from ktui.planning.intents.shares import least_sum
from ktui.planning.plan import join_named
from ktui.planning.replication_factor import (
    FactorProblem,
    change_replication_factor,
    present_replicas,
)


def drain(layout: Layout, brokers: Collection[int], wishes: Wishes) -> MadePlan:
    """Make a plan by which brokers, alive or down, give up all their replicas.

    The other replicas keep their order, and new ones follow. Where a drained broker was the
    preferred leader, the replica in sync whose broker leads the fewest partitions comes first. A
    partition keeps its number of racks unless no other broker is left. Raises CannotMake.
    """
    gone = check_brokers(layout, brokers, leaving=True)
    draft = Draft(layout, wishes, closed=gone, replaces=True)
    evacuate(draft, replicas_on(draft, gone))
    return draft.made()


def swap(layout: Layout, old: int, new: int, wishes: Wishes) -> MadePlan:
    """Let a broker take over another's replicas, in its places where it can, or CannotMake."""
    gone = check_brokers(layout, [old], leaving=True)
    check_targets(layout, [new])
    if old == new:
        raise CannotMake(f"Broker {old} cannot take over its own replicas: name two brokers.")
    draft = Draft(layout, wishes, closed=gone, replaces=True)
    evacuate(draft, replicas_on(draft, gone), successor=new)
    return draft.made()


def replicas_on(draft: Draft, brokers: frozenset[int]) -> list[ReplicaOn]:
    """Return the replicas of brokers in the topics that the plan may change, or raise CannotMake.

    Of the same partitions it returns those on unregistered brokers, too: Kafka would refuse a
    target that keeps them.
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


def shed(layout: Layout, broker: int, free_bytes: int, wishes: Wishes) -> MadePlan:
    """Make a plan by which a broker gives up so many bytes, or a few more, but no racks."""
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
    """Return the bytes in use on a broker's disks above a share of them, 0 to 1, or CannotMake."""
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
        for tp in sorted(chosen, key=lambda tp: (-size(tp), tp)):
            if draft.lacks(tp, broker):
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
    sizes = [draft.layout.size(tp) for tp in free]
    budget, most = draft.budget, draft.wishes.max_moves
    chosen = [free[place] for place in least_sum(sizes, wanted, budget.bytes_left)]
    if most is not None and len(chosen) > most - budget.moves:
        chosen = _largest(draft, free, most - budget.moves)
    return chosen


def _largest(draft: Draft, free: list[TopicPartition], count: int) -> list[TopicPartition]:
    left, found = draft.budget.bytes_left, list[TopicPartition]()
    size = draft.layout.size
    for tp in sorted(free, key=lambda tp: (-size(tp), tp)):
        if len(found) == count:
            break
        if left is None or size(tp) <= left:
            found.append(tp)
            left = None if left is None else left - size(tp)
    return found


_Targets = Mapping[TopicPartition, Brokers]


def replication_factor(
    layout: Layout, topics: Collection[str], factor: int, wishes: Wishes
) -> MadePlan:
    """Change the replication factor of topics. Raises CannotMake where there is no room for it."""
    check_factor(factor)
    check_topics(layout, sorted(topics))
    draft = Draft(layout, wishes)
    chosen = {*topics}
    present = [tp for tp in draft.in_scope() if tp.topic in chosen]
    wrong = [tp for tp in present if len(draft.lists[tp]) != factor]
    if not wrong:
        raise CannotMake(f"Every partition has {factor:,} replicas already.")
    targets = _targets(draft, [tp for tp in present if not draft.fixed(tp)], factor)
    growing: list[TopicPartition] = []
    for tp in wrong:
        grows = len(draft.lists[tp]) < factor
        if why := draft.fixed(tp) or (draft.immovable(tp) if grows else None):
            draft.leave(tp, None, why)
        elif grows:
            growing.append(tp)
        else:
            _shrink(draft, tp, targets[tp])
    _grow(draft, growing, targets, factor)
    return draft.made()


def _targets(draft: Draft, partitions: Collection[TopicPartition], factor: int) -> _Targets:
    layout = draft.layout
    pool = msgspec.structs.replace(layout.pool, online=frozenset(draft.targets))
    if not draft.wishes.rack_aware:
        pool = msgspec.structs.replace(pool, racks={})
    present = {tp: present_replicas(layout.partitions[tp]) for tp in partitions}
    try:
        return change_replication_factor(present, factor, pool)
    except FactorProblem as problem:
        raise CannotMake(f"{problem}.") from None


def _shrink(draft: Draft, tp: TopicPartition, target: Brokers) -> None:
    surplus = [broker for broker in draft.lists[tp] if broker not in target]
    if draft.original(tp)[0] in surplus and (why := draft.budget.lacks_leader_change()):
        draft.leave(tp, None, why)
        return
    for broker in surplus:
        draft.drop(tp, broker)


def _grow(
    draft: Draft, growing: Collection[TopicPartition], targets: _Targets, factor: int
) -> None:
    """Add replicas, to small partitions first: so budgets reach furthest."""
    size = draft.layout.size
    placer, stuck = Placer(draft), list[TopicPartition]()
    for tp in sorted(growing, key=lambda tp: (size(tp), tp)):
        for broker in targets[tp]:
            if broker in draft.lists[tp]:
                continue
            if why := draft.budget.lacks(size(tp)):
                draft.leave(tp, None, why)
                break
            if draft.why_not(tp, None, broker) is None:
                draft.add(tp, broker)
            elif not placer.place(tp, None):
                stuck.append(tp)
                break
    for tp in stuck:
        _fill_up(draft, placer, tp, factor)


def _fill_up(draft: Draft, placer: Placer, tp: TopicPartition, factor: int) -> None:
    while len(draft.lists[tp]) < factor:
        why: Why | None = draft.budget.lacks(draft.layout.size(tp))
        if not why and not placer.place(tp, None, 0):
            why = obstacle(draft, tp, None, 0)
        if why:
            draft.leave(tp, None, why)
            return
