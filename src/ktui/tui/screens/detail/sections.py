"""The parts below the lanes: events, the steps of a run, and what a cancel would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

from ktui.cluster.observation import Observation
from ktui.execution.cancel_preview import PartitionPreview, preview_partition
from ktui.execution.engine.observed import Observed
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits
from ktui.progress.timeline import Event
from ktui.tui.draw import format as figures
from ktui.tui.run_view.rows import StepRecord
from ktui.tui.screens.detail.axis import RunDetail, what_a_step_does
from ktui.tui.screens.events import SIGNS

_GAP = "  "
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
    """Say what each cancel would send, and the replicas afterwards, as its dialog does."""
    observed = Observed(seen)
    heading = Content.styled("what c or p would do", "$header")
    kinds: dict[tuple[str, str], list[str]] = {}  # those that come to the same, by what they do
    for kind, words in _CANCELS:
        each = preview_partition(of_run.track, kind, limits, observed)
        does = _sent(each), f"{_list(each.replicas)}{_led(each)}"
        if kind is not CancelKind.TRIM or does not in kinds:  # it is for what a stop would leave
            kinds.setdefault(does, []).append(words)
    goes_on = (
        "no step begins after this one" if of_run.track.step is not None else "it stays as it is"
    )
    every = [
        *((f"c {' or '.join(words)}", *does) for does, words in kinds.items()),
        ("p pause", "nothing new", goes_on),
    ]
    widths = [max(cell_len(row[at]) for row in every) for at in range(2)]
    lines = [
        Content.assemble(
            (f"{words:<{widths[0]}}{_GAP}", "$dim"), f"{sent:<{widths[1]}}{_GAP}", (after, "$dim")
        ).truncate(width, ellipsis=True)
        for words, sent, after in every
    ]
    return [heading, *lines]


def _sent(each: PartitionPreview) -> str:
    return "not now" if each.not_now is not None else each.sent


def _led(each: PartitionPreview) -> str:
    return "" if each.leader is None else f", leader {each.leader}"


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
