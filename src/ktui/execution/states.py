"""The states of a partition in a run: one vocabulary for screens, scripts and the journal."""

from __future__ import annotations

import enum


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
    """A cancel of its step is on its way."""
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
    State.FOREIGN,
    State.FAILED,
    State.CHANGED_ELSEWHERE,
    State.TOPIC_GONE,
)
_ENDED = frozenset({State.DONE, State.CHANGED_ELSEWHERE, State.TOPIC_GONE, State.FAILED})
_IN_FLIGHT = frozenset(
    {State.ADDING, State.DROPPING, State.ELECTING, State.STALLED, State.STOPPING}
)


def sent(*, adds: bool, drops: bool) -> State:
    """Name the state of a step that has just been sent, by the most that it does."""
    if adds:
        return State.ADDING
    return State.DROPPING if drops else State.ELECTING
