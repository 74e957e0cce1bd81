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
    first: bool = False  # it was not under way before this step
    answered: Answered | None = None  # the answer to the alter
    elected_at: datetime | None = None  # the first request of the election at its end
    election: Answered | None = None  # the last answer to an election
    cancels: int = 0  # requested and not refused
    cancelled_by_operator: bool = False  # since the step began

    @property
    def cancelled(self) -> bool:
        return self.cancels > 0


class Track(msgspec.Struct):
    """One partition of a run."""

    planned: Planned
    number: int  # its place in the plan
    replicas: Brokers  # as the run last knew them, in order: at the start, or after its last step
    original: Brokers  # just before its first request; until then those at its start
    state: State = State.QUEUED
    reason: str = ""
    steps: int = 0
    step: OpenStep | None = None
    batch: int | None = None  # that submitted its last step; in wave mode, the wave
    sent: Brokers | None = None  # asked for by its last alter
    open_alter: bool = False  # the answer to its last alter is pending, or was lost
    unanswered_cancels: int = 0  # of its last step; the answer to a later one settles none of them
    open_nodes: Brokers = ()  # got requests of its last step, and did not answer, where known
    refusals: int = 0  # of its requests by Kafka, in a row
    since: datetime | None = None
    led: int | None = None  # before its first step; None without one, or if not among its replicas
    cancel: CancelKind | None = None  # in place of its target
    under_way: bool = False  # a step was begun since it was last queued
    taken: bool = False  # Kafka accepted an alter since it got its present target
    then: Planned | None = None  # of an extra plan, once the present move is over
    turned: bool = False  # the target is an extra plan's, in place of an earlier one
    intermediate: Brokers = ()  # only an earlier target wanted them: dropped first (KIP-236)
    urgency: Urgency | None = None  # as of its last poll between steps

    @property
    def tp(self) -> TopicPartition:
        return self.planned.tp

    @property
    def target(self) -> Brokers:
        return (self.then or self.planned).target

    @property
    def open_cancel(self) -> bool:
        return self.unanswered_cancels > 0

    @property
    def step_cancelled_by_operator(self) -> bool:
        return self.step is not None and self.step.cancelled_by_operator

    @property
    def held_up_by(self) -> str:
        """What a step in flight waits for, as a broker that is down; a stall if it lasts."""
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
    """Return where a partition goes from `replicas` (with those being added)."""
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
    turned: Brokers = ()  # in place of the first target; empty while that holds

    def towards(self, goal: Brokers, now: Brokers, size: int) -> _Copy:
        """The bytes that the new goal needs come on top of those copied so far."""
        missing = tuple(broker for broker in goal if broker not in now)
        left = len(missing) * size
        whole = self.whole if self.turned == goal else self.done + left
        return _Copy(whole - left, whole, missing, goal)


_NOTHING = _Copy()


class CopyTotals(msgspec.Struct):
    """Bytes to copy and bytes copied, in total; only finished steps count as copied."""

    whole: int = 0  # a partition given up counts with what was copied of it
    done: int = 0
    onto: Counter[int] = msgspec.field(default_factory=Counter)  # replicas yet to receive in full
    topics: Counter[str] = msgspec.field(default_factory=Counter)  # partitions that receive
    of: dict[TopicPartition, _Copy] = {}

    def count(self, track: Track) -> None:
        """What a cancelled partition has copied counts; what its new goal needs comes on top."""
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
