"""Where a replica goes: the best broker, racks that a partition lacks, and rules kept in a file."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.planning.intents.draft import Draft, ReplicaOn
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import even_flow
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes, check_targets
from ktui.planning.plan import PlanNumber, ReplicaList, join_all, join_named
from ktui.yamlfile import YamlFile, read_yaml

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


class Strategy(enum.StrEnum):
    """Where the replicas of a partition are to be."""

    ANY = "any"
    BALANCED_LEADERS = "balanced-leaders"  # each broker leads its share of the topic
    IN_RACK = "in-rack"
    CROSS_RACK = "cross-rack"
    STATIC = "static"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How topics are placed."""

    topics: str
    strategy: Strategy
    lists: Mapping[int, Brokers] = {}  # by partition number, if static; others stay


def placement(layout: Layout, rules: Sequence[Rule], wishes: Wishes) -> MadePlan:
    """Place topics by the first rule whose pattern they match, or raise CannotMake."""
    for rule in rules:
        _check(layout, rule)
    draft = Draft(layout, wishes)
    placing = _Placing(draft)
    by_topic: dict[str, list[TopicPartition]] = {}
    for tp in draft.in_scope():
        by_topic.setdefault(tp.topic, []).append(tp)
    for topic, partitions in by_topic.items():
        first = next((each for each in rules if fnmatchcase(topic, each.topics)), None)
        if first is not None:
            placing.apply(first, partitions)
    made = draft.made()
    if not made.plan.partitions and not made.left:
        raise CannotMake("Every topic is placed by its rule already, or has none.")
    return made


def _check(layout: Layout, rule: Rule) -> None:
    """Raise CannotMake if a list is empty, or names a broker twice or one without room for it."""
    if rule.strategy is Strategy.STATIC and not rule.lists:
        raise CannotMake(f"The static rule for {rule.topics} names no replicas.")
    for number, brokers in sorted(rule.lists.items()):
        if not brokers or len({*brokers}) < len(brokers):
            raise CannotMake(
                f"The rule for {rule.topics} gives partition {number} the replicas "
                f"{[*brokers]}: name each broker once, and at least one."
            )
        check_targets(layout, brokers)


class _Placing:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._placer = Placer(draft)

    def apply(self, rule: Rule, partitions: Sequence[TopicPartition]) -> None:
        """Place a topic's partitions; CannotMake for a static rule about others."""
        if unknown := sorted(rule.lists.keys() - {tp.partition for tp in partitions}):
            topic = partitions[0].topic
            raise CannotMake(f"Topic {topic} has no {join_named('partition', unknown)}.")
        if rule.strategy is Strategy.BALANCED_LEADERS:
            self._balance(partitions)
            return
        for tp in partitions:
            if why := self._place(rule, tp):
                self._draft.leave(tp, None, why)

    def _place(self, rule: Rule, tp: TopicPartition) -> Why | None:
        draft = self._draft
        match rule.strategy:
            case Strategy.IN_RACK if self._outside(tp):
                return draft.immovable(tp) or self._gather(tp)
            case Strategy.CROSS_RACK if len(draft.racks(draft.lists[tp])) < len(draft.lists[tp]):
                if not racks_lacking(draft, tp):
                    return Why.RACK
                return draft.immovable(tp) or repair(draft, self._placer, tp)
            case Strategy.STATIC if (brokers := rule.lists.get(tp.partition)) is not None:
                if draft.lists[tp] != brokers:
                    return draft.immovable(tp) or self._set(tp, brokers)
        return None

    def _balance(self, partitions: Sequence[TopicPartition]) -> None:
        draft = self._draft
        flow = even_flow(draft, partitions, draft.layout.pool.online, 0)
        why = flow.even() or Why.NO_REPLICA
        counted = next((tp for tp in partitions if draft.lists[tp]), None)
        if flow.off() and counted is not None:
            draft.leave(counted, None, why)

    # ------------------------------------------------------------------ on one rack

    def _outside(self, tp: TopicPartition) -> bool:
        of = self._draft.layout.pool.racks
        brokers = self._draft.lists[tp]
        return len({of.get(broker) for broker in brokers}) > 1 or of.get(brokers[0]) is None

    def _gather(self, tp: TopicPartition) -> Why | None:
        draft, of = self._draft, self._draft.layout.pool.racks
        brokers = draft.lists[tp]
        reached: list[tuple[int, bool, str, list[int]]] = []
        for rack in draft.racks([*brokers, *draft.targets]):
            free = [
                broker
                for broker in draft.targets
                if of.get(broker) == rack and broker not in brokers and draft.has_room(tp, broker)
            ]
            outside = sum(of.get(broker) != rack for broker in brokers)
            if outside <= len(free):
                reached.append((outside, of.get(brokers[0]) != rack, rack, free))
        if not reached:
            return Why.NO_BROKER
        _, _, rack, free = min(reached)
        free.sort(key=lambda each: (draft.of_topic[tp.topic][each], draft.bytes[each], each))
        moved = [broker for broker in brokers if of.get(broker) != rack]
        if why := self._lacks(tp, len(moved), leader=brokers[0] in moved):
            return why
        for old, new in zip(moved, free, strict=False):
            draft.move(tp, old, new)
        return None

    # ------------------------------------------------------------------ where it is named

    def _set(self, tp: TopicPartition, brokers: Brokers) -> Why | None:
        draft, before = self._draft, self._draft.lists[tp]
        new = [broker for broker in brokers if broker not in before]
        if not all(draft.has_room(tp, broker) for broker in new):
            return Why.ROOM
        if why := self._lacks(tp, len(new), leader=brokers[0] != before[0]):
            return why
        for broker in new:
            draft.add(tp, broker)
        for broker in before:
            if broker not in brokers:
                draft.drop(tp, broker)
        draft.reorder(tp, brokers)
        return None

    def _lacks(self, tp: TopicPartition, moves: int, *, leader: bool) -> Why | None:
        trial, size = self._draft.budget.trial(), self._draft.layout.size(tp)
        for _ in range(moves):
            if why := trial.lacks(size):
                return why
            trial.take(size)
        return trial.lacks_leader_change() if leader else None


class _RuleInFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: Annotated[str, msgspec.Meta(min_length=1)]
    strategy: str
    lists: dict[PlanNumber, ReplicaList] = {}


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: Annotated[tuple[_RuleInFile, ...], msgspec.Meta(min_length=1)]


def read_rules(path: Path) -> list[Rule]:
    """Read placement rules from a YAML file, in order; FileProblem names the line."""
    try:
        file = read_yaml(expand_home(path))
    except Unreadable as error:
        raise FileProblem(path, None, f"cannot be read: {error}") from None
    rules = file.convert((), file.data, _Rules).rules
    return [_rule(file, number, rule) for number, rule in enumerate(rules)]


def _rule(file: YamlFile, number: int, rule: _RuleInFile) -> Rule:
    place = f"rules.{number}"
    if rule.strategy not in [*Strategy]:
        words = f"{rule.strategy!r} is not a strategy. Use {join_all(list(Strategy), 'or')}"
        raise file.problem(("rules", number, "strategy"), f"{place}.strategy: {words}")
    strategy = Strategy(rule.strategy)
    if strategy is Strategy.STATIC and not rule.lists:
        words = "a static rule has the replicas of each partition, such as lists: {0: [1, 2, 3]}"
        raise file.problem(("rules", number), f"{place}: {words}")
    if rule.lists and strategy is not Strategy.STATIC:
        words = "only a static rule has lists. Remove them, or use strategy: static"
        raise file.problem(("rules", number, "lists"), f"{place}.lists: {words}")
    return Rule(topics=rule.topics, strategy=strategy, lists=rule.lists)
