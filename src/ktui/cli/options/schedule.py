"""The options for when the steps of a run may begin: `--start-at`, `--window` and `--while`."""

from __future__ import annotations

from datetime import datetime

import click
from msgspec import UNSET, UnsetType

from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import grouped
from ktui.cli.options.outward import NONE, resolved_command
from ktui.cli.options.run import parse_moment_option
from ktui.cluster.clock import SystemClock
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.window import WindowProblem, parse_window

START_AT, WINDOW, WHILE = "--start-at", "--window", "--while"

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
}


def _schedule(start_at: str | None, window: str | None, while_: str | None) -> SetSchedule:
    """Return what the options change of a schedule.

    Raises:
        BadInput: one cannot be used.
    """
    return SetSchedule(
        start_at=_start_at(start_at), window=_window(window), while_command=_while(while_)
    )


def _start_at(text: str | None) -> datetime | UnsetType | None:
    if text is None:
        return UNSET
    return None if text == NONE else parse_moment_option(START_AT, text, SystemClock().now())


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
