"""The plan of a scenario: the target of each partition, read or from a goal, and its submission."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any

from ktui.cluster.clock import Clock
from ktui.cluster.partition import Replica, TopicPartition
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
from ktui.simulated.layout import ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import FieldPlace, PlanPart, ScenarioPlan, TargetsPart
from ktui.simulated.scenario.topics import names_of
from ktui.simulated.scenario.world import World

Racks = Mapping[int, str | None]  # every broker with its rack, None if that is unknown
ScenarioTargets = dict[TopicPartition, tuple[int, ...]]


class TooFewBrokers(ValueError):
    """There are not enough brokers for the goal."""


def drain_targets(
    topics: Collection[TopicSpec], moved: Collection[str], racks: Racks, off: Collection[int]
) -> ScenarioTargets:
    """Replace brokers `off` by the least loaded: fewest replicas of the topic, then of all."""
    loads = _Loads(racks, topics)
    stay = [broker for broker in racks if broker not in off]
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        target = list(replicas)
        for place, broker in enumerate(replicas):
            if broker in off:
                target[place] = loads.choose(tp, stay, target, instead_of=broker)
        if tuple(target) != replicas:
            targets[tp] = tuple(target)
    return targets


def expand_targets(
    topics: Collection[TopicSpec], moved: Collection[str], racks: Racks, onto: Collection[int]
) -> ScenarioTargets:
    """Move an even share of each topic's replicas to the brokers `onto`, from the fullest."""
    loads = _Loads(racks, ())
    seen = 0
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        loads.add(replicas)
        seen += len(replicas)
        target = list(replicas)
        for turn, broker in enumerate(onto):
            share = seen / len(racks) + turn / len(onto)  # not all at the same partitions
            if broker not in target and loads.load_of(broker) + 1 <= share:
                loads.replace_fullest(target, broker, kept=onto)
        if tuple(target) != replicas:
            targets[tp] = tuple(target)
    return targets


def replication_factor_targets(
    topics: Collection[TopicSpec], moved: Collection[str], racks: Racks, factor: int
) -> ScenarioTargets:
    """Add replicas on the least loaded brokers, or drop the last ones, to reach `factor`."""
    loads = _Loads(racks, topics)
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        target = list(replicas[:factor])
        while len(target) < factor:
            target.append(loads.choose(tp, racks, target))
        if tuple(target) != replicas:
            targets[tp] = tuple(target)
    return targets


def leaders_off_targets(
    topics: Collection[TopicSpec], moved: Collection[str], off: Collection[int]
) -> ScenarioTargets:
    """Put another replica first where one of `off` is, unless all replicas are on `off`."""
    leads = Counter(replicas[0] for _, replicas in _partitions(topics, {t.name for t in topics}))
    targets: ScenarioTargets = {}
    for tp, replicas in _partitions(topics, moved):
        others = [broker for broker in replicas if broker not in off]
        if replicas[0] in off and others:
            leader = min(others, key=lambda broker: (leads[broker], broker))
            leads[leader] += 1
            leads[replicas[0]] -= 1
            targets[tp] = (leader, *(broker for broker in replicas if broker != leader))
    return targets


def _partitions(
    topics: Iterable[TopicSpec], moved: Collection[str]
) -> Iterable[tuple[TopicPartition, tuple[int, ...]]]:
    for topic in topics:
        if topic.name in moved:
            for number, replicas in enumerate(topic.replicas):
                yield TopicPartition(topic.name, number), replicas


class _Loads:
    def __init__(self, racks: Racks, topics: Iterable[TopicSpec]) -> None:
        self._racks = racks
        self._loads: Counter[int] = Counter()
        self._of_topic: dict[str, Counter[int]] = {}
        for topic in topics:
            of_topic = Counter(chain.from_iterable(topic.replicas))
            self._of_topic[topic.name] = of_topic
            self._loads.update(of_topic)

    def load_of(self, broker: int) -> int:
        return self._loads[broker]

    def add(self, replicas: Iterable[int]) -> None:
        self._loads.update(replicas)

    def choose(
        self,
        tp: TopicPartition,
        candidates: Iterable[int],
        target: list[int],
        instead_of: int | None = None,
    ) -> int:
        """Choose a broker for a replica: if possible in a rack without one, then least loaded."""
        of_topic = self._of_topic[tp.topic]
        taken = {self._racks[b] for b in target if b != instead_of} - {None}
        free = [broker for broker in candidates if broker not in target]
        if not free:
            raise TooFewBrokers(f"every remaining broker already has a replica of {tp}")
        chosen = min(free, key=lambda b: (self._racks[b] in taken, of_topic[b], self._loads[b], b))
        of_topic[chosen] += 1
        self._loads[chosen] += 1
        return chosen

    def replace_fullest(self, target: list[int], broker: int, kept: Collection[int]) -> None:
        rack = self._racks[broker]
        old = [member for member in target if member not in kept]
        if not old:
            return
        same = [member for member in old if rack is not None and self._racks[member] == rack]
        fullest = max(same or old, key=lambda member: (self._loads[member], -member))
        target[target.index(fullest)] = broker
        self._loads[fullest] -= 1
        self._loads[broker] += 1


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


_CHUNK = 5_000  # partitions per request. Brokers write at most 10,000 records for one request

Refusals = tuple[str, ...]


async def submit_plan(
    plan: ScenarioPlan, spec: ClusterSpec, writer: ClusterWriter, clock: Clock
) -> Refusals:
    """Submit the plan once it is due; partitions only reordered get a preferred election."""
    await clock.sleep(plan.start_s)
    refused = [*await _set_throttles(plan, spec, writer)]
    current = _current(spec)
    targets = list(plan.targets.items())
    for start in range(0, len(targets), _CHUNK):
        chunk = dict(targets[start : start + _CHUNK])
        refused += _refused(
            await writer.alter_reassignments(chunk, allow_replication_factor_change=True)
        )
    reordered = [tp for tp, target in targets if set(target) == set(current[tp])]
    if reordered:
        refused += _refused(await writer.elect_preferred_leaders(reordered))
    return tuple(refused)


async def _set_throttles(plan: ScenarioPlan, spec: ClusterSpec, writer: ClusterWriter) -> Refusals:
    if plan.throttle is None:
        return ()
    current = _current(spec)
    adding = [
        Replica(tp, broker)
        for tp, target in plan.targets.items()
        for broker in target
        if broker not in current[tp]
    ]
    changes = _throttles(adding, int(plan.throttle))
    return tuple(_refused(await writer.alter_configs(changes)))


def _current(spec: ClusterSpec) -> Mapping[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(topic.name, number): replicas
        for topic in spec.topics
        for number, replicas in enumerate(topic.replicas)
    }


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
