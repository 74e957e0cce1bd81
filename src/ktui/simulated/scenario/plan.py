"""Read the plan of a scenario: the target of each partition."""

from __future__ import annotations

from typing import Any

from ktui.inputfile import unknown_key
from ktui.pacing.limits import CHOICES, NUMBERS, PACE, Limits, LimitsProblem, parse_limits
from ktui.simulated.scenario.file import FieldPlace, PlanPart, ScenarioPlan, TargetsPart
from ktui.simulated.scenario.targets import (
    ScenarioTargets,
    TooFewBrokers,
    drain_targets,
    expand_targets,
    leaders_off_targets,
    replication_factor_targets,
)
from ktui.simulated.scenario.topics import names_of
from ktui.simulated.scenario.world import World

GOALS = ("drain", "expand", "replication-factor", "leaders-off", "partitions")


def plan_of(place: FieldPlace, value: dict[str, Any], world: World) -> tuple[ScenarioPlan, Limits]:
    """Read the section `plan` of a file."""
    part = place.convert(value, PlanPart)
    if part.throttle is not None and part.throttle < 1:
        raise place.at("throttle").problem("expected at least 1 byte a second")
    targets = targets_of(place, part, world)
    throttle = None if part.throttle is None else float(part.throttle)
    plan = ScenarioPlan(targets=targets, start_s=float(part.start), throttle=throttle)
    return plan, _limits(place.at("limits"), part.limits)


def _limits(place: FieldPlace, options: dict[str, Any]) -> Limits:
    known = (*NUMBERS, *CHOICES, PACE)
    for option in options:
        if option not in known:
            raise place.at(option).problem(unknown_key(option, known))
    try:
        return parse_limits(options)
    except LimitsProblem as error:
        option = error.option.removeprefix("--")
        words = f"{error.problem}. {error.fix}".replace("--", "")
        raise place.at(option).problem(words) from None


def targets_of(place: FieldPlace, part: TargetsPart, world: World) -> ScenarioTargets:
    """Return the targets that a section of the file defines, for the partitions that change."""
    goal = _goal(place, part)
    topics = world.topics.values()
    moved = _moved(place, part, world)
    here = place.at(goal)
    try:
        if part.drain is not None:
            targets = drain_targets(topics, moved, world.racks, world.brokers(here, part.drain))
        elif part.expand is not None:
            targets = expand_targets(topics, moved, world.racks, world.brokers(here, part.expand))
        elif part.replication_factor is not None:
            targets = replication_factor_targets(
                topics, moved, world.racks, _factor(here, part, world)
            )
        elif part.leaders_off is not None:
            targets = leaders_off_targets(topics, moved, world.brokers(here, part.leaders_off))
        else:
            targets = _explicit(here, part, world)
    except TooFewBrokers as error:
        raise here.problem(str(error)) from None
    if not targets:
        raise here.problem("nothing would move: every partition is on its target already")
    return targets


def _goal(place: FieldPlace, part: TargetsPart) -> str:
    goals = [goal for goal in GOALS if getattr(part, goal.replace("-", "_")) is not None]
    if len(goals) == 1:
        return goals[0]
    expected = f"expected one of {', '.join(GOALS)}"
    if goals:
        raise place.at(goals[1]).problem(f"{expected}; {goals[0]!r} is set already")
    raise place.problem(expected)


def _moved(place: FieldPlace, part: TargetsPart, world: World) -> frozenset[str]:
    if part.topics is None:
        return frozenset(world.topics)
    if part.partitions is not None:
        raise place.at("topics").problem("not allowed with 'partitions', which names them already")
    here = place.at("topics")
    return frozenset(
        world.topic(here.at(index), name).name
        for index, pattern in enumerate(part.topics)
        for name in names_of(here.at(index), pattern)
    )


def _factor(place: FieldPlace, part: TargetsPart, world: World) -> int:
    factor = part.replication_factor or 0
    if factor > len(world.racks):
        count = len(world.racks)
        raise place.problem(f"{factor} replicas need {factor} brokers; there are {count}")
    return factor


def _explicit(place: FieldPlace, part: TargetsPart, world: World) -> ScenarioTargets:
    targets: ScenarioTargets = {}
    for index, move in enumerate(part.partitions or ()):
        here = place.at(index)
        tp = world.partition(here, move.topic, move.partition)
        if tp in targets:
            raise here.problem(f"{tp} is named twice")
        target = world.brokers(here.at("replicas"), move.replicas)
        if target != world.topics[move.topic].replicas[move.partition]:
            targets[tp] = target
    return targets
