"""One partition of a run and its step in flight, folded from its events."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import Answered, Planned, StepBegun
from ktui.execution.run.states import STAGES, Stage, State
from ktui.pacing.situation import Urgency


class OpenStep(msgspec.Struct):
    """A step that was sent, or is about to be sent, and is not over."""

    begun: StepBegun
    at: datetime
    first: bool = False
    """Whether the partition was not under way before this step."""
    answered: Answered | None = None
    """The answer to the alter; None until there is one."""
    elected_at: datetime | None = None
    """When the first election at the step's end was requested."""
    election: Answered | None = None
    """The last answer to an election."""
    cancels: int = 0
    """How many cancels of the step were requested and not refused."""
    cancelled_by_operator: bool = False
    """Whether an operator has cancelled the partition since the step began."""

    @property
    def cancelled(self) -> bool:
        """Whether a cancel of the step by the run may have taken effect."""
        return self.cancels > 0


class Track(msgspec.Struct):
    """One partition of a run."""

    planned: Planned
    number: int
    """The partition's place in the plan."""
    replicas: Brokers
    """The replicas in order as the run last knew them: before the run, or after its last step."""
    original: Brokers
    """The replicas just before the run's first request for it; until then those at its start."""
    state: State = State.QUEUED
    reason: str = ""
    steps: int = 0
    """How many steps were begun."""
    step: OpenStep | None = None
    batch: int | None = None
    """The decision that submitted its last step; in wave mode, the wave."""
    sent: Brokers | None = None
    """The replicas that its last alter asked for."""
    open_alter: bool = False
    """Whether the answer to its last alter is pending, or was lost."""
    unanswered_cancels: int = 0
    """The cancels of its last step whose answers are pending, or were lost. The answer to a later
    one settles none of them."""
    open_nodes: Brokers = ()
    """The brokers that got requests of its last step and did not answer, where known."""
    refusals: int = 0
    """How often in a row Kafka has refused its requests."""
    since: datetime | None = None
    """When the partition entered its state."""
    led: int | None = None
    """The leader before its first step; None without one, or if that was none of its replicas."""
    cancel: CancelKind | None = None
    """The operator's cancel, in place of its target."""
    under_way: bool = False
    """Whether a step was begun since the partition was last queued."""
    taken: bool = False
    """Whether Kafka has accepted an alter since the partition got its present target."""
    then: Planned | None = None
    """The wish of an extra plan, to follow once the present move is over."""
    turned: bool = False
    """Whether the target is that of an extra plan, in place of an earlier one."""
    intermediate: Brokers = ()
    """Replicas that only an earlier target wanted: they are dropped first (KIP-236)."""
    urgency: Urgency | None = None
    """Why it goes before the others, as of its last poll between steps; None if it does not."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.planned.tp

    @property
    def target(self) -> Brokers:
        """The final target by the plans; an operator may have cancelled it."""
        return (self.then or self.planned).target

    @property
    def open_cancel(self) -> bool:
        """Whether a cancel of its last step may still take effect, as far as answers show."""
        return self.unanswered_cancels > 0

    @property
    def step_cancelled_by_operator(self) -> bool:
        """Whether the step in flight was cancelled by an operator since it began."""
        return self.step is not None and self.step.cancelled_by_operator

    @property
    def held_up_by(self) -> str:
        """What a step in flight waits for, as a broker that is down; empty for nothing.

        It is a stall only once it has lasted.
        """
        return self.reason if STAGES[self.state] is Stage.COPYING else ""

    @property
    def begun(self) -> bool:
        """Whether a step of the partition was ever begun."""
        return self.steps > 0


def new_track(planned: Planned, number: int, at: datetime) -> Track:
    """Return a partition as it is before the run's first step."""
    original = planned.original
    led = planned.leader if planned.leader in original else None
    return Track(planned, number, original, original, since=at, led=led)
