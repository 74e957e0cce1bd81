"""One partition of a run, and its step in flight: the fold of the events about it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Answered, Brokers, Planned, StepBegun
from ktui.execution.states import State


class OpenStep(msgspec.Struct):
    """A step that was sent, or is about to be, and is not over."""

    begun: StepBegun
    at: datetime
    answered: Answered | None = None
    """The answer to the alter; None while nothing came back."""
    elected_at: datetime | None = None
    """When the first election at its end was asked for."""
    election: Answered | None = None
    """The last answer to an election."""
    cancels: int = 0
    """How many cancels of it were asked for, and were not refused."""

    @property
    def cancelled(self) -> bool:
        """Whether a cancel of it by the run may have taken effect."""
        return self.cancels > 0


class Track(msgspec.Struct):
    """One partition of a run."""

    planned: Planned
    number: int
    """Its place in the plan."""
    replicas: Brokers
    """Its replicas in order when the run last knew: before it, or after its last step."""
    original: Brokers
    """The replicas from just before our first request for it; until then those from the start."""
    state: State = State.QUEUED
    reason: str = ""
    steps: int = 0
    """How many were begun."""
    step: OpenStep | None = None
    batch: int | None = None
    """The decision that submitted its last step; in wave mode, the wave."""
    sent: Brokers | None = None
    """What its last alter asked for."""
    refusals: int = 0
    """How often in a row Kafka has refused a request of it."""
    since: datetime | None = None
    """When it came into its state."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.planned.tp

    @property
    def begun(self) -> bool:
        """Whether a step of it was ever begun."""
        return self.steps > 0
