"""The outcome of a step in flight, judged by an observation of its partition."""

from __future__ import annotations

import enum

from ktui.cluster.partition import PartitionState
from ktui.execution.run.track import OpenStep


class StepOutcome(enum.StrEnum):
    """The state of a step."""

    FLYING = "flying"
    """Kafka lists the partition, with the target that was asked for."""
    REACHED = "reached"
    ELECTION_DUE = "election due"
    """The replicas are as asked for, but the broker to be elected does not lead."""
    AS_BEFORE = "as before"
    """The request had no effect, or was cancelled before it had any."""
    CHANGED = "changed"
    """The replicas are neither as before nor as asked for."""
    TAKEN_OVER = "taken over"
    """Kafka lists the partition with a target that this run has not asked for."""


def step_outcome(step: OpenStep, state: PartitionState) -> StepOutcome:
    """Judge a step by an observation of its partition.

    A step is over if ListPartitionReassignments does not list the partition, and `replicas` equals
    the requested list, in order. If the step elects, that leader must lead too. A leader change
    alone never ends a step.
    """
    begun = step.begun
    if state.reassigning:
        return StepOutcome.FLYING if state.target == begun.replicas else StepOutcome.TAKEN_OVER
    if state.replicas == begun.replicas:
        led = begun.elect is None or state.leader == begun.elect
        return StepOutcome.REACHED if led else StepOutcome.ELECTION_DUE
    same = set(state.replicas) == set(begun.before)
    return StepOutcome.AS_BEFORE if same else StepOutcome.CHANGED
