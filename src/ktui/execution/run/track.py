"""One partition of a run: its step in flight, where it is heading, and what it copies."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.events import Answered, Planned, StepBegun
from ktui.execution.run.states import STAGES, CancelKind, Stage, State
from ktui.pacing.limits import InternalOrder, Limits, Order
from ktui.pacing.queue import Precedence, Rank, first_by, usual_precedence
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
        return self.steps > 0


def new_track(planned: Planned, number: int, at: datetime) -> Track:
    """Return a partition as it is before the run's first step."""
    original = planned.original
    led = planned.leader if planned.leader in original else None
    return Track(planned, number, original, original, since=at, led=led)


class Goal(msgspec.Struct, frozen=True):
    """Replicas in order, and the leader to end with; None for the first replica."""

    replicas: Brokers
    lead: int | None = None


def find_goal(
    track: Track,
    replicas: Brokers,
    isr: Brokers,
    leader: int | None,
    closed: frozenset[int] = frozenset(),
) -> Goal:
    """Return the replicas that a partition is heading for from its present ones.

    Args:
        replicas: its present replicas in order; during a reassignment, with those being added.
        closed: cordoned brokers that no target may name.
    """
    match track.cancel:
        case None:
            return Goal(track.planned.target)
        case CancelKind.ROLLBACK:
            return Goal(track.original, track.led)
        case CancelKind.TRIM:
            kept = trimmed_replicas(replicas, isr, leader, track.original, closed)
            return Goal(kept, leader if leader in kept else None)
        case CancelKind.STOP:
            return Goal(replicas, leader)


def goal_text(kind: CancelKind | None) -> str:
    """Name the goal of a partition with such a cancel, or with none."""
    return "original replicas" if kind is CancelKind.ROLLBACK else "target"


def trimmed_replicas(
    replicas: Brokers,
    isr: Brokers,
    leader: int | None,
    original: Brokers,
    closed: frozenset[int] = frozenset(),
) -> Brokers:
    """Return as many replicas as there were originally.

    Of the brokers that a target may name, the leader is kept first, then replicas in sync, then
    original ones. They stand in their original order, with any other after them. A leader that is
    not an original replica stands first: else Kafka's own rebalancing would take the leadership
    from it.
    """
    if len(replicas) <= len(original):
        return replicas

    def drop_order(broker: int) -> tuple[bool, ...]:
        return broker in closed, broker != leader, broker not in isr, broker not in original

    kept = set(sorted(replicas, key=drop_order)[: len(original)])
    first = (leader,) if leader in kept and leader not in original else ()
    ordered = dict.fromkeys((*first, *original, *replicas))
    return tuple(broker for broker in ordered if broker in kept)


class _Copy(msgspec.Struct, frozen=True, gc=False):
    done: int = 0
    whole: int = 0
    missing: Brokers = ()
    turned: Brokers = ()
    """The goal in place of the first target; empty while the first target holds."""

    def towards(self, goal: Brokers, now: Brokers, size: int) -> _Copy:
        """Return the copy after a change of goal.

        The bytes that the new goal needs come on top of those copied so far.
        """
        missing = tuple(broker for broker in goal if broker not in now)
        left = len(missing) * size
        whole = self.whole if self.turned == goal else self.done + left
        return _Copy(whole - left, whole, missing, goal)


_NOTHING = _Copy()


class CopyTotals(msgspec.Struct):
    """Bytes to copy and bytes copied, in total; only finished steps count as copied."""

    whole: int = 0
    """Bytes to copy. A partition that is given up counts with what the run has copied of it."""
    done: int = 0
    """Bytes copied."""
    onto: Counter[int] = msgspec.field(default_factory=Counter)
    """How many replicas each broker has yet to receive in full."""
    topics: Counter[str] = msgspec.field(default_factory=Counter)
    """How many partitions of each topic still receive replicas."""
    of: dict[TopicPartition, _Copy] = {}

    def count(self, track: Track) -> None:
        """Recount a partition after a change of its state.

        A cancelled partition counts with the bytes copied so far. The bytes that it needs to go
        back to its original replicas, or on to an extra plan's target, come on top.
        """
        planned, now = track.planned, track.replicas
        before = self.of.get(planned.tp, _NOTHING)
        if track.cancel is CancelKind.ROLLBACK and not track.state.ended:
            copy = before.towards(track.original, now, planned.size)
        elif track.cancel is not None or (track.state.ended and track.state is not State.DONE):
            copy = _Copy(before.done, before.done)
        elif track.turned:
            copy = before.towards(planned.target, now, planned.size)
        else:
            added = [broker for broker in planned.target if broker not in track.original]
            missing = tuple(b for b in added if track.state is not State.DONE and b not in now)
            done = (len(added) - len(missing)) * planned.size
            copy = _Copy(done, len(added) * planned.size, missing)
        self.of[planned.tp] = copy
        self._tally(before, -1, planned.topic)
        self._tally(copy, 1, planned.topic)

    def _tally(self, copy: _Copy, sign: int, topic: str) -> None:
        self.done += sign * copy.done
        self.whole += sign * copy.whole
        for broker in copy.missing:
            self.onto[broker] += sign
        if copy.missing:
            self.topics[topic] += sign


def is_queued(track: Track) -> bool:
    """Whether a partition waits to begin, or to begin what a cancel asks for."""
    is_cancelled = track.cancel is not None and track.state in (State.ROLLING_BACK, State.STOPPING)
    return not track.under_way and (track.state is State.QUEUED or is_cancelled)


def queue_rank(track: Track, limits: Limits) -> Rank:
    """Rank a partition as the engine does: cancelled and urgent ones first, then by run order."""
    precedence = _precedence(track, limits.internal)
    if limits.order is Order.PLAN:
        return (precedence, track.number, "", 0)
    first = first_by(limits.order, size=track.planned.size, ahead=track.planned.ahead)
    return (precedence, first, track.tp.topic, track.tp.partition)


def _precedence(track: Track, internal: InternalOrder) -> Precedence:
    if track.cancel is not None:
        return Precedence.CALLED_OFF
    if track.urgency is not None:
        return Precedence.URGENT
    return usual_precedence(track.tp.topic, internal)
