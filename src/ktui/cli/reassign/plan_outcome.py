"""Where each partition of a plan stands: a cancel differs from a completion, by what was recorded.

Kafka shows only replicas. So what was cancelled is known from the runs of the state directory, and
from its log of cancels.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition
from ktui.execution.cancel.foreign_log import ForeignCancelLine
from ktui.execution.cancel.foreign_outcome import ForeignOutcome
from ktui.execution.run.run import Run
from ktui.execution.run.states import State

_CANCELLED = (State.STOPPED, State.ROLLED_BACK)


_STOPPED = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK)


class _End(NamedTuple):
    """The end of a move, as it was recorded."""

    at: datetime
    tp: TopicPartition
    cancelled: Brokers | None
    """The target that was given up; None if the move was completed."""


class PlanOutcome(enum.StrEnum):
    """Where a partition of a plan stands."""

    COMPLETED = "completed"
    """It has the plan's replicas, in order."""
    IN_PROGRESS = "in progress"
    """It is being reassigned to the plan's replicas."""
    CANCELLED = "cancelled"
    """It has other replicas, and its move to the plan's was cancelled."""
    DIFFERENT = "different"
    """It has other replicas, or is being reassigned to others."""
    ABSENT = "absent"
    """The cluster does not have it."""


class PartitionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a plan."""

    tp: TopicPartition
    outcome: PlanOutcome
    target: Brokers
    replicas: Brokers
    """In order; with those being added and removed while it moves."""


def plan_outcomes(
    targets: Mapping[TopicPartition, Brokers],
    states: Mapping[TopicPartition, PartitionState],
    listed: Mapping[TopicPartition, Reassignment],
    cancelled: Mapping[TopicPartition, Brokers],
) -> list[PartitionOutcome]:
    """Return where the partitions of a plan stand, in its order.

    Args:
        targets: the plan.
        states: the plan's partitions that exist, as they are now.
        listed: the reassignments of the cluster.
        cancelled: the target of the last cancelled move of partitions.
    """
    return [
        PartitionOutcome(
            tp=tp,
            outcome=_outcome(target, states.get(tp), listed.get(tp), cancelled.get(tp)),
            target=target,
            replicas=_replicas(states.get(tp), listed.get(tp)),
        )
        for tp, target in targets.items()
    ]


def cancelled_targets(
    runs: Iterable[Run], log: Iterable[ForeignCancelLine]
) -> dict[TopicPartition, Brokers]:
    """Return the target of the last cancelled move of each partition.

    Args:
        runs: the runs of a cluster.
        log: its lines of the log of cancels.
    """
    ends = [*_ends_in_log(log), *(end for run in runs for end in _ends_in_run(run))]
    found: dict[TopicPartition, Brokers] = {}
    for end in sorted(ends, key=attrgetter("at")):
        if end.cancelled is None:
            found.pop(end.tp, None)
        else:
            found[end.tp] = end.cancelled
    return found


def _ends_in_log(log: Iterable[ForeignCancelLine]) -> Iterator[_End]:
    for line in log:
        if line.outcome in _STOPPED:
            yield _End(line.at, TopicPartition(line.topic, line.partition), line.target)


def _ends_in_run(run: Run) -> Iterator[_End]:
    for tp, track in run.tracks.items():
        at = track.since or run.started_at
        if at is not None and track.state in _CANCELLED:
            yield _End(at, tp, track.planned.target)
        elif at is not None and track.state is State.DONE:
            yield _End(at, tp, None)


def _outcome(
    target: Brokers,
    state: PartitionState | None,
    listed: Reassignment | None,
    cancelled: Brokers | None,
) -> PlanOutcome:
    if listed is not None:
        return PlanOutcome.IN_PROGRESS if listed.target == target else PlanOutcome.DIFFERENT
    if state is None:
        return PlanOutcome.ABSENT
    if state.replicas == target:
        return PlanOutcome.COMPLETED
    return PlanOutcome.CANCELLED if cancelled == target else PlanOutcome.DIFFERENT


def _replicas(state: PartitionState | None, listed: Reassignment | None) -> Brokers:
    if listed is not None:
        return listed.replicas
    return () if state is None else state.replicas
