"""The options for when the steps of a run may begin, and by when it is to be done."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
from msgspec import UNSET, UnsetType

from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import grouped
from ktui.cli.options.outward import NONE, resolved_command
from ktui.cli.options.run import parse_moment_option
from ktui.cluster.clock import SystemClock
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.options import WindowProblem, parse_window
from ktui.units import Seconds, parse_quantity

START_AT, WINDOW, WHILE = "--start-at", "--window", "--while"
BY, WITHIN = "--by", "--within"

_LONGEST_S = 365 * 86_400.0

_OPTIONS = {
    "start_at": click.option(
        START_AT,
        metavar="TIME",
        help="Take no step before then. TIME is 22:00, or a date and time in ISO 8601; local "
        "unless it has an offset. none: at once.",
    ),
    "window": click.option(
        WINDOW,
        metavar="FROM-TO[,DAY,...]",
        help="Take only steps that are expected to end in this window of local time, such as "
        "22:00-05:00, or 22:00-05:00,Sat,Sun where it opens on these days only. none: at any time.",
    ),
    "while_": click.option(
        WHILE,
        "while_",
        metavar="CMD",
        help="Take no step while CMD fails. It runs every 5 s, without a shell, and is killed "
        "after 10 s. none: no command.",
    ),
    "by": click.option(
        BY,
        metavar="TIME",
        help="Copy at the lowest rate with which the run is done by TIME (22:00, or ISO 8601). A "
        "throttle that you name stays the most. none: as fast as limits and throttle allow.",
    ),
    "within": click.option(
        WITHIN, metavar="DURATION", help="As --by, so long from now: 90m, 8h, 1h30m."
    ),
}


def _schedule(
    start_at: str | None,
    window: str | None,
    while_: str | None,
    by: str | None,
    within: str | None,
) -> SetSchedule:
    """Return what the options change of a schedule.

    Raises:
        BadInput: one cannot be used.
    """
    changed = SetSchedule(
        start_at=_moment(START_AT, start_at),
        window=_window(window),
        while_command=_while(while_),
        by=_by(by, within),
    )
    begins, ends = changed.start_at, changed.by
    if isinstance(begins, datetime) and isinstance(ends, datetime) and ends <= begins:
        raise BadInput(f"{BY}: the run would be done before it starts. Give a time after it")
    return changed


def _moment(option: str, text: str | None) -> datetime | UnsetType | None:
    if text is None:
        return UNSET
    return None if text == NONE else parse_moment_option(option, text, SystemClock().now())


def _by(by: str | None, within: str | None) -> datetime | UnsetType | None:
    if within is None:
        return _moment(BY, by)
    if by is not None:
        raise BadInput(f"{BY} and {WITHIN} name the same time. Give one of them")
    try:
        seconds = float(parse_quantity(Seconds, within))
    except ValueError as error:
        raise BadInput(f"{WITHIN} {within!r}: {error}") from None
    if not 0 < seconds <= _LONGEST_S:
        raise BadInput(f"{WITHIN} {within}: is not between 1 s and 365 days")
    return SystemClock().now() + timedelta(seconds=seconds)


def _window(text: str | None) -> str | UnsetType:
    if text is None:
        return UNSET
    try:
        return "" if text == NONE else str(parse_window(text))
    except WindowProblem as problem:
        raise BadInput(f"{WINDOW}: {problem}") from None


def _while(text: str | None) -> str | UnsetType:
    return UNSET if text is None else resolved_command(WHILE, text)


schedule_options = grouped("schedule", _schedule, _OPTIONS)
"""Adds the options of a schedule; passes what they change as `schedule`, a `SetSchedule`."""
