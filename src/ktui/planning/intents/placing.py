"""Where a replica goes: the best broker for it, and racks that a partition lacks."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft, ReplicaOn
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes

_MOST_CHECKS = 1_000_000
"""The places that a plan looks at, at most, to place again what moves anyway."""


def best_broker(
    draft: Draft, tp: TopicPartition, old: int | None, least_racks: int | None = None
) -> int | None:
    """Choose a broker on a lacking rack, then with few replicas of the topic, then few bytes."""
    layout, others = draft.layout, [broker for broker in draft.lists[tp] if broker != old]
    of_rack, of_topic, held = layout.pool.racks, draft.of_topic[tp.topic], draft.bytes
    least = draft.least_racks(tp) if least_racks is None else least_racks
    rack_aware = draft.wishes.rack_aware or least > 0
    racks = draft.racks(others)
    must = least > len(racks)
    found: tuple[bool, int, float, int] | None = None
    for broker in draft.targets:
        if broker == old or broker in others:
            continue
        rack = of_rack.get(broker)
        known = rack_aware and (rack is None or rack in racks)
        if (must and known) or (
            found is not None and (known, of_topic[broker]) > (found[0], found[1])
        ):
            continue
        if draft.has_room(tp, broker):
            key = (known, of_topic[broker], held[broker] / layout.weight(broker), broker)
            found = key if found is None else min(found, key)
    return None if found is None else found[-1]


class _Step(msgspec.Struct, frozen=True):
    tp: TopicPartition
    old: int
    before: _Step | None

    def passes(self, tp: TopicPartition) -> bool:
        return self.tp == tp or (self.before is not None and self.before.passes(tp))


class Placer:
    """Places replicas of a draft, which it changes."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._checks = 0

    def place(self, tp: TopicPartition, old: int | None, least_racks: int | None = None) -> bool:
        """Move a replica off a broker, or add one, and return whether that could be done."""
        new = best_broker(self._draft, tp, old, least_racks)
        if new is None:
            new = self._make_way(tp, old, least_racks)
        if new is None:
            return False
        if old is None:
            self._draft.add(tp, new)
        else:
            self._draft.move(tp, old, new)
        return True

    def _make_way(self, tp: TopicPartition, old: int | None, least_racks: int | None) -> int | None:
        draft = self._draft
        if self._checks > _MOST_CHECKS:
            return None
        steps: dict[int, _Step | None] = {}
        arriving: dict[int, int] = {}
        for broker in draft.targets:
            if draft.why_not(tp, old, broker, least_racks) is Why.ROOM:
                steps[broker] = None
                arriving[broker] = draft.layout.size(tp)
        queue = sorted(steps)
        for broker in queue:
            lacking = arriving[broker] - draft.room[broker]
            for step, new, fits in self._ways(broker, lacking, steps, tp):
                if fits:
                    return self._walk(step, new)
                steps[new] = step
                arriving[new] = draft.layout.size(step.tp)
                queue.append(new)
        return None

    def _ways(
        self, broker: int, lacking: int, steps: dict[int, _Step | None], tp: TopicPartition
    ) -> Iterable[tuple[_Step, int, bool]]:
        """Yield the steps by which a broker gains room, and whether the replica fits there."""
        draft, before = self._draft, steps[broker]
        fresh = draft.fresh.get(broker, {})
        size = draft.layout.size
        self._checks += len(fresh)
        for other in sorted(fresh, key=lambda each: (size(each), each)):
            if size(other) < lacking or other == tp or (before and before.passes(other)):
                continue
            for new in draft.targets:
                if new in steps:
                    continue
                self._checks += 1
                if self._checks > _MOST_CHECKS:
                    return
                why = draft.why_not(other, broker, new)
                if why is None or why is Why.ROOM:
                    yield _Step(other, broker, before), new, why is None

    def _walk(self, step: _Step | None, new: int) -> int:
        """Move the replicas, the last one first, and return the broker that then has room."""
        while step is not None:
            self._draft.move(step.tp, step.old, new)
            new, step = step.old, step.before
        return new


def evacuate(draft: Draft, wanted: Iterable[ReplicaOn], successor: int | None = None) -> None:
    """Move replicas off their brokers, small ones first, as many as budgets allow."""
    waiting: list[ReplicaOn] = []
    for tp, old in wanted:
        if why := draft.immovable(tp):
            draft.leave(tp, old, why)
        else:
            waiting.append((tp, old))
    size = draft.layout.size
    waiting.sort(key=lambda each: (size(each[0]), each))
    placer = Placer(draft)
    while waiting:
        batch, waiting = _affordable(draft, waiting)
        if not batch:
            return
        stuck = _place_all(draft, placer, batch, successor)
        for tp, old in stuck:
            draft.leave(tp, old, obstacle(draft, tp, old, 0))
        if not stuck:
            return


def _affordable(draft: Draft, waiting: list[ReplicaOn]) -> tuple[list[ReplicaOn], list[ReplicaOn]]:
    """Divide replicas into those that budgets allow, and the others, which are noted as left."""
    trial, batch, rest = draft.budget.trial(), list[ReplicaOn](), list[ReplicaOn]()
    for tp, old in waiting:
        size, leader = draft.cost(tp, old)
        if why := trial.lacks(size, leader=leader):
            draft.leave(tp, old, why)
            rest.append((tp, old))
        else:
            draft.forget(tp, old)
            trial.take(size, leader=leader)
            batch.append((tp, old))
    return batch, rest


def _place_all(
    draft: Draft, placer: Placer, batch: list[ReplicaOn], successor: int | None
) -> list[ReplicaOn]:
    """Place replicas, large ones first; return those without a broker. Racks are given up last."""
    waiting = list[ReplicaOn]()
    size = draft.layout.size
    for tp, old in sorted(batch, key=lambda each: -size(each[0])):
        if successor is not None and draft.why_not(tp, old, successor) is None:
            draft.move(tp, old, successor)
            draft.in_place.add(tp)
        else:
            waiting.append((tp, old))
    for least_racks in (None, 0):
        waiting = [each for each in waiting if not placer.place(*each, least_racks)]
    return waiting


def obstacle(
    draft: Draft, tp: TopicPartition, old: int | None, least_racks: int | None = None
) -> Why:
    """Return what keeps a replica from going to any broker."""
    reasons = {draft.why_not(tp, old, broker, least_racks) for broker in draft.targets}
    return next(
        (why for why in (Why.CORDONED, Why.ROOM, Why.RACK) if why in reasons), Why.NO_BROKER
    )


def rack_repair(layout: Layout, wishes: Wishes) -> MadePlan:
    """Move only replicas that share a rack, to others that lack the partition, or CannotMake."""
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
    for tp in sorted(wanted, key=lambda tp: (size(tp), tp)):
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
        old = next((each for each in surplus if not draft.lacks(tp, each)), None)
        if old is None:
            return draft.lacks(tp, surplus[0])
        more = len(draft.racks(draft.lists[tp])) + 1
        if not placer.place(tp, old, more):
            return obstacle(draft, tp, old, more)
        draft.raise_floor(tp)
    return None


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
