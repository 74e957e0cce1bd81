"""What has become of a step in flight, by how its partition is seen."""

from __future__ import annotations

import enum

from ktui.cluster.partition import PartitionState
from ktui.execution.run.track import OpenStep


class Landing(enum.StrEnum):
    """How a step stands."""

    FLYING = "flying"
    """Kafka lists it, with the target that was asked for."""
    REACHED = "reached"
    ELECTION_DUE = "election due"
    """The replicas are as asked for, and the one to be elected does not lead."""
    AS_BEFORE = "as before"
    """Nothing came of it, or it was cancelled before any of it came."""
    CHANGED = "changed"
    """The replicas are neither as before nor as asked for."""
    TAKEN_OVER = "taken over"
    """Kafka lists it with a target that nobody here has asked for."""


def landing(step: OpenStep, state: PartitionState) -> Landing:
    """Judge a step by a look at its partition.

    Over is: not listed by ListPartitionReassignments, `replicas` equal to what was asked for in
    order and, if it elects, that leader leads. A leader change alone never ends a step.
    """
    begun = step.begun
    if state.reassigning:
        return Landing.FLYING if state.target == begun.replicas else Landing.TAKEN_OVER
    if state.replicas == begun.replicas:
        led = begun.elect is None or state.leader == begun.elect
        return Landing.REACHED if led else Landing.ELECTION_DUE
    same = set(state.replicas) == set(begun.before)
    return Landing.AS_BEFORE if same else Landing.CHANGED
