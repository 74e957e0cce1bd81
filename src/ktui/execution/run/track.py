"""One partition of a run, and its step in flight: the fold of the events about it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import Answered, Planned, StepBegun
from ktui.execution.run.states import State


class OpenStep(msgspec.Struct):
    """A step that was sent, or is about to be, and is not over."""

    begun: StepBegun
    at: datetime
    first: bool = False
    """Whether nothing of the partition was under way before it."""
    answered: Answered | None = None
    """The answer to the alter; None while nothing came back."""
    elected_at: datetime | None = None
    """When the first election at its end was asked for."""
    election: Answered | None = None
    """The last answer to an election."""
    cancels: int = 0
    """How many cancels of it were asked for, and were not refused."""
    called_off: bool = False
    """Whether an operator has called it off since."""

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
    open_alter: bool = False
    """Whether the answer to it has not come, or was lost."""
    open_cancel: bool = False
    """Whether the answer to a cancel has not come, or was lost."""
    open_nodes: Brokers = ()
    """The brokers that requests of its last step went to and did not answer, where known."""
    refusals: int = 0
    """How often in a row Kafka has refused a request of it."""
    since: datetime | None = None
    """When it came into its state."""
    led: int | None = None
    """Who led it before its first step; None where nobody did, or no replica of it."""
    cancel: CancelKind | None = None
    """What an operator has asked for in place of its target."""
    under_way: bool = False
    """Whether a step was begun since it was last queued."""
    then: Planned | None = None
    """What an extra plan wants of it, once what the run does with it now is over."""
    turned: bool = False
    """Whether its target is that of an extra plan, in place of one that it had."""
    intermediate: Brokers = ()
    """Replicas that only an earlier target wanted: they are dropped first (KIP-236)."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.planned.tp

    @property
    def target(self) -> Brokers:
        """What the plans want of it in the end; an operator may have called that off."""
        return (self.then or self.planned).target

    @property
    def step_called_off(self) -> bool:
        """Whether a step is in flight that an operator has called off since it began."""
        return self.step is not None and self.step.called_off

    @property
    def begun(self) -> bool:
        """Whether a step of it was ever begun."""
        return self.steps > 0


def first_track(planned: Planned, number: int, at: datetime) -> Track:
    """Give a partition as the run finds it."""
    original = planned.original
    led = planned.leader if planned.leader in original else None
    return Track(planned, number, original, original, since=at, led=led)
