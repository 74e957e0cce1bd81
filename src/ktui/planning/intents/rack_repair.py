"""Topics get another replication factor."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import (
    CannotMake,
    MadePlan,
    Why,
    Wishes,
    check_factor,
    check_topics,
)
from ktui.planning.intents.placing import Placer, obstacle
from ktui.planning.replication_factor import (
    FactorProblem,
    change_replication_factor,
    present_replicas,
)

_Targets = Mapping[TopicPartition, Brokers]


def replication_factor(
    layout: Layout, topics: Collection[str], factor: int, wishes: Wishes
) -> MadePlan:
    """Give topics so many replicas by `change_replication_factor`, where room is; or CannotMake."""
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
    for tp in sorted(growing, key=lambda tp: (size(tp), tp.topic, tp.partition)):
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
