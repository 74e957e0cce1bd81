"""A preview of the steps of each partition of a plan."""

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
from ktui.preview.step_cost import StepPatterns, pattern_of


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
    """One partition of a plan as it is on the cluster.

    `state` and `situation` are None if the cluster does not have the partition.
    """

    target: PartitionTarget
    state: PartitionState | None
    situation: Situation | None


def situations(plan: Plan, cluster: ClusterSnapshot) -> Iterator[KnownPartition]:
    """Yield each partition's situation, in the plan's order.

    A partition that others are moving counts with its replicas from before their move.
    """
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
