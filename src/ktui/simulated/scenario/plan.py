"""The plan of a scenario: the target of each partition, read or from a goal, and its submission."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ktui.cluster.clock import Clock
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, broker_resource, topic_resource
from ktui.inputfile import unknown_key
from ktui.pacing.limits import CHOICES, NUMBERS, PACE, Limits, LimitsProblem, parse_limits
from ktui.planning.intents.drain import drain, replication_factor
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote
from ktui.planning.intents.made_plan import CannotMake, Wishes, left_lines
from ktui.planning.intents.shares import fill
from ktui.planning.replication_factor import BrokerPool
from ktui.simulated.layout import ClusterSpec
from ktui.simulated.scenario.file import FieldPlace, PlanPart, ScenarioPlan, TargetsPart, record_of
from ktui.simulated.scenario.topics import names_of
from ktui.simulated.scenario.world import World

ScenarioTargets = dict[TopicPartition, Brokers]
GOALS = ("drain", "expand", "replication-factor", "leaders-off", "partitions")


def plan_of(place: FieldPlace, value: dict[str, Any], world: World) -> tuple[ScenarioPlan, Limits]:
    """Read the section `plan` of a file."""
    part = place.convert(value, PlanPart)
    if part.throttle is not None and part.throttle < 1:
        raise place.at("throttle").problem("expected at least 1 byte a second")
    plan = record_of(ScenarioPlan, part, targets=targets_of(place, part, world))
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
    here = place.at(goal)
    if part.partitions is not None:
        targets = _explicit(place, here, part, world)
    else:
        try:
            targets = _made(here, part, _moved(place.at("topics"), part, world), world)
        except CannotMake as problem:
            raise here.problem(str(problem)) from None
    if not targets:
        raise here.problem("nothing would move: every partition is on its target already")
    return targets


def _made(
    place: FieldPlace, part: TargetsPart, topics: Collection[str], world: World
) -> ScenarioTargets:
    """Return the targets of the plan that `ktui plan` would make; raises CannotMake."""
    layout = _layout(world)
    wishes = Wishes(topics=tuple(topics), keep_order=True)
    if part.drain is not None:
        made = drain(layout, world.brokers(place, part.drain), wishes)
        if made.left:
            raise CannotMake("\n".join(left_lines(made.left)))
    elif part.expand is not None:
        made = fill(layout, world.brokers(place, part.expand), wishes)
    elif part.replication_factor is not None:
        made = replication_factor(layout, topics, part.replication_factor, wishes)
    else:
        made = demote(layout, world.brokers(place, part.leaders_off or ()), wishes)
    return {each.tp: each.replicas for each in made.plan.partitions}


def _layout(world: World) -> Layout:
    partitions: dict[TopicPartition, PartitionState] = {}
    sizes: dict[TopicPartition, int] = {}
    for topic in world.topics.values():
        for number, replicas in enumerate(topic.replicas):
            tp, isr = TopicPartition(topic.name, number), topic.in_sync(number, world.down)
            partitions[tp] = PartitionState(tp, None, replicas, isr, isr[0])
            sizes[tp] = topic.size(number)
    pool = BrokerPool(
        online=frozenset(world.racks) - world.down,
        cordoned=frozenset(),
        refuses_cordoned=False,
        racks=world.racks,
        replicas=Counter(broker for state in partitions.values() for broker in state.replicas),
    )
    return Layout(partitions=partitions, pool=pool, known=frozenset(world.racks), sizes=sizes)


def _goal(place: FieldPlace, part: TargetsPart) -> str:
    goals = [goal for goal in GOALS if getattr(part, goal.replace("-", "_")) is not None]
    if len(goals) == 1:
        return goals[0]
    expected = f"expected one of {', '.join(GOALS)}"
    if goals:
        raise place.at(goals[1]).problem(f"{expected}; {goals[0]!r} is set already")
    raise place.problem(expected)


def _moved(place: FieldPlace, part: TargetsPart, world: World) -> Collection[str]:
    if part.topics is None:
        return world.topics
    return {
        world.topic(place.at(index), name).name: None
        for index, pattern in enumerate(part.topics)
        for name in names_of(place.at(index), pattern)
    }


def _explicit(
    place: FieldPlace, here: FieldPlace, part: TargetsPart, world: World
) -> ScenarioTargets:
    if part.topics is not None:
        raise place.at("topics").problem("not allowed with 'partitions', which names them already")
    targets: ScenarioTargets = {}
    for index, move in enumerate(part.partitions or ()):
        of_move = here.at(index)
        tp = world.partition(of_move, move.topic, move.partition)
        if tp in targets:
            raise of_move.problem(f"{tp} is named twice")
        target = world.brokers(of_move.at("replicas"), move.replicas)
        if target != world.topics[move.topic].replicas[move.partition]:
            targets[tp] = target
    return targets


Refusals = tuple[str, ...]


async def submit_plan(
    plan: ScenarioPlan, spec: ClusterSpec, writer: ClusterWriter, clock: Clock
) -> Refusals:
    """Submit the plan once it is due; partitions only reordered get a preferred election."""
    await clock.sleep(plan.start_s)
    topics = {topic.name: topic.replicas for topic in spec.topics}
    before = {tp: topics[tp.topic][tp.partition] for tp in plan.targets}
    refused: list[str] = []
    if plan.throttle is not None:
        adding = (
            Replica(tp, broker)
            for tp, target in plan.targets.items()
            for broker in target
            if broker not in before[tp]
        )
        changes = _throttles(adding, int(plan.throttle))
        refused += _refused(await writer.alter_configs(changes))
    refused += _refused(
        await writer.alter_reassignments(plan.targets, allow_replication_factor_change=True)
    )
    reordered = [tp for tp, target in plan.targets.items() if set(target) == set(before[tp])]
    if reordered:
        refused += _refused(await writer.elect_preferred_leaders(reordered))
    return tuple(refused)


def _throttles(adding: Iterable[Replica], rate: int) -> list[ConfigChange]:
    entries: defaultdict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    for replica in adding:
        entries[replica.tp.topic].append(f"{replica.tp.partition}:{replica.broker}")
        brokers.add(replica.broker)
    lists = [
        ConfigChange(topic_resource(topic), FOLLOWER_REPLICAS, ConfigOp.SET, ",".join(of))
        for topic, of in entries.items()
    ]
    rates = [
        ConfigChange(broker_resource(broker), FOLLOWER_RATE, ConfigOp.SET, str(rate))
        for broker in sorted(brokers)
    ]
    return lists + rates


def _refused(
    results: Mapping[TopicPartition, WriteResult] | Mapping[ConfigResource, WriteResult],
) -> list[str]:
    return [
        f"{_name(what)}: {_reason(result)}"
        for what, result in results.items()
        if result.verdict is not Verdict.ACCEPTED
    ]


def _reason(result: WriteResult) -> str:
    if result.verdict is Verdict.UNKNOWN:
        return "no answer; the change may have taken effect"
    if result.code is None:
        return "could not be reached, so nothing was sent to it"
    return f"Kafka refused it: {result.message} ({result.code})".replace(":  (", ": (")


def _name(what: TopicPartition | ConfigResource) -> str:
    return f"{what.scope.value} {what.name}" if isinstance(what, ConfigResource) else str(what)
