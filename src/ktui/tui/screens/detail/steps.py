"""The steps of one partition of the run, done and to come, with the replicas each requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.tui.draw import format as figures
from ktui.tui.run_view.rows import StepRecord, steps_to_come

_GAP = "  "


class _Line(NamedTuple):
    number: str
    replicas: str
    what: str
    when: str
    colour: str


def run_steps(
    name: str, track: Track, taken: Sequence[StepRecord], limits: Limits, width: int
) -> list[Content]:
    """Draw a heading, and one line per step.

    Args:
        name: the run's name.
        track: the partition.
        taken: the partition's steps that have begun.
        limits: the limits in force: they decide the steps to come.
        width: the most cells of a line.
    """
    lines = [*_begun(taken), *_to_come(track, limits, len(taken))]
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


def _begun(taken: Sequence[StepRecord]) -> list[_Line]:
    return [_begun_line(number, step) for number, step in enumerate(taken, 1)]


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
