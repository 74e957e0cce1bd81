"""A file of placement rules: where the topics of a cluster are to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.planning.intents.placement import Rule, Strategy
from ktui.planning.names import join_all
from ktui.planning.plan import PlanNumber, ReplicaList
from ktui.yamlfile import YamlFile, read_yaml


class _RuleInFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: Annotated[str, msgspec.Meta(min_length=1)]
    strategy: str
    lists: dict[PlanNumber, ReplicaList] = {}


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: Annotated[tuple[_RuleInFile, ...], msgspec.Meta(min_length=1)]


def read_rules(path: Path) -> list[Rule]:
    """Read placement rules from a YAML file, in their order.

    Raises:
        FileProblem: the file cannot be read, or is none of rules; names the line.
    """
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
