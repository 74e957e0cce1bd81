"""The record of a partition's move, which screens and reports draw."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from operator import attrgetter

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.flows import Flows
from ktui.progress.memory import LaneMemory, MoveMemory, PollMemory
from ktui.speed.answer import Span


class Phase(enum.StrEnum):
    """The phase of a partition's reassignment."""

    SETTLED = "settled"  # no reassignment has been observed: watched for its health
    MOVING = "moving"
    STALLED = "stalled"
    SETTLING = "settling"  # no longer listed; the outcome is uncertain until metadata has settled
    DONE = "done"
    CANCELLED = "cancelled"
    CHANGED_ELSEWHERE = "changed_elsewhere"
    TOPIC_GONE = "topic_gone"  # the topic was deleted, or deleted and recreated under the same name

    @property
    def ended(self) -> bool:
        return self in _ENDED


_ENDED = frozenset({Phase.DONE, Phase.CANCELLED, Phase.CHANGED_ELSEWHERE, Phase.TOPIC_GONE})


class Role(enum.StrEnum):
    """The role of a broker's replica in the partition."""

    ADDING = "adding"
    IN_SYNC = "in sync"
    LEADER = "leader"
    OUT_OF_SYNC = "out of sync"
    RETIRING = "retiring"
    GONE = "gone"


class Cause(enum.StrEnum):
    """Why a replica makes no headway: the most specific cause that the observation shows."""

    TARGET_DOWN = "target broker down"
    LOG_DIR_OFFLINE = "log dir offline"
    KEPT_OUT_OF_SYNC = "kept replica out of ISR"
    """Before Kafka 4.3 this blocks completion although all adding replicas are in sync."""
    NO_LEADER = "no leader"
    THROTTLED = "throttled"
    NOT_FETCHING = "follower not fetching"
    UNKNOWN = "unknown"


HINDRANCES = frozenset({Cause.TARGET_DOWN, Cause.LOG_DIR_OFFLINE, Cause.NO_LEADER})
"""Causes that one poll shows: the replica cannot copy at all, however long it has waited."""


class StallKind(enum.StrEnum):
    """How a replica fails to catch up: two alarms, and a wait that only calls for patience."""

    STALLED = "stalled"  # the adding replica's log end has not moved for max(30 s, 5 polls)
    FALLING_BEHIND = "falling behind"
    """The lag rose for 60 s; or for 15 s as much was written as its throttle lets through."""
    WAITING = "waiting"
    """No alarm: it cannot copy now for a visible reason, such as a broker just down."""


_WORST_FIRST = {kind: place for place, kind in enumerate(StallKind)}


class Stall(msgspec.Struct, frozen=True, gc=False):
    """Why one replica makes no headway, or too little; an alarm unless it is WAITING."""

    kind: StallKind
    cause: Cause
    since_s: float
    broker: int
    detail: str = ""  # after the cause: "broker 9 is down", "2.0 MB/s throttle, 4.1 MB/s in"
    demand: float | None = None

    @property
    def alarm(self) -> bool:
        return self.kind is not StallKind.WAITING

    @property
    def held_up(self) -> bool:
        return self.kind is StallKind.WAITING and self.cause in HINDRANCES


class Mark(enum.IntEnum):
    """One time slot: the mark of its most informative poll; up to 100 a share in percent."""

    NOTHING = 101  # not yet watched, or unknown in this slot
    WAITING = 102
    IN_SYNC = 103
    LEADER = 104
    RETIRING = 105
    OUT_OF_SYNC = 106
    STALLED = 107
    LEADER_MOVED = 108
    CANCELLED = 109
    GONE = 110


class Slots(msgspec.Struct, frozen=True, gc=False):
    """Equal time slots, oldest first, a byte each: a `Mark` or percentage; the last is current."""

    slot_s: float
    end_s: float
    marks: bytes


_POINT = struct.Struct("<dq")


class LagHistory(msgspec.Struct, frozen=True, gc=False):
    """The worst lag of the adding replicas in messages, by monotonic second; thinned as it grows.

    Packed: as tuples, those of a long move of thousands of partitions took most of the memory.
    """

    packed: bytes = b""

    @classmethod
    def of(cls, points: Iterable[tuple[float, int]]) -> LagHistory:
        return cls(b"".join(_POINT.pack(*point) for point in points))

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return _POINT.iter_unpack(self.packed)

    def __len__(self) -> int:
        return len(self.packed) // _POINT.size

    def with_point(self, at_s: float, messages: int, spacing_s: float, most: int) -> LagHistory:
        """Add a point; the last one goes if it is no farther than that from the one before it."""
        packed, size = self.packed, _POINT.size
        if len(self) > 1 and at_s - _POINT.unpack_from(packed, -2 * size)[0] < spacing_s:
            packed = packed[:-size]
        later = LagHistory(packed + _POINT.pack(at_s, messages))
        while len(later) > most:
            *points, last = later
            later = LagHistory.of((*points[::2], last))
        return later


class Lane(msgspec.Struct, frozen=True, gc=False):
    """One broker that has, or had, a replica of the partition."""

    broker: int
    role: Role
    lag_messages: int | None = None
    lag_bytes: int | None = None
    lag_at: datetime | None = None
    share: float | None = None
    approximate: bool = False  # from bytes on disk, not from offsets: drawn with ~
    rate_messages_s: float | None = None
    rate_bytes_s: float | None = None
    left_s: Span | None = None  # seconds until caught up; None when unknown, or never at this rate
    stall: Stall | None = None
    history: Slots | None = None  # the slot's width doubles as the move grows longer
    memory: LaneMemory | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change of a partition, a broker or the observation itself."""

    at: datetime
    what: str
    tp: TopicPartition | None = None
    broker: int | None = None
    severity: int = 0  # 0 news, 1 warning, 2 trouble


def in_time_order(*events: Iterable[Event]) -> list[Event]:
    """Return events of several sources by time; each may be out of order, as its clock was."""
    return sorted(chain.from_iterable(events), key=attrgetter("at"))


class Timeline(msgspec.Struct, frozen=True, gc=False):
    """One partition, from the first poll that saw it moving until now."""

    state: PartitionState
    phase: Phase
    began_at: datetime
    began_s: float
    ended_at: datetime | None
    original: tuple[int, ...]  # in order only if observed before the move
    original_ordered: bool
    target: tuple[int, ...]
    lanes: Mapping[int, Lane]  # in drawing order: original ones, then added ones
    recent: Slots
    lag_history: LagHistory = LagHistory()
    events: tuple[Event, ...] = ()
    inbound_messages_s: float | None = None
    inbound_bytes_s: float | None = None
    seen_from_start: bool = True  # False if the first observation listed it already
    goes_on: bool = False  # the next reassignment is a step of the same move
    memory: MoveMemory | None = None

    @property
    def tp(self) -> TopicPartition:
        return self.state.tp

    @property
    def catching_up(self) -> tuple[Lane, ...]:
        roles = (Role.ADDING, Role.OUT_OF_SYNC)
        return tuple(lane for lane in self.lanes.values() if lane.role in roles)

    @property
    def lag_messages(self) -> int | None:
        return max(
            (x.lag_messages for x in self.catching_up if x.lag_messages is not None), default=None
        )

    @property
    def lag_bytes(self) -> int | None:
        return max((x.lag_bytes for x in self.catching_up if x.lag_bytes is not None), default=None)

    @property
    def rate_bytes_s(self) -> float | None:
        known = [x.rate_bytes_s for x in self.catching_up if x.rate_bytes_s is not None]
        return sum(known) if known else None

    @property
    def left_s(self) -> Span | None:
        """Seconds until the slowest adding (else lagging) replica caught up; None if unknown."""
        adding = [lane for lane in self.catching_up if lane.role is Role.ADDING]
        lefts = [lane.left_s for lane in adding or self.catching_up]
        if not lefts or any(left is None for left in lefts):
            return None
        return max((x for x in lefts if x is not None), key=lambda left: left.middle)

    @property
    def held_up(self) -> bool:
        stall = self.stall
        return stall is not None and stall.held_up

    @property
    def stall(self) -> Stall | None:
        """The worst stall of all lanes: stalled, falling behind, waiting; then the oldest."""
        stalls = [lane.stall for lane in self.lanes.values() if lane.stall is not None]
        return min(stalls, key=lambda x: (_WORST_FIRST[x.kind], x.since_s), default=None)


class Progress(msgspec.Struct, frozen=True):
    """The result of all observations so far; `fold` makes the next one."""

    timelines: Mapping[TopicPartition, Timeline] = msgspec.field(default_factory=dict)
    events: tuple[Event, ...] = ()
    last: Observation | None = None
    flows: Flows = Flows()
    memory: PollMemory | None = None  # private to the fold


SETTLED_POLLS = 3
SETTLED_S = 2.0  # a broker's metadata may lag the controller for hundreds of milliseconds


def judge_outcome(before: Timeline, state: PartitionState, polls: int, seconds: float) -> Phase:
    """Judge whether an unlisted move is done, cancelled or changed; SETTLING while uncertain."""
    if state.replicas == before.target and _unmistakable(before, state):
        return Phase.DONE
    if polls < SETTLED_POLLS or seconds < SETTLED_S:
        return Phase.SETTLING
    if state.replicas == before.target:
        return Phase.DONE
    if set(state.replicas) == set(before.original):
        return Phase.CANCELLED
    return Phase.CHANGED_ELSEWHERE


def completed_between(before: Timeline, state: PartitionState) -> bool:
    """Whether a listed reassignment is the next one, and the known one completed unseen.

    Altering a moving partition makes all its replicas but the newly added ones the new original. So
    an original equal to the old target, in sync, means that the old target had been reached.
    """
    unchanged = state.replicas == before.state.replicas
    if unchanged or not state.described or state.target == before.target:
        return False
    added = set(before.target) - set(before.original)
    return (
        set(state.original) == set(before.target)
        and added.issubset(state.isr)
        and bool(added or set(before.original) - set(before.target))
    )


def recreated(before: PartitionState, now: PartitionState) -> bool:
    """Whether the name now belongs to another topic."""
    return None not in (before.topic_id, now.topic_id) and before.topic_id != now.topic_id


def _unmistakable(before: Timeline, state: PartitionState) -> bool:
    """Whether metadata equal to the target can be neither stale nor from a cancelled move.

    While a move that only adds replicas is under way, `replicas` equals its target: only the ISR
    distinguishes the cases.
    """
    added = set(before.target) - set(before.original)
    changed = set(before.target) != set(before.original) or (
        before.original_ordered and before.target != before.original
    )
    return changed and added.issubset(state.isr)
