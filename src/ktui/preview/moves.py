"""The partitions of a plan that are to move, their steps, and what these cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ktui.cluster.broker import TopicConfig, racks_of
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.pacing.limits import Limits
from ktui.pacing.queue import put_long_first
from ktui.pacing.situation import NO_RACKS, Racks, Situation, Step, WantedPartition
from ktui.pacing.steps import all_steps
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules, at_target
from ktui.planning.plan import PartitionTarget, Plan


class Pattern(NamedTuple):
    """All that decides a partition's steps, with places (0, 1, ..., added ones last) for ids."""

    replicas: int
    target: tuple[int, ...]
    leader: int
    min_isr: int
    closed: tuple[int, ...] = ()  # places of cordoned brokers that no list may name


class StepsCost(msgspec.Struct, frozen=True):
    """The cost of one partition's steps, from first to last."""

    alters: int = 0
    elections: int = 0
    leader_epoch_bumps: int = 0  # alters that drop a replica, and elections
    most_replicas: int = 0  # the most replicas held at once, with those being added
    most_adds: int = 0  # the most that one step adds, but to restore min ISR


def pattern_of(now: Situation) -> tuple[Pattern, Brokers]:
    """Return a partition's pattern, and the broker at each of its places."""
    brokers = (*now.replicas, *(b for b in now.target if b not in now.replicas))
    places = {broker: place for place, broker in enumerate(brokers)}
    leader = 0 if now.leader not in now.replicas else places[now.leader]
    target = tuple(places[broker] for broker in now.target)
    closed = tuple(places[broker] for broker in now.replicas if broker in now.closed)
    return Pattern(len(now.replicas), target, leader, now.min_isr, closed), brokers


class StepPatterns:
    """The steps of patterns under some limits, if all goes well."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[Pattern, list[Step]] = {}

    def steps(self, pattern: Pattern) -> list[Step]:
        if pattern not in self._known:
            self._known[pattern] = all_steps(_situation(pattern), self._limits)
        return self._known[pattern]

    def cost(self, pattern: Pattern) -> StepsCost:
        held, leader = pattern.replicas, pattern.leader
        alters = elections = bumps = most_adds = 0
        most = max(held, len(pattern.target))
        for step in self.steps(pattern):
            alters += step.alters
            elections += step.elects is not None
            # the successor of a dropped leader needs no election of its own
            elected = step.elects is not None and leader not in step.drops
            bumps += bool(step.drops) + elected
            most = max(most, held + len(step.adds))
            most_adds = max(most_adds, 0 if step.urgent else len(step.adds))
            held = len(step.target)
            if step.moves_leader:
                leader = pattern.target[0]
        return StepsCost(alters, elections, bumps, most, most_adds)


def healthy_situation(now: Situation) -> Situation:
    """Return a partition with all replicas online and in sync, and one of them leading."""
    return Situation(
        replicas=now.replicas,
        isr=now.replicas,
        leader=now.leader if now.leader in now.replicas else next(iter(now.replicas), None),
        target=now.target,
        online=frozenset((*now.replicas, *now.target)),
        closed=now.closed,
        min_insync_replicas=now.min_isr,
    )


def _situation(pattern: Pattern) -> Situation:
    replicas = tuple(range(pattern.replicas))
    return Situation(
        replicas=replicas,
        isr=replicas,
        leader=pattern.leader,
        target=pattern.target,
        online=frozenset((*replicas, *pattern.target)),
        closed=frozenset(pattern.closed),
        min_insync_replicas=pattern.min_isr,
    )


class PlannedStep(msgspec.Struct, frozen=True):
    """The replicas to request, and the broker to elect as leader afterwards."""

    replicas: tuple[int, ...]
    elect: int | None


class PartitionSteps(msgspec.Struct, frozen=True):
    """A partition's steps: empty if at its target, None if the partition is unknown."""

    topic: str
    partition: int
    steps: tuple[PlannedStep, ...] | None


class KnownPartition(msgspec.Struct, frozen=True):
    """One partition of a plan; `state` and `situation` are None if the cluster does not have it."""

    target: PartitionTarget
    state: PartitionState | None
    situation: Situation | None


def situations(plan: Plan, cluster: ClusterSnapshot) -> Iterator[KnownPartition]:
    """Yield each partition's situation in order; moves of others count as not begun."""
    rules = PlanRules(cluster)
    online = cluster.online
    closed = rules.cordoned if cluster.refuses_cordoned else frozenset[int]()
    unread = TopicConfig()
    for target in plan.partitions:
        state = rules.state(target.tp)
        if state is None:
            yield KnownPartition(target, None, None)
            continue
        now = Situation(
            replicas=state.original,
            isr=state.isr,
            leader=state.leader,
            target=target.replicas,
            online=online,
            # a target that names one is a problem, and is shown as if there were no cordon
            closed=closed.difference(target.replicas),
            min_insync_replicas=cluster.configs.get(target.topic, unread).min_insync_replicas,
        )
        yield KnownPartition(target, state, now)


def steps_of(plan: Plan, cluster: ClusterSnapshot, limits: Limits) -> tuple[PartitionSteps, ...]:
    """Return each partition's steps, in the plan's order, if all goes well."""
    patterns = StepPatterns(limits)
    return tuple(
        PartitionSteps(
            known.target.topic,
            known.target.partition,
            None if known.situation is None else _steps(known.situation, patterns),
        )
        for known in situations(plan, cluster)
    )


def _steps(now: Situation, patterns: StepPatterns) -> tuple[PlannedStep, ...]:
    pattern, brokers = pattern_of(now)
    return tuple(
        PlannedStep(
            tuple(brokers[place] for place in step.target),
            None if step.elects is None else brokers[step.elects],
        )
        for step in patterns.steps(pattern)
    )


class Moves(msgspec.Struct):
    """The partitions and bytes to move, whatever the limits."""

    wanted: list[WantedPartition]  # the partitions to move, assumed online and in sync
    patterns: defaultdict[Pattern, list[int]]  # indexes into `wanted`
    bytes_in: Counter[int]
    bytes_out: Counter[int]
    unknown: Counter[int]  # by broker, replicas gained or lost of unknown size
    sizes_unknown: int = 0
    bytes_to_copy: int = 0
    racks: Racks = NO_RACKS


def moves_of(plan: Plan, snapshot: ClusterSnapshot) -> Moves:
    """Collect the moves of a plan; a partition counts with the size of its leader's log."""
    moved = Moves([], defaultdict(list), Counter(), Counter(), Counter())
    for known in situations(plan, snapshot):
        now, state = known.situation, known.state
        if now is not None and state is not None and not at_target(known.target, state):
            _count(moved, state.tp, now, snapshot.size(state.tp))
    moved.wanted = put_long_first(moved.wanted)
    moved.racks = racks_of(snapshot.brokers.values())
    return moved


def _count(moved: Moves, tp: TopicPartition, now: Situation, size: int | None) -> None:
    pattern, brokers = pattern_of(now)
    moved.patterns[pattern].append(len(moved.wanted))
    moved.wanted.append(
        WantedPartition(tp, healthy_situation(now), size or 0, sized=size is not None)
    )
    adds, drops = brokers[len(now.replicas) :], now.excess
    if size is None:
        moved.unknown.update((*adds, *drops))
        moved.sizes_unknown += bool(adds)
        return
    moved.bytes_to_copy += size * len(adds)
    for broker in adds:
        moved.bytes_in[broker] += size
    for broker in drops:
        moved.bytes_out[broker] += size
