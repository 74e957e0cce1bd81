"""What the detail of a partition shows: what is wrong, its replicas, lanes, steps and events."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

from ktui.cluster.observation import Observation
from ktui.execution.cancel_preview import preview_partition
from ktui.execution.engine.observed import Observed
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.progress.news import advice
from ktui.progress.timeline import Cause, Event, Phase, Stall, StallKind, in_time_order
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import replica_pieces
from ktui.tui.draw.paint import content
from ktui.tui.run_view.rows import StepRecord
from ktui.tui.screens.detail.axis import RACKS_FROM, RunDetail, Subject, what_a_step_does
from ktui.tui.screens.detail.lanes import Drawing, Line
from ktui.tui.screens.events import SIGNS
from ktui.tui.screens.watch.state import reason
from ktui.tui.screens.watch.words import as_reported_by_run
from ktui.tui.widgets.lines import facts

_BESIDE_FROM = 110
"""The width from which on the steps stand beside the events; below them otherwise."""
_LEAST_EVENTS, _MOST_EVENTS = 50, 90  # cells of events beside the steps
_GAP = "  "
_LEAST_BELOW = 12  # lines for what stands below the lanes, before curves grow
_ROWS_OF_CURVES = 1 / 6  # the part of the lines that curves get where there is room
_NO_LANES = "Nothing is known of its replicas yet."


class Keys(NamedTuple):
    """The keys of the view that help here; empty for those that do nothing."""

    cancel: str = ""
    writes: bool = False  # what c would do is worth telling


def full_body(
    subject: Subject, drawing: Drawing, width: int, height: int, keys: Keys, limits: Limits | None
) -> list[Content]:
    """Lay everything out in `width` cells; curves take the rows that `height` leaves for them."""
    top = [
        *_top(subject, width, keys),
        *facts(_facts(subject), width),
        *_racks(subject, width),
        *_extra_replicas(subject.of_run, width),
        Content(""),
    ]
    below = _below(subject, width, keys, limits)
    fixed = len(top) + len(_picture(drawing)) + 1
    spare = max(0, height - fixed - min(len(below), _LEAST_BELOW))
    rows = _rows_of_curves(min(int(height * _ROWS_OF_CURVES), spare))
    return [*top, *_picture(drawing, *rows), Content(""), *below]


def _picture(drawing: Drawing, lag: int = 1, copied: int = 1) -> list[Content]:
    if not drawing.replicas:
        return [Content.styled(_NO_LANES, "$dim")]
    lines = [drawing.drawn(drawing.captions()), drawing.drawn(drawing.heading())]
    for line, each in zip(drawing.lanes(), drawing.replicas, strict=True):
        lines += [drawing.drawn(line), *drawing.figures_of(each)]
    return [*lines, *map(drawing.drawn, drawing.charts(lag, copied))]


def compact_body(
    subject: Subject, drawing: Drawing, width: int, height: int, keys: Keys
) -> list[Content]:
    """Lay out what is most useful in so few lines: lanes first, then curves, then events."""
    top = _top(subject, width, keys)
    if not drawing.replicas:
        return [*top, Content.styled(_NO_LANES, "$dim")]
    room = max(1, height - len(top) - 1)
    lanes, left_out = _most_telling(drawing.lanes(), room)
    room -= len(lanes) + (left_out > 0)
    most = max(0, min(2, drawing.curves, room))  # first the lag and the copy rate
    isr = room > most + 1  # the names of the boundaries go before
    most = drawing.curves if room > drawing.curves + 1 else most
    room -= isr + most
    named = [drawing.captions()] if room > 0 else []
    events = event_lines(_events(subject), width)[: max(0, room - len(named))]
    more = min(int(height * _ROWS_OF_CURVES), room - len(named) - len(events))
    charts = drawing.charts(*_rows_of_curves(max(0, more)), isr=isr, most=most)
    before = map(drawing.drawn, [*named, drawing.heading(), *lanes])
    rest = [Content.styled(f"  … {left_out} more (↵)", "$dim")] if left_out else []
    return [*top, *before, *rest, *map(drawing.drawn, charts), *events]


def _rows_of_curves(more: int) -> tuple[int, int]:
    """Share rows between the lag, which gets two thirds, and the copy rate."""
    return 1 + more - more // 3, 1 + more // 3


def _most_telling(lanes: Sequence[Line], room: int) -> tuple[list[Line], int]:
    """Return the lanes for which there is room, in order, and how many are left out."""
    if len(lanes) <= room:
        return list(lanes), 0
    ranked = sorted(range(len(lanes)), key=lambda at: -lanes[at].rank)
    kept = sorted(ranked[: room - 1])
    return [lanes[at] for at in kept], len(lanes) - len(kept)


def _below(subject: Subject, width: int, keys: Keys, limits: Limits | None) -> list[Content]:
    of_run = subject.of_run
    if of_run is None:
        return _titled_events(subject, width)
    steps = step_lines(of_run, width)
    if keys.writes and limits is not None and not of_run.track.state.ended:
        steps += [Content(""), *cancel_lines(of_run, subject.observation, limits, width)]
    if width < _BESIDE_FROM:
        return [*steps, Content(""), *_titled_events(subject, width)]
    needed = max(line.cell_length for line in steps)
    left = min(max(width - needed, _LEAST_EVENTS) - len(_GAP), _MOST_EVENTS)
    right = (line.truncate(width - left - len(_GAP), ellipsis=True) for line in steps)
    pairs = itertools.zip_longest(_titled_events(subject, left), right, fillvalue=Content(""))
    return [
        Content.assemble(event.truncate(left, ellipsis=True, pad=True), _GAP, step)
        for event, step in pairs
    ]


def _titled_events(subject: Subject, width: int) -> list[Content]:
    heading = Content.styled("events, newest first", "$header")
    return [heading, *event_lines(_events(subject), width)]


def _events(subject: Subject) -> Sequence[Event]:
    of_run, own = subject.of_run, subject.timeline.events
    return own if of_run is None else in_time_order(of_run.events, own)


# ------------------------------------------------------------------ what is wrong


def _top(subject: Subject, width: int, keys: Keys) -> list[Content]:
    """Say why it makes no headway and what helps, once."""
    of_run, now_s = subject.of_run, subject.observation.monotonic_s
    stalled_s = None if of_run is None else of_run.stalled_s
    lanes = () if subject.ended_at is not None else subject.timeline.lanes.values()
    stalls = [each.stall for each in lanes if each.stall is not None]
    told = (as_reported_by_run(stall, stalled_s) for stall in stalls)
    alarms = [_alarm(stall, now_s, keys.cancel) for stall in told]
    if not alarms and of_run is not None and stalled_s is not None:
        lasted = figures.as_duration(now_s - stalled_s)
        words = f"! stalled for {lasted}: {of_run.track.reason}."
        alarms = [Content.styled(words, "bold $stalled")]
    if not alarms and of_run is not None and of_run.waits is not None:
        waits = of_run.waits
        alarms = [Content.styled(waits.sentence, f"${waits.role}")]
    return [line for each in alarms or _trouble(subject, keys) for line in each.wrap(width)]


def _trouble(subject: Subject, keys: Keys) -> list[Content]:
    found = reason(subject.timeline, subject.context)
    if found is None:
        return []
    target = subject.timeline.target if subject.of_run is not None else ()
    needed = {*subject.timeline.state.replicas, *target}
    down = sorted(needed & subject.observation.down)
    helps = f" {_start(subject, down[0], keys)}" if down else ""
    sign = "·" if found.role == "waiting" else "!"
    return [Content.assemble((f"{sign} {found.text}.", f"bold ${found.role}"), helps)]


def _start(subject: Subject, broker: int, keys: Keys) -> str:
    settled = subject.timeline.phase is Phase.SETTLED and subject.of_run is None
    if settled or subject.ended_at is not None:  # nothing to cancel
        return f"Start broker {broker}."
    return advice(Cause.TARGET_DOWN, broker, keys.cancel)


def _alarm(stall: Stall, now_s: float, cancel_key: str) -> Content:
    lasted = figures.as_duration(now_s - stall.since_s)
    cause = _cause(stall)
    if not stall.alarm:
        words = f"· the copy onto broker {stall.broker} has waited for {lasted}: {cause}."
        return Content.styled(words, "$waiting")
    colour = "bold $stalled" if stall.kind is StallKind.STALLED else "bold $falling-behind"
    return Content.assemble(
        (f"! copy onto broker {stall.broker} {stall.kind.value} for {lasted}: {cause}. ", colour),
        advice(stall.cause, stall.broker, cancel_key),
    )


def _cause(stall: Stall) -> str:
    if stall.detail == f"broker {stall.broker} is down":
        return "the broker is down"
    if stall.cause is Cause.THROTTLED and "throttle, " in stall.detail:
        return stall.detail
    return f"{stall.cause.value}: {stall.detail}" if stall.detail else stall.cause.value


# ------------------------------------------------------------------ the facts


def _facts(subject: Subject) -> list[tuple[str, Content]]:
    timeline, state = subject.timeline, subject.timeline.state
    order = "" if timeline.original_ordered else "  (order not known)"
    leaving, _, to_lead = subject.context.to_change(timeline)
    replicas = content(replica_pieces(state, subject.observation.down, leaving, (), to_lead))
    return [
        ("replicas", replicas),
        ("target", _target(subject)),
        ("original", Content(f"{_brokers(timeline.original)}{order}")),
        ("leader", _leader(subject)),
        ("ISR", _isr(subject)),
        _span(subject),
        ("topic id", Content(state.topic_id or figures.UNKNOWN)),
    ]


def _racks(subject: Subject, width: int) -> list[Content]:
    """Name the racks, where the lanes have no room for them."""
    brokers = subject.observation.brokers
    known = [brokers[broker] for broker in subject.timeline.lanes if broker in brokers]
    if width >= RACKS_FROM or not any(each.rack for each in known):
        return []
    racks = " · ".join(f"{each.id} {each.rack or figures.UNKNOWN}" for each in known)
    return Content.assemble(("racks  ", "$dim"), racks).wrap(width)


def _target(subject: Subject) -> Content:
    of_run = subject.of_run
    if of_run is None or of_run.track.cancel is None:
        return Content(_brokers(subject.timeline.target))
    return Content(f"{_brokers(of_run.track.planned.target)}  (cancelled)")


def _isr(subject: Subject) -> Content:
    state = subject.timeline.state
    if not state.described:
        return Content(figures.UNKNOWN)
    config = subject.observation.topic_configs.get(state.tp.topic)
    least = "" if config is None else f"  (min {config.min_insync_replicas})"
    return Content(f"{_brokers(state.isr)}{least}")


def _leader(subject: Subject) -> Content:
    state, down = subject.timeline.state, subject.observation.down
    if not state.described:
        return Content(figures.UNKNOWN)
    if state.leader is None:
        return Content.styled("none: offline", "$error")
    if state.leader in down:
        return Content.styled(f"none: {state.leader} led last, and is down", "$error")
    epoch = "" if state.leader_epoch is None else f", leader epoch {state.leader_epoch}"
    return Content(f"{state.leader}{epoch}")


def _extra_replicas(of_run: RunDetail | None, width: int) -> list[Content]:
    """Warn if a stop left more replicas than the partition had before, and than its target has."""
    if of_run is None:
        return []
    track = of_run.track
    most = max(len(track.original), len(track.planned.target))
    if track.state is not State.STOPPED or len(track.replicas) <= most:
        return []
    words = (
        f"It was stopped with {len(track.replicas)} replicas; it had {len(track.original)}, and was"
        f" to have {len(track.planned.target)}. c and trim drop what is beyond its original number."
    )
    return [line.stylize("$warning") for line in Content(words).wrap(width)]


def _span(subject: Subject) -> tuple[str, Content]:
    timeline, of_run, now = subject.timeline, subject.of_run, subject.observation.at
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


_EVENT_COLOURS = ("$foreground", "$falling-behind", "$stalled")


class _Line(NamedTuple):
    number: str
    replicas: str
    what: str
    when: str
    colour: str


def step_lines(of_run: RunDetail, width: int) -> list[Content]:
    """Draw a heading, and one line per step, begun or to come."""
    begun = [_begun_line(number, step) for number, step in enumerate(of_run.steps_taken, 1)]
    lines = [*begun, *_to_come(of_run)]
    if not lines:
        lines = [_Line("", _list(of_run.track.replicas), "nothing to do", "", "$dim")]
    columns = [max(cell_len(line[at]) for line in lines) for at in range(3)]
    heading = Content.styled(f"steps of run {of_run.name}", "$header")
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
    what = what_a_step_does(begun.adding, begun.removing, begun.elect)
    return _Line(str(number), _list(begun.replicas), what, when, colour)


def _to_come(of_run: RunDetail) -> list[_Line]:
    return [
        _Line(
            f"{number}", _list(step.target),
            what_a_step_does(step.adds, step.drops, step.elects), "to come", "$dim",
        )
        for number, step in enumerate(of_run.steps_to_come, len(of_run.steps_taken) + 1)
    ]  # fmt: skip


def _list(brokers: Sequence[int]) -> str:
    return " ".join(map(str, brokers))


_CANCELS = (
    (CancelKind.STOP, "stop"),
    (CancelKind.ROLLBACK, "roll back"),
    (CancelKind.TRIM, "trim"),
)


def cancel_lines(of_run: RunDetail, seen: Observation, limits: Limits, width: int) -> list[Content]:
    """Describe what each cancel would send, and the replicas afterwards, as its dialog does."""
    observed = Observed(seen)
    kinds: dict[tuple[str, str], list[str]] = {}  # those that come to the same, by what they do
    for kind, words in _CANCELS:
        each = preview_partition(of_run.track, kind, limits, observed)
        led = "" if each.leader is None else f", leader {each.leader}"
        sent = "not now" if each.not_now is not None else each.sent
        does = sent, f"{_list(each.replicas)}{led}"
        if kind is not CancelKind.TRIM or does not in kinds:  # it is for what a stop would leave
            kinds.setdefault(does, []).append(words)
    in_flight = of_run.track.step is not None
    goes_on = "this step's; no other begins" if in_flight else "it stays as it is"
    every = [
        ("with c or p", "sent", "replicas then"),
        *((f"c {' or '.join(words)}", *does) for does, words in kinds.items()),
        ("p pause", "nothing", goes_on),
    ]
    widths = [max(cell_len(row[at]) for row in every) for at in range(2)]
    heading, *lines = [
        Content.assemble(
            (f"{words:<{widths[0]}}{_GAP}", "$dim"), f"{sent:<{widths[1]}}{_GAP}", (after, "$dim")
        ).truncate(width, ellipsis=True)
        for words, sent, after in every
    ]
    return [Content.styled(heading.plain, "$header"), *lines]


def event_lines(events: Sequence[Event], width: int) -> list[Content]:
    """Draw events, the newest first; long ones are wrapped."""
    if not events:
        return [Content.styled("none yet", "$dim")]
    lines: list[Content] = []
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
