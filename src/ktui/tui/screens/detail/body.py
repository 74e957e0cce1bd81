"""What the detail of a partition shows: facts, its steps in a run, lanes and lag."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from rich.cells import cell_len
from textual.content import Content

from ktui.cluster.observation import Observation
from ktui.execution.run.states import State
from ktui.execution.run.track import Track, find_goal
from ktui.pacing.limits import Limits
from ktui.progress.news import advice
from ktui.progress.timeline import Cause, Event, Phase, Stall, StallKind, Timeline, in_time_order
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import SignAt, replica_pieces
from ktui.tui.draw.paint import content
from ktui.tui.run_view.rows import StepRecord, steps_to_come
from ktui.tui.screens.detail.lanes import SCALE_WIDTH, LaneTable, lag_curve, lane_table
from ktui.tui.screens.events import SIGNS
from ktui.tui.screens.watch.words import WaitingWords, as_reported_by_run
from ktui.tui.widgets.lines import facts

_GAP = "  "


class _Line(NamedTuple):
    number: str
    replicas: str
    what: str
    when: str
    colour: str


def run_steps(
    name: str, track: Track, steps_taken: Sequence[StepRecord], limits: Limits, width: int
) -> list[Content]:
    """Draw a heading, and one line per step; the limits in force decide the steps to come."""
    begun = [_begun_line(number, step) for number, step in enumerate(steps_taken, 1)]
    lines = [*begun, *_to_come(track, limits, len(steps_taken))]
    if not lines:
        lines = [_Line("", " ".join(map(str, track.replicas)), "nothing to do", "", "$dim")]
    columns = [max(cell_len(line[at]) for line in lines) for at in range(3)]
    heading = Content.styled(f"steps of run {name}", "$header")
    return [heading, *(_drawn(line, columns).truncate(width, ellipsis=True) for line in lines)]


def _drawn(line: _Line, widths: Sequence[int]) -> Content:
    cells = [f"{cell:<{width}}{_GAP}" for cell, width in zip(line, widths, strict=False)]
    return Content.assemble(
        (cells[0], "$dim"), (f"{cells[1]}{cells[2]}", line.colour), (line.when, "$dim")
    )


def _begun_line(number: int, step: StepRecord) -> _Line:
    begun, at = step.begun, figures.as_time(step.at)
    batch = f"batch {begun.batch:,}, "
    if step.over_at is None:
        when, colour = f"{batch}in flight since {at}", "$moving"
    elif step.reached:
        took = figures.as_duration((step.over_at - step.at).total_seconds())
        when, colour = f"{batch}done at {figures.as_time(step.over_at)} after {took}", "$foreground"
    else:
        when, colour = (
            f"{batch}given up at {figures.as_time(step.over_at)}: {step.reason}",
            "$warning",
        )
    what = _what(begun.adding, begun.removing, begun.elect)
    return _Line(str(number), _list(begun.replicas), what, when, colour)


def _to_come(track: Track, limits: Limits, begun: int) -> list[_Line]:
    steps = steps_to_come(track, limits)
    return [
        _Line(
            str(number), _list(step.target), _what(step.adds, step.drops, step.elects),
            "to come", "$dim",
        )
        for number, step in enumerate(steps, begun + 1)
    ]  # fmt: skip


def _list(brokers: Sequence[int]) -> str:
    return " ".join(map(str, brokers))


def _what(adding: Sequence[int], dropping: Sequence[int], elect: int | None) -> str:
    parts = [
        f"adds {_list(adding)}" if adding else "",
        f"drops {_list(dropping)}" if dropping else "",
        "" if elect is None else f"elects {elect}",
    ]
    return ", ".join(filter(None, parts)) or "puts them in order"


_BESIDE = 60
"""Cells left of the time axis from which the events stand beside the curve; below it otherwise."""
_LEAST_CURVE, _MOST_CURVE = 6, 16
_EVENT_COLOURS = ("$foreground", "$warning", "$error")


class RunDetail(NamedTuple):
    """What the run knows about the partition."""

    track: Track
    steps_taken: Sequence[StepRecord]
    steps: Sequence[Content]
    events: Sequence[Event]
    waits: WaitingWords | None = None
    stalled_s: float | None = None
    sign: SignAt | None = None


def detail_body(
    timeline: Timeline,
    observation: Observation,
    width: int,
    height: int,
    of_run: RunDetail | None = None,
    cancel_key: str = "",
) -> list[Content]:
    """Lay everything out in `width` cells; the curve takes the rows that `height` leaves for it."""
    if of_run is not None:
        timeline = _with_run(timeline, of_run)
    lines = [
        *facts(
            [
                _span(timeline, of_run, observation.at),
                *_facts(timeline, of_run, observation.down),
            ],
            width,
        ),
        *_alarms(timeline, observation.monotonic_s, of_run, cancel_key),
        *([] if of_run is None else [*_waits(of_run, width), *_extra_replicas(of_run, width)]),
        Content(""),
        *([] if of_run is None else [*of_run.steps, Content("")]),
    ]
    times = (timeline.began_at, timeline.ended_at or observation.at)
    begin, end = map(figures.as_time, times)
    sign = None if of_run is None else of_run.sign
    table = lane_table(timeline, observation.brokers, width, (begin, end), sign)
    lines += [*table.lines, *_lanes_note(timeline, of_run), Content("")]
    return lines + _curve_and_events(timeline, table, width, height - len(lines))


def _waits(of_run: RunDetail, width: int) -> list[Content]:
    if of_run.waits is None:
        return []
    lines = Content(of_run.waits.sentence).wrap(width)
    return [Content(""), *(line.stylize(f"${of_run.waits.role}") for line in lines)]


def _extra_replicas(of_run: RunDetail, width: int) -> list[Content]:
    """Warn if a stop left more replicas than the partition had before, and than its target has."""
    track = of_run.track
    most = max(len(track.original), len(track.planned.target))
    if track.state is not State.STOPPED or len(track.replicas) <= most:
        return []
    words = (
        f"It was stopped with {len(track.replicas)} replicas; it had {len(track.original)}, and was"
        f" to have {len(track.planned.target)}. c and trim drop what is beyond its original number."
    )
    lines = Content(words).wrap(width)
    return [Content(""), *(line.stylize("$warning") for line in lines)]


def _lanes_note(timeline: Timeline, of_run: RunDetail | None) -> list[Content]:
    """Note that the lanes cover a later step only: to Kafka each step is its own reassignment."""
    first = of_run.steps_taken[0].over_at if of_run is not None and of_run.steps_taken else None
    if not timeline.lanes or first is None or timeline.began_at <= first:
        return []
    words = f"The lanes begin at {figures.as_time(timeline.began_at)}, after earlier steps."
    return [Content.styled(words, "$dim")]


def _with_run(timeline: Timeline, of_run: RunDetail) -> Timeline:
    track, state = of_run.track, timeline.state
    destination = find_goal(track, track.replicas, state.isr, state.leader)
    return msgspec.structs.replace(
        timeline,
        original=track.original,
        original_ordered=True,
        target=destination.replicas,
        events=tuple(in_time_order(of_run.events, timeline.events)),
    )


def _curve_and_events(timeline: Timeline, table: LaneTable, width: int, room: int) -> list[Content]:
    if table.axis is None or not timeline.lag_history:
        return _events(timeline.events, width)
    lag, left = _lag(timeline), table.left - SCALE_WIDTH
    if table.left < _BESIDE:
        curve = lag_curve(timeline.lag_history, table.axis, _height(room - 4))
        events = _events(timeline.events, width)
        return [*_side_by_side(lag, curve, left), Content(""), *events]
    curve = lag_curve(timeline.lag_history, table.axis, _height(room - 2))
    heading = Content("  ").join(lag).truncate(width - table.left, ellipsis=True)
    beside = [heading.pad_left(SCALE_WIDTH), *curve]
    return _side_by_side(_events(timeline.events, left - 2), beside, left)


def _height(room: int) -> int:
    """Return an even number of rows, so that half of the scale falls on a row."""
    return min(_MOST_CURVE, max(_LEAST_CURVE, room)) // 2 * 2


def _side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    pairs = itertools.zip_longest(left, right, fillvalue=Content(""))
    return [
        Content.assemble(left_line.truncate(width, ellipsis=True, pad=True), right_line)
        for left_line, right_line in pairs
    ]


def _lag(timeline: Timeline) -> list[Content]:
    peak = max(messages for _, messages in timeline.lag_history)
    last = timeline.lag_messages
    lines = [Content.assemble(("peak ", "$dim"), figures.as_messages(peak))]
    if last is not None:
        lines.insert(0, Content.assemble(("lag ", "$dim"), figures.as_messages(last)))
    return lines


def _target(timeline: Timeline, of_run: RunDetail | None) -> Content:
    if of_run is None or of_run.track.cancel is None:
        return Content(_brokers(timeline.target))
    return Content(f"{_brokers(of_run.track.planned.target)}  (cancelled)")


def _facts(
    timeline: Timeline, of_run: RunDetail | None, down: Collection[int]
) -> list[tuple[str, Content]]:
    state, goes_on = timeline.state, of_run is not None and not of_run.track.state.ended
    leaving = {*state.replicas} - {*timeline.target, *state.adding} if goes_on else ()
    order = "" if timeline.original_ordered else "  (order not known)"
    return [
        ("leader", _leader(timeline, down)),
        ("topic id", Content(state.topic_id or figures.UNKNOWN)),
        ("original", Content(f"{_brokers(timeline.original)}{order}")),
        ("target", _target(timeline, of_run)),
        ("ISR", Content(_brokers(state.isr) if state.described else figures.UNKNOWN)),
        ("replicas", content(replica_pieces(state, down, leaving))),
    ]


def _leader(timeline: Timeline, down: Collection[int]) -> Content:
    state = timeline.state
    if not state.described:
        return Content(figures.UNKNOWN)
    if state.leader is None:
        return Content.styled("none: offline", "$error")
    if state.leader in down:
        return Content.styled(f"none: {state.leader} led last, and is down", "$error")
    return Content(
        f"{state.leader}, epoch {state.leader_epoch}"
        if state.leader_epoch is not None
        else str(state.leader)
    )


def _span(timeline: Timeline, of_run: RunDetail | None, now: datetime) -> tuple[str, Content]:
    if of_run is not None and of_run.steps_taken:
        return _span_of_run(of_run, now)
    begin = figures.as_time(timeline.began_at)
    if timeline.phase is Phase.SETTLED:  # without lanes only the run has polled it
        return "watched" if timeline.lanes else "known", Content(f"since {begin}")
    seconds = ((timeline.ended_at or now) - timeline.began_at).total_seconds()
    took = figures.as_seen(seconds, whole=timeline.seen_from_start)
    if timeline.ended_at is None:
        seen = "" if timeline.seen_from_start else "seen "
        return "moving", Content(f"{seen}since {begin}, for {took}")
    return "moved", Content(f"{begin} to {figures.as_time(timeline.ended_at)}, {took}")


def _span_of_run(of_run: RunDetail, now: datetime) -> tuple[str, Content]:
    began, over = of_run.steps_taken[0].at, of_run.steps_taken[-1].over_at
    ended = over if of_run.track.state.ended else None
    took = figures.as_duration(((ended or now) - began).total_seconds())
    if ended is None:
        return "under way", Content(f"since {figures.as_time(began)}, for {took}")
    what = of_run.track.state.words if of_run.track.cancel is not None else "moved"
    return what, Content(f"{figures.as_time(began)} to {figures.as_time(ended)}, {took}")


def _brokers(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids)) or "none"


def _alarms(
    timeline: Timeline, now_s: float, of_run: RunDetail | None, cancel_key: str
) -> list[Content]:
    stalled_s = None if of_run is None else of_run.stalled_s
    stalls = [lane.stall for lane in timeline.lanes.values() if lane.stall is not None]
    told = (as_reported_by_run(stall, stalled_s) for stall in stalls)
    lines = [_alarm(stall, now_s, cancel_key) for stall in told]
    if not lines and of_run is not None and stalled_s is not None:
        lasted = figures.as_duration(now_s - stalled_s)
        words = f"! stalled for {lasted}: {of_run.track.reason}."
        lines = [Content.styled(words, "bold $stalled")]
    return [Content(""), *lines] if lines else []


def _alarm(stall: Stall, now_s: float, cancel_key: str) -> Content:
    lasted = figures.as_duration(now_s - stall.since_s)
    cause = _cause(stall)
    if not stall.alarm:
        words = f"· broker {stall.broker} waits for {lasted} by now: {cause}."
        return Content.styled(words, "$waiting")
    colour = "bold $stalled" if stall.kind is StallKind.STALLED else "bold $falling-behind"
    return Content.assemble(
        (f"! broker {stall.broker} {stall.kind.value} for {lasted}: {cause}. ", colour),
        advice(stall.cause, stall.broker, cancel_key),
    )


def _cause(stall: Stall) -> str:
    if stall.detail == f"broker {stall.broker} is down":
        return "it is down"
    if stall.cause is Cause.THROTTLED and "throttle, " in stall.detail:
        return stall.detail
    return f"{stall.cause.value}: {stall.detail}" if stall.detail else stall.cause.value


def _events(events: Sequence[Event], width: int) -> list[Content]:
    lines = [Content.styled("events, newest first", "$header")]
    if not events:
        return [*lines, Content.styled("none yet", "$dim")]
    dated = events[-1].at.astimezone().date() != events[0].at.astimezone().date()
    for event in reversed(events):
        lines += _event(event, width, dated=dated)
    return lines


def _event(event: Event, width: int, *, dated: bool) -> list[Content]:
    day = f"{event.at.astimezone():%b %d} " if dated else ""
    time = f"{day}{figures.as_time(event.at)}  "
    sign = f"{SIGNS[event.severity]} "
    colour = _EVENT_COLOURS[event.severity]
    first, *more = Content(event.what).wrap(width - len(time) - len(sign))
    indent = " " * (len(time) + len(sign))
    return [
        Content.assemble((time, "$dim"), (f"{sign}{first.plain}", colour)),
        *(Content.assemble(indent, (line.plain, colour)) for line in more),
    ]
