"""The steps of each partition of a plan, said beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Situation
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.simulate.step_cost import StepPatterns, pattern_of


class PlannedStep(msgspec.Struct, frozen=True):
    """The replicas that are asked for, and who is elected as the leader afterwards."""

    replicas: tuple[int, ...]
    elect: int | None


class PartitionSteps(msgspec.Struct, frozen=True):
    """A partition's way: no steps where it is at its target, None where it is unknown."""

    topic: str
    partition: int
    steps: tuple[PlannedStep, ...] | None


class KnownPartition(msgspec.Struct, frozen=True):
    """One partition of a plan, as the cluster has it; both None where it does not have it."""

    target: PartitionTarget
    state: PartitionState | None
    situation: Situation | None


def situations(plan: Plan, cluster: ClusterSnapshot) -> Iterator[KnownPartition]:
    """Give how each partition is, in the plan's order; what others move, from before they did."""
    rules = PlanRules(cluster)
    online = cluster.online
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
            min_insync_replicas=cluster.configs.get(target.topic, unread).min_insync_replicas,
        )
        yield KnownPartition(target, state, now)


def steps_of(plan: Plan, cluster: ClusterSnapshot, limits: Limits) -> tuple[PartitionSteps, ...]:
    """Give each partition's steps, in the plan's order, as they are when all goes well."""
    ways = StepPatterns(limits)
    return tuple(
        PartitionSteps(
            known.target.topic,
            known.target.partition,
            None if known.situation is None else _steps(known.situation, ways),
        )
        for known in situations(plan, cluster)
    )


def _steps(now: Situation, ways: StepPatterns) -> tuple[PlannedStep, ...]:
    pattern, brokers = pattern_of(now)
    return tuple(
        PlannedStep(
            tuple(brokers[place] for place in step.target),
            None if step.elects is None else brokers[step.elects],
        )
        for step in ways.steps(pattern)
    )
