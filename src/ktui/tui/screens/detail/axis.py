"""What the lanes of a partition are drawn of: their axis of time, their replicas, figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import msgspec
from rich.cells import cell_len

from ktui.cluster.observation import Observation
from ktui.cluster.settings import list_includes
from ktui.columns import Column
from ktui.execution.run.states import CancelKind
from ktui.execution.run.track import Track
from ktui.pacing.situation import Step
from ktui.progress.timeline import Event, Lane, Mark, Phase, Role, Slots, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import (
    CANCEL_SIGNS,
    DROPPED,
    Cell,
    Piece,
    SignAt,
    Window,
    cell_seconds,
    cut_pieces,
)
from ktui.tui.draw.paint import RowColumn
from ktui.tui.run_view.rows import StepRecord
from ktui.tui.screens.watch.rule import NOW, time_axis
from ktui.tui.screens.watch.words import RowContext, WaitingWords

_SHORT_S = (
    0.25,
    0.375,
    0.5,
    0.75,
)  # seconds of a cell while a move is young, so that it fills the width
_LEAST_FORECAST = 6  # cells: fewer have room for no stroke worth drawing
_FORECAST_PART = 4  # the forecast has one cell of so many, at most
_BEGUN = Cell("│", "header")
_STEP_DONE = Cell("·", "dim")
_EXPECTED = Cell("│", "dim")
_TO_DROP = DROPPED._replace(role="dim")
NOW_LINE = Cell("║", "dim")
_NOTHING = Cell("", "dim")
_APART = 2  # cells between two names, at least


class RunDetail(NamedTuple):
    """What the run knows about the partition."""

    name: str
    track: Track
    steps_taken: Sequence[StepRecord]
    steps_to_come: Sequence[Step]
    events: Sequence[Event]
    waits: WaitingWords | None = None
    stalled_s: float | None = None
    sign: SignAt | None = None

    @property
    def began_at(self) -> datetime | None:
        return self.steps_taken[0].at if self.steps_taken else None

    @property
    def ended_at(self) -> datetime | None:
        if not self.track.state.ended:
            return None
        return self.steps_taken[-1].over_at if self.steps_taken else self.track.since


class Subject(NamedTuple):
    """A partition as of the last poll, with what is known beside its timeline."""

    timeline: Timeline
    observation: Observation
    context: RowContext
    of_run: RunDetail | None = None
    stale: bool = False  # the cluster does not answer, or the partition is not polled any more

    @property
    def ended_at(self) -> datetime | None:
        """When its move ended, not one of the steps of its run."""
        if self.of_run is not None:
            return self.of_run.ended_at
        return self.timeline.ended_at if self.timeline.phase.ended else None

    @property
    def end_s(self) -> float:
        """When the picture ends: now, or once a poll has seen the end of the move."""
        now_s, ended_at = self.observation.monotonic_s, self.ended_at
        lanes = self.timeline.lanes.values()
        slots_s = (lane.history.slot_s for lane in lanes if lane.history is not None)
        return (
            now_s
            if ended_at is None
            else min(now_s, self.second_of(ended_at) + max(slots_s, default=0.0))
        )

    def second_of(self, at: datetime) -> float:
        return self.observation.monotonic_s - (self.observation.at - at).total_seconds()

    @property
    def begins_s(self) -> float:
        """Return when the first step or the move began, as far as anybody knows."""
        began_at = None if self.of_run is None else self.of_run.began_at
        seen = [each.history for each in self.timeline.lanes.values() if each.history is not None]
        if began_at is not None:
            return min(self.second_of(began_at), self.end_s)
        if self.of_run is not None and self.of_run.track.since is not None:
            return min(self.second_of(self.of_run.track.since), self.end_s)
        first_s = [slots.end_s - slots.slot_s * len(slots.marks) for slots in seen]
        return min([self.end_s, *first_s])

    @property
    def expected_s(self) -> float | None:
        """When the copies under way are expected to have caught up; None without a forecast."""
        timeline = self.timeline
        alarm = timeline.stall is not None and timeline.stall.alarm
        if self.stale or timeline.phase is not Phase.MOVING or alarm or timeline.left_s is None:
            return None
        return self.observation.monotonic_s + timeline.left_s.middle


class Axis(msgspec.Struct, frozen=True):
    """Cells of time: so many up to now, or to the end of the move, and so many to come."""

    window: Window
    past: int
    coming: int
    end_at: datetime
    goes_on: bool  # its last cell is now

    @classmethod
    def over(cls, subject: Subject, width: int, zoom: float | None) -> Axis:
        coming = 0 if subject.expected_s is None else width // _FORECAST_PART
        coming = coming if coming >= _LEAST_FORECAST else 0
        seconds = subject.end_s - subject.begins_s
        seconds = max(0.0, min(seconds, math.inf if zoom is None else zoom))
        past = max(1, width - coming)
        short = (each for each in _SHORT_S if each * (past - 1) >= seconds)
        window = Window(subject.end_s, next(short, None) or cell_seconds(seconds, past))
        ended_at = subject.ended_at
        end_at = subject.observation.at if ended_at is None else ended_at
        return cls(window, past, coming, end_at, ended_at is None and not subject.stale)

    @property
    def width(self) -> int:
        return self.past + self.coming

    def place(self, at_s: float) -> int:
        return self.window.place(at_s, self.past)

    def second(self, cell: int) -> float:
        """Return the middle of a cell."""
        return (self.window.first(self.past) + cell + 0.5) * self.window.cell_s

    def time(self, at_s: float) -> datetime:
        return self.end_at - timedelta(seconds=self.window.now_s - at_s)

    def heading(self) -> str:
        """Return the times of the cells, and what those to come are."""
        last = NOW if self.goes_on else figures.as_time(self.end_at)
        text = time_axis(self.window, self.past, self.end_at, last)
        forecast = f"{NOW_LINE.glyph}forecast" if self.coming else ""
        return f"{text}{forecast:<{self.coming}}"


class Boundary(NamedTuple):
    """A moment that all lanes share, with its sign, and its names from the longest one."""

    at_s: float
    cell: Cell
    names: tuple[str, ...]
    crosses: bool = True  # a line through all lanes


def what_a_step_does(adding: Sequence[int], dropping: Sequence[int], elect: int | None) -> str:
    """Return it in words: `adds 5, drops 3`."""
    parts = [
        f"adds {' '.join(map(str, adding))}" if adding else "",
        f"drops {' '.join(map(str, dropping))}" if dropping else "",
        "" if elect is None else f"elects {elect}",
    ]
    return ", ".join(filter(None, parts)) or "puts them in order"


def boundaries(subject: Subject, axis: Axis) -> list[Boundary]:
    """Return what happened at a moment, later ones over earlier ones, and what is expected."""
    found = _of_run(subject, axis) if subject.of_run is not None else _of_move(subject)
    return [*found, *_expected(subject, axis)]


def _of_run(subject: Subject, axis: Axis) -> list[Boundary]:
    of_run = subject.of_run
    found: list[Boundary] = []
    records = () if of_run is None else of_run.steps_taken
    begins = [*(subject.second_of(each.at) for each in records), math.inf]
    for number, (record, (at_s, next_s)) in enumerate(
        zip(records, pairwise(begins), strict=True), 1
    ):
        begun = record.begun
        step = f"step {number}"
        what = f"{step}: {what_a_step_does(begun.adding, begun.removing, begun.elect)}"
        names = (f"batch {begun.batch:,}, {what}", what, step, f"{number}")
        found.append(Boundary(at_s, _BEGUN, names))
        over_s = math.inf if record.over_at is None else subject.second_of(record.over_at)
        if record.over_at is None or next_s - over_s < axis.window.cell_s:
            continue
        if not record.reached:
            found.append(Boundary(over_s, _BEGUN, (f"{step} given up", "given up")))
        elif begun.removing:
            dropped = " ".join(map(str, begun.removing))
            found.append(Boundary(over_s, DROPPED, (f"{dropped} dropped", "dropped")))
        else:
            done = (f"{step} done", "done")
            found.append(Boundary(over_s, _STEP_DONE, done, crosses=False))
    if of_run is not None and of_run.sign is not None and of_run.track.cancel is not None:
        sign, kind = of_run.sign, of_run.track.cancel.value
        found.append(Boundary(sign.at_s, sign.cell, (f"{kind} requested", kind)))
    return found


def _of_move(subject: Subject) -> list[Boundary]:
    timeline = subject.timeline
    if timeline.phase is Phase.SETTLED:
        return []
    names = ("begun",) if timeline.seen_from_start else ("first seen, begun before", "first seen")
    found = [Boundary(timeline.began_s, _BEGUN, names)]
    if timeline.ended_at is not None and timeline.phase.ended:
        sign = CANCEL_SIGNS[CancelKind.STOP] if timeline.phase is Phase.CANCELLED else DROPPED
        words = timeline.phase.value.replace("_", " ")
        found.append(Boundary(subject.second_of(timeline.ended_at), sign, (words,)))
    return found


def _expected(subject: Subject, axis: Axis) -> Iterator[Boundary]:
    at_s = subject.expected_s
    if at_s is None or not axis.coming:
        return
    coming = () if subject.of_run is None else subject.of_run.steps_to_come[:1]
    then = [what_a_step_does(each.adds, each.drops, each.elects) for each in coming]
    if axis.place(at_s) >= axis.width:
        left = figures.as_duration(at_s - subject.observation.monotonic_s)
        beyond = (f"caught up in {left} →", f"{left} →")
        yield Boundary(axis.second(axis.past), NOW_LINE, beyond, crosses=False)
        return
    about = figures.as_time(axis.time(at_s))
    followed = [f"caught up, then {each}" for each in then]
    names = (*(f"{about}: {each}" for each in followed), *followed, *then)
    drops = any(each.drops for each in coming) or subject.timeline.state.removing
    cell = _TO_DROP if drops else _EXPECTED
    yield Boundary(at_s, cell, (*names, f"{about}: caught up", "caught up"))


def captions(axis: Axis, named: Iterable[Boundary]) -> list[Piece]:
    """Name the boundaries in one line, the newest first: each as long as there is room for."""
    line = [_NOTHING] * axis.width
    shown = [each for each in reversed(list(named)) if 0 <= axis.place(each.at_s) < axis.width]
    shown.sort(key=lambda each: (each.at_s > axis.window.now_s, -axis.place(each.at_s)))
    for each in reversed(shown):
        line[axis.place(each.at_s)] = each.cell
    for each in shown:
        place = axis.place(each.at_s)
        role = "dim" if place >= axis.past else "header"
        for name in each.names:
            start = _room_for(line, place, len(name) + 1)
            if start is not None:
                text = f"{name} " if start < place else f" {name}"
                line[start : start + len(text)] = [Cell(glyph, role) for glyph in text]
                break
    return [Piece(glyph or " ", role) for glyph, role in line]


def _room_for(line: Sequence[Cell], place: int, cells: int) -> int | None:
    """Return where a text of so many cells may begin: to the right of a place, or to its left."""
    for start in (place + 1, place - cells):
        left, right = start - _APART * (start < place), start + cells + _APART * (start > place)
        around = line[max(0, left) : right]
        if start >= 0 and start + cells <= len(line) and not any(cell.glyph for cell in around):
            return start
    return None


_FLAT = 0.9


class Curve(NamedTuple):
    """A figure over time: its value in each cell, and the value at full height."""

    name: str
    values: Sequence[float | None]
    top: float
    text: Callable[[float | None], str]
    now: str
    role: str = "moving"
    measured_from: int = 0  # the cell before which values are computed
    unseen: int = 0  # the first cells, of which nobody knows what was there

    @property
    def peak(self) -> float:
        return highest(self.values)

    @property
    def flat(self) -> bool:
        """Whether more rows would show nothing more."""
        return all(value is None or value >= _FLAT * self.peak for value in self.values)


def isr_role(count: int | None, least: int, wanted: int) -> str:
    """Return the role of so many replicas in sync: against min ISR, and all."""
    if count is None:
        return "dim"
    return "stalled" if count < least else "out-of-sync" if count < wanted else "in-sync"


def mark_at(history: Slots | None, at_s: float) -> int:
    """Return the mark of a moment; NOTHING outside of the slots."""
    if history is None:
        return Mark.NOTHING
    place = math.floor((at_s - history.end_s) / history.slot_s) + len(history.marks)
    return history.marks[place] if 0 <= place < len(history.marks) else Mark.NOTHING


def first_known(values: Sequence[float | None]) -> int:
    """Return the place of the first value that is known; their number without one."""
    return next((place for place, value in enumerate(values) if value is not None), len(values))


def highest(values: Sequence[float | None]) -> float:
    """Return the highest value that is known; 0 without one."""
    return max((value for value in values if value is not None), default=0.0)


def level(value: float | None, top: float, height: int) -> int:
    """Return eighths of a row above the axis; a value above zero is never drawn as zero."""
    if value is None or top <= 0.0 or value <= 0.0:
        return 0
    return max(1, round(value / top * height * 8))


def lags(points: Iterable[tuple[float, int]], axis: Axis) -> list[float | None]:
    """Return the highest value in each cell, between readings interpolated; None before and after.

    `points` are readings at monotonic seconds.
    """
    worst: dict[int, int] = {}
    first, cell_s = axis.window.first(axis.past), axis.window.cell_s
    for at_s, messages in points:
        place = math.floor(at_s / cell_s) - first
        worst[place] = max(messages, worst.get(place, 0))
    values: list[float | None] = [None] * axis.past
    for (place, value), (later, after) in pairwise(worst.items()):
        slope = (after - value) / (later - place)
        for cell in range(max(0, place), min(later, axis.past)):
            values[cell] = value + slope * (cell - place)
    last = next(reversed(worst), -1)
    if 0 <= last < axis.past:
        values[last] = worst[last]
    return values


def lag_text(messages: int | None, size: int | None) -> str:
    """Format a lag in messages and bytes, as far as known: `1.2 M msg, 3.2 GiB`."""
    known = [] if messages is None else [figures.as_messages(messages)]
    return ", ".join([*known, *([] if size is None else [figures.as_bytes(size)])])


def rate_text(lane: Lane) -> str:
    """Format how fast a replica copies; empty where unknown."""
    if lane.rate_bytes_s is not None:
        return figures.as_copying(lane.rate_bytes_s)
    return "" if lane.rate_messages_s is None else figures.as_message_rate(lane.rate_messages_s)


RACKS_FROM, _HOSTS_FROM = 100, 150
"""The widths from which on a lane names the rack of its broker, and its address."""
TO_COME = "to add"
_ROLES = {
    Role.ADDING: ("adding", "moving"),
    Role.IN_SYNC: ("in sync", "in-sync"),
    Role.LEADER: ("leader", "leader"),
    Role.OUT_OF_SYNC: ("out of sync", "out-of-sync"),
    Role.RETIRING: ("to leave", "retiring"),
    Role.GONE: ("gone", "dim"),
}


class ReplicaLane(NamedTuple):
    """A replica as its lane names it, now or to come."""

    lane: Lane
    sign: str
    word: str
    role: str
    away: bool  # its broker is down, or it is out of the ISR

    @property
    def broker(self) -> int:
        return self.lane.broker

    @property
    def catches_up(self) -> bool:
        return self.lane.role in (Role.ADDING, Role.OUT_OF_SYNC)

    @property
    def rank(self) -> int:
        """How much it matters where there is no room for all."""
        if self.catches_up or self.away:
            return 3
        return {Role.LEADER: 2, Role.RETIRING: 2, Role.GONE: 0}.get(self.lane.role, 1)


def replica_lanes(subject: Subject) -> list[ReplicaLane]:
    """Return the replicas of a partition, and those that its run is to add."""
    timeline, of_run = subject.timeline, subject.of_run
    lanes = dict(timeline.lanes)
    for broker in timeline.state.replicas:
        role = Role.ADDING if broker in timeline.state.adding else Role.IN_SYNC
        lanes.setdefault(broker, Lane(broker, role))
    goes_on = of_run is not None and not of_run.track.state.ended
    to_come = [b for b in timeline.target if b not in lanes] if goes_on else []
    leaving = subject.context.leaving(timeline)
    named = [_named(lane, subject, leaving) for lane in lanes.values()]
    waiting = (Lane(broker, Role.ADDING) for broker in to_come)
    return [*named, *(ReplicaLane(lane, "+", TO_COME, "waiting", away=False) for lane in waiting)]


def _named(lane: Lane, subject: Subject, leaving: frozenset[int]) -> ReplicaLane:
    timeline, broker = subject.timeline, lane.broker
    word, role = _ROLES[lane.role]
    if lane.role is Role.IN_SYNC and not timeline.state.described:
        word, role = "replica", "waiting"
    leaves = broker in leaving or lane.role is Role.RETIRING
    if leaves and lane.role is Role.IN_SYNC:
        word, role = "to leave", "retiring"
    known = subject.observation.brokers.get(broker)
    down = known is not None and not known.alive and lane.role is not Role.GONE
    if down:
        word, role = "DOWN", "out-of-sync" if subject.ended_at is None else "dim"
    leads = lane.role is Role.LEADER and not down
    first = next(iter(timeline.target), None)
    to_lead = broker == first and not leads and lane.role is not Role.GONE
    added = lane.role is Role.ADDING
    if leads and leaves:
        word = "leader, leaves"
    elif added and to_lead and not down:
        word = "next leader"
    sign = ("*" if leads else ">" if to_lead else "") + ("+" if added else "-" if leaves else "")
    return ReplicaLane(lane, sign, word, role, down or lane.role is Role.OUT_OF_SYNC)


def label_columns(
    lanes: Sequence[ReplicaLane], subject: Subject, width: int
) -> Iterator[RowColumn]:
    """Return the columns of the lanes' labels; a narrow terminal has fewer."""
    most = max([3, *(len(f"{each.sign}{each.broker}") for each in lanes)])

    def broker_cell(each: ReplicaLane) -> list[Piece]:
        after = "!" if each.away else ""
        text = f"{f'{each.sign}{each.broker}':>{most}}{after}"
        return [Piece(text, each.role, bold=True)]

    yield Column(heading="broker", cell=broker_cell)
    # the least cells, so that a role's length does not shift what follows
    yield Column(heading="role", width=14, cell=lambda each: [Piece(each.word, each.role)])
    brokers = subject.observation.brokers
    if width >= RACKS_FROM and any(each.rack for each in brokers.values()):
        yield _place("rack", 12, lambda b: (brokers[b].rack or "-") if b in brokers else "-")
    if width >= _HOSTS_FROM:
        hosts = {b.id: f"{b.host}:{b.port}" for b in brokers.values() if b.host}
        yield _place("host", 32, lambda b: hosts.get(b, "unknown"))


def _place(heading: str, most: int, name: Callable[[int], str]) -> RowColumn:
    def cell(each: ReplicaLane) -> list[Piece]:
        text = Piece(name(each.broker), "dim")
        return cut_pieces([text], min(most, cell_len(text.text)))

    return Column(heading=heading, cell=cell)


def throttle_on_copies(subject: Subject) -> float | None:
    """Return the bytes a second that throttles let all its copies through; None without any."""
    state, seen = subject.timeline.state, subject.observation
    config = seen.topic_configs.get(state.tp.topic)
    if config is None or not state.adding:
        return None
    rates = []
    for broker in state.adding:
        known = seen.broker_configs.get(broker)
        rate = None if known is None else known.follower_throttle_rate
        listed = config.follower_throttled_replicas
        if rate is None or not list_includes(listed, state.tp.partition, broker):
            return None
        rates.append(rate)
    return float(sum(rates))
