"""The states of a partition in a run: one vocabulary for screens, scripts and the journal."""

from __future__ import annotations

import enum

from ktui.execution.run.cancel_kind import CancelKind


class State(enum.StrEnum):
    """Where a partition of a run stands."""

    QUEUED = "queued"
    """It waits for its next step: its first one, or one that the limits have no room for yet."""
    BLOCKED = "blocked"
    """No step can be taken; it goes on by itself once the reason has passed."""
    FOREIGN = "foreign"
    """Someone else is reassigning it."""
    ADDING = "adding"
    READY = "ready"
    """To be cut: it has all its target replicas, and waits for others to be cut with."""
    DROPPING = "dropping"
    ELECTING = "electing"
    STALLED = "stalled"
    """Its step is in flight and makes no headway."""
    STOPPING = "stopping"
    """Its step is being cancelled, or what is beyond its original number dropped."""
    REFUSED = "refused"
    """What an operator asked for cannot be done now; it is once the reason has passed."""
    ROLLING_BACK = "rolling_back"
    """It is on its way back to its original replicas, or waits for its next step there."""
    STOPPED = "stopped"
    """An operator has called it off; it stays as it is."""
    ROLLED_BACK = "rolled_back"
    """It has its original replicas and leader again."""
    DONE = "done"
    CHANGED_ELSEWHERE = "changed_elsewhere"
    """Someone else gave it other replicas: it is left to them."""
    TOPIC_GONE = "topic_gone"
    """The topic was deleted, or deleted and created again under its name."""
    FAILED = "failed"
    """Kafka refused a step of it, again and again."""

    @property
    def words(self) -> str:
        """Name it for people."""
        return self.value.replace("_", " ")

    @property
    def ended(self) -> bool:
        """Whether nothing more will be done for the partition."""
        return self in _ENDED

    @property
    def in_flight(self) -> bool:
        """Whether a step of it was sent and is not over."""
        return self in _IN_FLIGHT


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


def sent(*, adds: bool, drops: bool) -> State:
    """Name the state of a step that has just been sent, by the most that it does."""
    if adds:
        return State.ADDING
    return State.DROPPING if drops else State.ELECTING


def called_off(state: State, cancel: CancelKind | None) -> State:
    """Name a state that a partition would be in, had no operator called its move off.

    Args:
        state: the one on its way to a target.
        cancel: what the operator asked for; None for nothing.
    """
    return state if cancel is None else _CALLED_OFF[cancel].get(state, state)


_ON_ITS_WAY = (State.QUEUED, State.READY, State.ADDING, State.DROPPING, State.ELECTING)
_CALLED_OFF = {
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
