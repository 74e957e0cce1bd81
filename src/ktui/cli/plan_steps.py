"""The steps of each partition of a plan, said beforehand."""

from __future__ import annotations

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Situation
from ktui.pacing.steps import all_steps
from ktui.planning.finding import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.rules import Rules


class StepJson(msgspec.Struct, frozen=True):
    """The replicas that are asked for, and who is elected as the leader afterwards."""

    replicas: tuple[int, ...]
    elect: int | None


class PartitionSteps(msgspec.Struct, frozen=True):
    """A partition's way: no steps where it is at its target, None where it is unknown."""

    topic: str
    partition: int
    steps: tuple[StepJson, ...] | None


def steps_of(plan: Plan, cluster: ClusterSnapshot, limits: Limits) -> tuple[PartitionSteps, ...]:
    """Give each partition's steps, in the plan's order, as they are when all goes well."""
    rules = Rules(cluster)
    return tuple(
        PartitionSteps(
            target.topic,
            target.partition,
            _steps(target, rules.state(target.tp), cluster, limits),
        )
        for target in plan.partitions
    )


def _steps(
    target: PartitionTarget, state: PartitionState | None, cluster: ClusterSnapshot, limits: Limits
) -> tuple[StepJson, ...] | None:
    if state is None:
        return None
    config = cluster.configs.get(target.topic, TopicConfig())
    now = Situation(
        replicas=state.original,
        isr=state.isr,
        leader=state.leader,
        target=target.replicas,
        online=frozenset(b.id for b in cluster.brokers.values() if b.alive),
        min_insync_replicas=config.min_insync_replicas,
    )
    return tuple(StepJson(step.target, step.elects) for step in all_steps(now, limits))
