"""The states of a partition in a run, and the three ways to cancel it: one vocabulary for all."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class CancelKind(enum.StrEnum):
    """What an operator asks for a partition in place of its target."""

    STOP = "stop"  # Kafka drops the replicas being added (KIP-455's cancel); nothing more is done
    ROLLBACK = "rollback"  # back to its original replicas, in order, and its leader (KIP-236)
    TRIM = "trim"  # it stops, and drops the replicas beyond its original number


class State(enum.StrEnum):
    """The state of a partition in a run."""

    QUEUED = "queued"  # waits for its next step, also for room under the limits
    BLOCKED = "blocked"  # no step is possible; goes on by itself once the reason has passed
    FOREIGN = "foreign"  # someone else is reassigning the partition
    ADDING = "adding"
    READY = "ready"  # has all target replicas, and waits for others to be cut with
    DROPPING = "dropping"
    ELECTING = "electing"
    STALLED = "stalled"  # the step in flight makes no progress
    STOPPING = "stopping"  # its step is cancelled, or replicas beyond the original number go
    REFUSED = "refused"  # a cancel is impossible now; it happens once the reason has passed
    ROLLING_BACK = "rolling_back"  # on the way back, or waits for the next step there
    STOPPED = "stopped"  # cancelled by an operator; stays as it is
    ROLLED_BACK = "rolled_back"  # the partition has its original replicas and leader again
    DONE = "done"
    CHANGED_ELSEWHERE = "changed_elsewhere"  # by someone else: the run leaves it alone
    TOPIC_GONE = "topic_gone"  # deleted, or created again under its name
    FAILED = "failed"  # Kafka has refused a step again and again

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")

    @property
    def ended(self) -> bool:
        return self in _ENDED

    @property
    def in_flight(self) -> bool:
        return self in _IN_FLIGHT


class Stage(enum.StrEnum):
    """What people count a run's partitions by, on every screen and in `ktui status`."""

    QUEUED = "queued"  # no step of it was ever begun
    WAITING = "waiting"  # between two steps
    BLOCKED = "blocked"  # no step is possible now, as for lack of a broker
    FOREIGN = "foreign"  # someone else is reassigning it
    STALLED = "stalled"
    HELD_UP = "held up"  # in flight, and cannot copy now, as onto a broker that is down
    BEHIND = "behind"  # in flight, and more is written than is copied
    COPYING = "copying"  # in flight, also one that drops replicas or moves the leader
    READY = "ready"
    DONE = "done"
    CALLED_OFF = "called off"  # cancelled by an operator, or about to be
    FAILED = "failed"
    LEFT_OUT = "left out"  # changed by somebody else, or its topic is gone


STAGES: Mapping[State, Stage] = MappingProxyType(
    {
        State.QUEUED: Stage.QUEUED,
        State.BLOCKED: Stage.BLOCKED,
        State.FOREIGN: Stage.FOREIGN,
        State.REFUSED: Stage.BLOCKED,
        State.STALLED: Stage.STALLED,
        State.ADDING: Stage.COPYING,
        State.DROPPING: Stage.COPYING,
        State.ELECTING: Stage.COPYING,
        State.READY: Stage.READY,
        State.DONE: Stage.DONE,
        State.STOPPING: Stage.CALLED_OFF,
        State.ROLLING_BACK: Stage.CALLED_OFF,
        State.STOPPED: Stage.CALLED_OFF,
        State.ROLLED_BACK: Stage.CALLED_OFF,
        State.FAILED: Stage.FAILED,
        State.CHANGED_ELSEWHERE: Stage.LEFT_OUT,
        State.TOPIC_GONE: Stage.LEFT_OUT,
    }
)


_NO_POLLS: Mapping[Stage, int] = MappingProxyType({})


def count_stages(
    counts: Mapping[State, int], between_steps: int, copies: Mapping[Stage, int] = _NO_POLLS
) -> dict[Stage, int]:
    """Count by stage; `between_steps` are among the queued, `copies` are by polls."""
    stages = dict.fromkeys(Stage, 0)
    for state, count in counts.items():
        stages[STAGES[state]] += count
    stages[Stage.QUEUED] -= between_steps
    stages[Stage.WAITING] += between_steps
    for stage, count in copies.items():
        stages[Stage.COPYING] -= count
        stages[stage] += count
    return {stage: count for stage, count in stages.items() if count}


UNWELL = (
    State.BLOCKED,
    State.STALLED,
    State.REFUSED,
    State.FOREIGN,
    State.FAILED,
    State.CHANGED_ELSEWHERE,
    State.TOPIC_GONE,
)
_ENDED = frozenset(
    {
        State.DONE,
        State.STOPPED,
        State.ROLLED_BACK,
        State.CHANGED_ELSEWHERE,
        State.TOPIC_GONE,
        State.FAILED,
    }
)
_IN_FLIGHT = frozenset(
    {State.ADDING, State.DROPPING, State.ELECTING, State.STALLED, State.STOPPING}
)
_ON_ITS_WAY = (State.QUEUED, State.READY, State.ADDING, State.DROPPING, State.ELECTING)
_BY_OPERATOR = {
    CancelKind.STOP: {
        **dict.fromkeys((*_ON_ITS_WAY, State.DONE), State.STOPPED),
        State.BLOCKED: State.REFUSED,
    },
    CancelKind.TRIM: {
        **dict.fromkeys(_ON_ITS_WAY, State.STOPPING),
        State.DONE: State.STOPPED,
        State.BLOCKED: State.REFUSED,
    },
    CancelKind.ROLLBACK: {
        **dict.fromkeys(_ON_ITS_WAY, State.ROLLING_BACK),
        State.DONE: State.ROLLED_BACK,
        State.BLOCKED: State.REFUSED,
    },
}


def state_when_sent(*, adds: bool, drops: bool) -> State:
    """Return the state of a partition whose step was just sent: adding, dropping or electing."""
    if adds:
        return State.ADDING
    return State.DROPPING if drops else State.ELECTING


def state_when_cancelled(state: State, cancel: CancelKind | None) -> State:
    """Translate a state of a move to the target for a partition that is cancelled."""
    return state if cancel is None else _BY_OPERATOR[cancel].get(state, state)
