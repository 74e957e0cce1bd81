"""The rows of a run's partitions in the list, including partitions that are not polled yet."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.execution.forecast.waits import BETWEEN, Waits
from ktui.execution.host.catalog import Movers, OtherRun
from ktui.execution.run.events import (
    Cancel,
    CancelAsked,
    Elect,
    Joined,
    JournalEntry,
    LimitsChanged,
    PlannedPart,
    Replanned,
    StateEntered,
    StepBegun,
    StepOver,
    UrgencyChanged,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import STAGES, Stage, State, count_stages
from ktui.execution.run.track import Track, find_goal, is_queued, queue_rank
from ktui.execution.time_left.rest import expected_situation
from ktui.pacing.limits import InternalOrder, Limits, Order
from ktui.pacing.situation import Step
from ktui.pacing.steps import all_steps
from ktui.preview.facts import StepPatterns, pattern_of
from ktui.progress.timeline import Mark, Phase, Slots, StallKind, Timeline

_NEVER_POLLED = Slots(slot_s=5.0, end_s=0.0, marks=bytes((Mark.NOTHING,)))
_OF_PARTITION = (Cancel, Elect, StateEntered, UrgencyChanged, Replanned, StepBegun, StepOver)


class QueuePlaces:
    """The partitions in the order in which they begin, and which of them still wait to begin."""

    def __init__(self, tracks: Iterable[Track], limits: Limits) -> None:
        ranked = sorted(tracks, key=lambda track: queue_rank(track, limits))
        self.order = _order_of(limits)
        self._ranked = ranked
        self._index = {track.tp: place for place, track in enumerate(ranked)}
        self._begun = [place for place, track in enumerate(ranked) if not is_queued(track)]
        self._cancelled = sum(track.cancel is not None for track in ranked)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def waiting(self) -> int:
        return len(self._index) - len(self._begun) - self._cancelled_waiting

    @property
    def _cancelled_waiting(self) -> int:
        return self._cancelled - bisect.bisect_left(self._begun, self._cancelled)

    def first(self, count: int) -> list[Track]:
        before = self._cancelled_waiting
        places = range(before + 1, before + min(count, self.waiting) + 1)
        return [self._ranked[self._nth(n)] for n in places]

    def _nth(self, n: int) -> int:
        begun = self._begun
        before = bisect.bisect_left(range(len(begun)), n, key=lambda i: begun[i] - i)
        return before + n - 1

    def note_state(self, track: Track) -> None:
        index = self._index[track.tp]
        at = bisect.bisect_left(self._begun, index)
        known = at < len(self._begun) and self._begun[at] == index
        if known and is_queued(track):
            del self._begun[at]
        elif not known and not is_queued(track):
            self._begun.insert(at, index)

    def index(self, tp: TopicPartition) -> int:
        return self._index[tp]

    def place(self, track: Track) -> int | None:
        """Return how many begin up to a partition, itself included; None for one that has begun."""
        if not is_queued(track):
            return None
        index = self._index[track.tp]
        return index - bisect.bisect_left(self._begun, index) + 1


def _order_of(limits: Limits) -> tuple[Order, InternalOrder]:
    return limits.order, limits.internal


class StepRecord(msgspec.Struct, frozen=True, gc=False):
    """A step that was begun, and its outcome."""

    at: datetime
    begun: StepBegun
    over_at: datetime | None = None
    reached: bool = False
    reason: str = ""


class MovedElsewhere(NamedTuple):
    """How another run has a partition that it moves."""

    run: str
    state: State


def stage_of(track: Track, timeline: Timeline | None) -> Stage:
    """Return the stage of a partition of a run, by its journal and the last poll."""
    if track.state is State.QUEUED and track.under_way:
        return Stage.WAITING
    if track.state is State.ADDING and timeline is not None:
        return stage_of_copy(timeline)
    return STAGES[track.state]


def stage_of_copy(timeline: Timeline) -> Stage:
    """Return the stage of a partition that is adding replicas."""
    stall = timeline.stall
    if timeline.phase is Phase.STALLED:
        return Stage.STALLED
    if stall is not None and stall.held_up:
        return Stage.HELD_UP
    behind = stall is not None and stall.kind is StallKind.FALLING_BEHIND
    return Stage.BEHIND if behind else Stage.COPYING


class ToMove(NamedTuple):
    """How many replicas a run takes off a broker and brings to it, in all and yet to be moved."""

    off: int = 0
    off_left: int = 0
    onto: int = 0
    onto_left: int = 0


class _Counted(NamedTuple):
    """What is counted of a partition; `moves` has the brokers of each figure of `ToMove`."""

    steps_left: int = 0
    moves: tuple[Brokers, ...] = ((),) * 4


_UNCOUNTED = _Counted()


def _moves(track: Track) -> tuple[Brokers, ...]:
    """Return the brokers of each figure of `ToMove`; of what was called off only what is left."""
    here = track.replicas
    if track.state.ended and track.state not in (State.DONE, State.FAILED):
        return _UNCOUNTED.moves
    goal = find_goal(track, here, here, track.led).replicas
    before = track.original if track.cancel is None else here
    off = tuple(broker for broker in before if broker not in goal)
    onto = tuple(broker for broker in goal if broker not in before)
    off_left = tuple(broker for broker in off if broker in here)
    onto_left = tuple(broker for broker in onto if broker not in here)
    return off, off_left, onto, onto_left


class RunRows:
    """The list's figures of a run's partitions, apart from those that polls show."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._places = QueuePlaces((), run.limits)
        self._unpolled: dict[TopicPartition, Timeline] = {}
        self._steps_taken: dict[TopicPartition, tuple[StepRecord, ...]] = {}
        self._patterns = (run.limits, StepPatterns(run.limits))
        self._counted: dict[TopicPartition, _Counted] = {}
        self._alike: dict[_Counted, _Counted] = {}  # one for all partitions of which it is counted
        self._to_move: tuple[Counter[int], ...] = tuple(Counter() for _ in ToMove._fields)
        self._blocked: dict[TopicPartition, str] = {}
        self._block_reasons: Counter[str] = Counter()
        self.cancelled_at: dict[TopicPartition, datetime] = {}
        """When each partition was last cancelled, or queued again for another plan."""
        self.between_steps: dict[TopicPartition, Track] = {}
        self.just_over: frozenset[TopicPartition] = frozenset()
        self.movers: Movers = {}
        self.elsewhere: Mapping[TopicPartition, MovedElsewhere] = {}
        """The partitions that another run has under way, and this one has not."""
        self.waits: Waits | None = None
        self.steps_begun = 0
        self.all_left = 0  # steps yet to begin if all goes well, as of each partition's last change

    def apply_entries(self, entries: Sequence[JournalEntry]) -> set[TopicPartition]:
        touched: set[TopicPartition] = set()
        over = (entry.event for entry in entries if isinstance(entry.event, StepOver))
        self.just_over = frozenset(event.tp for event in over)
        ordered, moved = self._places.order, False
        for entry in entries:
            event = entry.event
            if isinstance(event, _OF_PARTITION):
                touched.add(event.tp)
                moved = moved or isinstance(event, UrgencyChanged)  # its place in the queue changes
                self._note_step(entry)
            elif isinstance(event, CancelAsked | Joined):  # their places in the queue change
                moved = True
                touched.update(event.partitions)
                self.cancelled_at.update(dict.fromkeys(event.partitions, entry.at))
            elif isinstance(event, PlannedPart) or (
                isinstance(event, LimitsChanged) and _order_of(event.new) != ordered
            ):
                touched.update(self.run.tracks)
        moved = moved or len(self._places) != len(self.run.tracks)
        if moved or _order_of(self.run.limits) != ordered:
            self._places = QueuePlaces(self.run.tracks.values(), self.run.limits)
        for tp in touched:
            track = self.run.tracks[tp]
            self._places.note_state(track)
            self._note_blocked(track)
            if track.under_way and track.step is None and track.state in BETWEEN:
                self.between_steps[tp] = track
            else:
                self.between_steps.pop(tp, None)
            self._unpolled[tp] = _unpolled(track, self.run.started_at)
            self._count(track)
        return touched

    def _count(self, track: Track) -> None:
        before = self._counted.get(track.tp, _UNCOUNTED)
        now = _Counted(self.steps_left(track), _moves(track))
        self._counted[track.tp] = self._alike.setdefault(now, now)
        self.all_left += now.steps_left - before.steps_left
        if now.moves != before.moves:
            for counter, old, new in zip(self._to_move, before.moves, now.moves, strict=True):
                counter.subtract(old)
                counter.update(new)

    def to_move(self, broker: int) -> ToMove:
        return ToMove(*(counter[broker] for counter in self._to_move))

    def _note_blocked(self, track: Track) -> None:
        before = self._blocked.pop(track.tp, None)
        if before is not None:
            self._block_reasons[before] -= 1
        if track.state is State.BLOCKED and not track.begun:
            self._blocked[track.tp] = track.reason
            self._block_reasons[track.reason] += 1

    def _note_step(self, entry: JournalEntry) -> None:
        event = entry.event
        if isinstance(event, StepBegun):
            self.steps_begun += 1
            self._steps_taken[event.tp] = (*self.steps_taken(event.tp), StepRecord(entry.at, event))
        elif isinstance(event, StepOver) and (steps_taken := self.steps_taken(event.tp)):
            over = msgspec.structs.replace(
                steps_taken[-1], over_at=entry.at, reached=event.reached, reason=event.reason
            )
            self._steps_taken[event.tp] = (*steps_taken[:-1], over)

    def with_unpolled(
        self, timelines: Mapping[TopicPartition, Timeline]
    ) -> Mapping[TopicPartition, Timeline]:
        return {**self._unpolled, **timelines}

    def unpolled(self, tp: TopicPartition) -> Timeline | None:
        return self._unpolled.get(tp)

    def take_others(self, others: Sequence[OtherRun]) -> set[TopicPartition]:
        before = self.elsewhere
        self.elsewhere = {
            tp: MovedElsewhere(other.name, state)
            for other in others
            for tp, state in other.states.items()
            if not self._has_in_hand(tp)
        }
        every = before.keys() | self.elsewhere.keys()
        return {tp for tp in every if before.get(tp) != self.elsewhere.get(tp)}

    def _has_in_hand(self, tp: TopicPartition) -> bool:
        track = self.track(tp)
        return not (track is None or self.run.ended or track.state is State.FOREIGN)

    def track(self, tp: TopicPartition) -> Track | None:
        return self.run.tracks.get(tp)

    def place(self, track: Track) -> int | None:
        return self._places.place(track)

    def count_stages(self, timelines: Mapping[TopicPartition, Timeline]) -> dict[Stage, int]:
        copying = (t for t in self.run.tracks_in_flight.values() if t.state is State.ADDING)
        copies = Counter(stage_of(track, timelines.get(track.tp)) for track in copying)
        waiting = sum(track.state is State.QUEUED for track in self.between_steps.values())
        return count_stages(self.run.counts, waiting, copies)

    @property
    def queued(self) -> int:
        return self._places.waiting

    def blocked(self, reason: str) -> int:
        return self._block_reasons[reason]

    @property
    def main_block_reason(self) -> str:
        return max(self._block_reasons, key=self._block_reasons.__getitem__, default="")

    def next_to_begin(self, count: int) -> list[Track]:
        tps = (track.tp for track in self._places.first(count))
        return [self.run.tracks[tp] for tp in tps]

    def share_of_queue(self, tp: TopicPartition) -> float:
        return self._places.index(tp) / (1 + len(self._places))

    def steps_taken(self, tp: TopicPartition) -> tuple[StepRecord, ...]:
        return self._steps_taken.get(tp, ())

    def steps_left(self, track: Track) -> int:
        """Count the steps not begun yet, if all goes well under the limits in force."""
        if track.state.ended:
            return 0
        if self._patterns[0] != self.run.limits:
            self._patterns = (self.run.limits, StepPatterns(self.run.limits))
        now = expected_situation(track)
        # patterns know only targets whose first replica leads
        if now.lead not in (None, *now.target[:1]):
            return len(all_steps(now, self.run.limits))
        return len(self._patterns[1].steps(pattern_of(now)[0]))


def steps_to_come(track: Track, limits: Limits) -> list[Step]:
    """Return the steps not begun yet, if all goes well under these limits."""
    return [] if track.state.ended else all_steps(expected_situation(track), limits)


def _unpolled(track: Track, since: datetime | None) -> Timeline:
    goes_to = find_goal(track, track.replicas, track.replicas, None)
    return Timeline(
        state=PartitionState(
            tp=track.tp,
            topic_id=track.planned.topic_id,
            replicas=track.replicas,
            isr=(),
            leader=None,
            described=False,
        ),
        phase=Phase.SETTLED,
        began_at=since or datetime.now(UTC),
        began_s=0.0,
        ended_at=None,
        original=track.original,
        original_ordered=True,
        target=goes_to.replicas,
        lanes={},
        recent=_NEVER_POLLED,
    )
