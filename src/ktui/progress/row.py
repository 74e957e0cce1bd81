"""A partition as a whole: its word, its mark, its curves and rates in slots of time, its JSON."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Container, Mapping
from operator import attrgetter

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.json_text import utc
from ktui.progress.timeline import LagHistory, Lane, Mark, Phase, Role, Slots, StallKind, Timeline

RECENT_SLOT_S = 5.0
RECENT_SLOTS = 120
HISTORY_SLOTS = 240
HISTORY_SLOT_S = 1.0

MOMENTS = frozenset({Mark.LEADER_MOVED, Mark.CANCELLED})
_STICKY = frozenset({Mark.STALLED, *MOMENTS})
_NOTHING = int(Mark.NOTHING)


class Grid(msgspec.Struct, frozen=True, gc=False):
    """The slot of a moment in a row of slots."""

    slot_s: float
    index: int
    end_s: float


def recent_grid(now_s: float) -> Grid:
    """Return the grid of `Timeline.recent`: the same for all partitions, so that rows line up."""
    index = math.floor(now_s / RECENT_SLOT_S)
    return Grid(RECENT_SLOT_S, index, (index + 1) * RECENT_SLOT_S)


def history_grid(began_s: float, now_s: float) -> Grid:
    """Return the grid of a move's histories: as fine as HISTORY_SLOTS slots allow."""
    passed_s = max(0.0, now_s - began_s)
    slot_s = HISTORY_SLOT_S
    while passed_s >= slot_s * HISTORY_SLOTS:
        slot_s *= 2.0
    index = math.floor(passed_s / slot_s)
    return Grid(slot_s, index, began_s + (index + 1) * slot_s)


def start_slots(grid: Grid, mark: int) -> Slots:
    """Start a row whose last slot is the grid's."""
    return Slots(slot_s=grid.slot_s, end_s=grid.end_s, marks=bytes((mark,)))


def extend_recent(slots: Slots, grid: Grid, mark: int, *, gap: bool) -> Slots:
    """Extend `recent` to the grid's slot; slots older than its window fall off."""
    ahead = round((grid.end_s - slots.end_s) / grid.slot_s)
    marks = _extended(slots.marks, ahead, mark, gap=gap, most=RECENT_SLOTS)
    if ahead <= 0 and marks is slots.marks:
        return slots
    end_s = grid.end_s if ahead > 0 else slots.end_s
    return Slots(slot_s=grid.slot_s, end_s=end_s, marks=marks[-RECENT_SLOTS:])


def extend_history(slots: Slots | None, grid: Grid, mark: int, *, gap: bool) -> Slots:
    """Extend a lane's history to the grid's slot, halving its resolution as often as the grid."""
    if slots is None:
        marks = bytes((_NOTHING,)) * grid.index + bytes((mark,))
        return Slots(slot_s=grid.slot_s, end_s=grid.end_s, marks=marks)
    marks = slots.marks
    width_s = slots.slot_s
    while width_s < grid.slot_s:
        marks = _halved(marks)
        width_s *= 2.0
    ahead = grid.index + 1 - len(marks)
    marks = _extended(marks, ahead, mark, gap=gap, most=HISTORY_SLOTS)
    if marks is slots.marks:
        return slots
    return Slots(slot_s=grid.slot_s, end_s=grid.end_s, marks=marks)


def _extended(marks: bytes, ahead: int, mark: int, *, gap: bool, most: int) -> bytes:
    if ahead == 1:
        return marks + bytes((mark,))
    if ahead > 1:
        between = _NOTHING if gap else _between(marks[-1], mark)
        return marks + bytes((between,)) * min(ahead - 1, most) + bytes((mark,))
    last = marks[-1]
    merged = last if last == mark else merge_marks(last, mark)
    return marks if merged == last else marks[:-1] + bytes((merged,))


def _between(last: int, mark: int) -> int:
    """Return the mark for slots that a slow poll skipped; marks of a moment are not repeated."""
    if mark not in MOMENTS:
        return mark
    return last if last not in MOMENTS else _NOTHING


def _halved(marks: bytes) -> bytes:
    pairs = bytes(map(merge_marks, marks[::2], marks[1::2]))
    return pairs + marks[-1:] if len(marks) % 2 else pairs


def merge_marks(earlier: int, later: int) -> int:
    """Return the one of a slot's two marks to show: trouble and moments stay, else the later."""
    if earlier in _STICKY and (later not in _STICKY or earlier > later):
        return earlier
    return earlier if later == _NOTHING else later


FOREIGN = "foreign"


def state_word(timeline: Timeline, ours: Container[TopicPartition] | None) -> str:
    """Return `stalled`, else `foreign` for moves outside `ours` (None: no run), else the phase."""
    if timeline.phase is Phase.STALLED:
        return Phase.STALLED.value
    if ours is not None and timeline.phase is not Phase.SETTLED and timeline.tp not in ours:
        return FOREIGN
    return timeline.phase.value


LAG_POINTS = 240


def mark(state: PartitionState, phase: Phase, lanes: Mapping[int, Lane]) -> int:
    """Return the mark of one moment: trouble, else the share of the replica farthest behind."""
    if phase is Phase.TOPIC_GONE:
        return Mark.GONE
    if phase is Phase.STALLED:
        return Mark.STALLED
    adding = [lane.share for lane in lanes.values() if lane.role is Role.ADDING]
    if adding:
        known = [share for share in adding if share is not None]
        return int(min(known) * 100) if known else Mark.NOTHING
    if not state.described:
        return Mark.NOTHING
    healthy = state.leader is not None and not state.out_of_sync
    return Mark.IN_SYNC if healthy else Mark.OUT_OF_SYNC


def next_mark(
    before: Timeline, state: PartitionState, phase: Phase, lanes: Mapping[int, Lane]
) -> int:
    """Return the mark of a fold: a change since the last one goes before the current state."""
    if phase in (Phase.CANCELLED, Phase.CHANGED_ELSEWHERE) and not before.phase.ended:
        return Mark.CANCELLED
    was, now = before.state.leader, state.leader
    if was is not None and now is not None and was != now:
        return Mark.LEADER_MOVED
    return mark(state, phase, lanes)


def lag_history(
    points: LagHistory, lanes: Mapping[int, Lane], now_s: float, spacing_s: float
) -> LagHistory:
    """Append the worst lag of the adding replicas, in messages; thinned to `spacing_s`."""
    worst = max(
        (
            lane.lag_messages
            for lane in lanes.values()
            if lane.role is Role.ADDING and lane.lag_messages is not None
        ),
        default=None,
    )
    if worst is None:
        return points
    return points.with_point(now_s, worst, spacing_s, LAG_POINTS)


class LagJson(msgspec.Struct, frozen=True):
    """The lag of one replica behind its leader; null for unknown values."""

    broker: int
    messages: int | None
    bytes: int | None
    at: str | None


class PartitionJson(msgspec.Struct, frozen=True):
    """One partition. `batch` and `step` are null unless a run of ktui moves it."""

    topic: str
    topic_id: str | None
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None
    leader: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    target: tuple[int, ...]
    original: tuple[int, ...]
    lag: tuple[LagJson, ...]
    rate_bytes_s: float | None
    left_s: float | None
    batch: int | None
    step: int | None
    state: str


def partition_json(timeline: Timeline) -> PartitionJson:
    """Return the JSON form of one partition."""
    state, left = timeline.state, timeline.left_s
    return PartitionJson(
        topic=state.tp.topic,
        topic_id=state.topic_id,
        partition=state.tp.partition,
        replicas=state.replicas,
        isr=state.isr if state.described else None,
        leader=state.leader,
        adding=state.adding,
        removing=state.removing,
        target=timeline.target,
        original=timeline.original,
        lag=tuple(_lag_json(lane) for lane in timeline.catching_up),
        rate_bytes_s=timeline.rate_bytes_s,
        left_s=None if left is None else left.middle,
        batch=None,
        step=None,
        state=state_word(timeline, None),
    )


def _lag_json(lane: Lane) -> LagJson:
    at = None if lane.lag_at is None else utc(lane.lag_at)
    return LagJson(lane.broker, lane.lag_messages, lane.lag_bytes, at)


MOST_SAMPLES = 480
MOST_PARTITIONS = 8
_SECOND = attrgetter("at_s")
_BEHIND = StallKind.FALLING_BEHIND


class RateSample(msgspec.Struct, frozen=True, gc=False):
    """The rates of a partition at one poll, in bytes a second; None where unknown."""

    at_s: float
    copied_s: float | None
    written_s: float | None
    in_sync: int | None  # replicas in the ISR


class RateMemory:
    """The samples of one partition, oldest first; twice as far apart each time they are many."""

    def __init__(self) -> None:
        self._samples: list[RateSample] = []
        self._apart_s = 0.0

    def note(self, timeline: Timeline, now_s: float) -> None:
        """Add a poll; one of an earlier time, of a recording, drops those after it."""
        samples, state = self._samples, timeline.state
        del samples[bisect_left(samples, now_s, key=_SECOND) :]
        if len(samples) > 1 and now_s - samples[-2].at_s < self._apart_s:
            samples.pop()  # the newest one stands in for those to come
        in_sync = len(state.isr) if state.described else None
        copied_s = None if timeline.phase.ended else timeline.rate_bytes_s
        stopped_s = _stopped_since(timeline)
        if stopped_s is not None:  # an average lasts longer than what it is made of
            copied_s = 0.0
            self._stop(stopped_s)
        samples.append(RateSample(now_s, copied_s, timeline.inbound_bytes_s, in_sync))
        if len(samples) > MOST_SAMPLES:
            del samples[1:-1:2]
            self._apart_s = max(1.0, 2.0 * self._apart_s)

    def _stop(self, since_s: float) -> None:
        for place in range(len(self._samples) - 1, -1, -1):
            sample = self._samples[place]
            if sample.at_s <= since_s:
                break
            if sample.copied_s:
                self._samples[place] = msgspec.structs.replace(sample, copied_s=0.0)

    def last_before(self, at_s: float, within_s: float) -> RateSample | None:
        """Return the last sample before a moment; None if it is older than `within_s`."""
        place = bisect_left(self._samples, at_s, key=_SECOND) - 1
        found = self._samples[place] if place >= 0 else None
        return None if found is None or at_s - found.at_s > within_s else found


def _stopped_since(timeline: Timeline) -> float | None:
    """Return the second since when no replica copies; None where one does, or might."""
    stalls = [lane.stall for lane in timeline.catching_up]
    if not stalls or any(each is None or each.kind is _BEHIND for each in stalls):
        return None
    return max(each.since_s for each in stalls if each is not None)


class OpenPartitions:
    """The memories of the few partitions that were open last: more than timelines remember."""

    def __init__(self) -> None:
        self._memories: OrderedDict[TopicPartition, RateMemory] = OrderedDict()

    def memory(self, tp: TopicPartition) -> RateMemory:
        memory = self._memories.pop(tp, None) or RateMemory()
        self._memories[tp] = memory
        if len(self._memories) > MOST_PARTITIONS:
            self._memories.popitem(last=False)
        return memory
