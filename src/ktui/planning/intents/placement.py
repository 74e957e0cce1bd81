"""Topics are placed by rules that are kept in a file."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import even_flow
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes, check_targets
from ktui.planning.intents.placing import Placer, racks_lacking, repair
from ktui.planning.plan import PlanNumber, ReplicaList, join_all, join_named
from ktui.yamlfile import YamlFile, read_yaml


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
