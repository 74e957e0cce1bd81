"""The options of a run beside its limits: its reaction when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from ktui.cli.context.errors import BadInput
from ktui.cli.options.recording import run_recorded_option
from ktui.execution.run.options import OnForeignChange, OnStall, RunOptions
from ktui.planning.check.findings import Allowances, Option
from ktui.progress.stalls import STALLED_AFTER_S
from ktui.units import Seconds, parse_clock, parse_moment, parse_quantity

OPTION = "--until"
_FIX = "Give a time such as 15:00, or a date and time: 2026-11-21T15:00, 2026-11-21T15:00+01:00"

until_option = click.option(
    OPTION,
    metavar="TIME",
    help="Submit only steps that are expected to end by then. TIME is 15:00, or a date and time "
    "in ISO 8601; local unless it has an offset.",
)


def parse_until(text: str | None, now: datetime) -> datetime | None:
    """Read the time; None without the option.

    Args:
        text: the option; `15:00` means the next such time.
        now: the current time, aware.

    Raises:
        BadInput: the text is not a time, or the time has passed.
    """
    if text is None:
        return None
    until = _next(text.strip(), now) or parse_moment(text.strip())
    if until is None:
        raise BadInput(f"{OPTION} {text!r}: is not a time. {_FIX}")
    if until <= now:
        raise BadInput(f"{OPTION} {text}: is in the past. {_FIX}")
    return until


def _next(text: str, now: datetime) -> datetime | None:
    """Return the next moment at which local clocks show this time of day."""
    clock = parse_clock(text)
    if clock is None:
        return None
    hour, minute, second = clock
    local = now.astimezone().replace(tzinfo=None)  # without an offset, which may change tonight
    today = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return (today if today > local else today + timedelta(days=1)).astimezone()


F = TypeVar("F", bound=Callable[..., Any])

LEAST_POLL_S, MOST_POLL_S = 0.1, 60.0
_DEFAULTS = RunOptions()

_RUN_OPTIONS = (
    click.option(
        "--on-stall",
        type=click.Choice([choice.value for choice in OnStall]),
        default=_DEFAULTS.on_stall.value,
        help="What to do with a step whose new broker stays offline: wait (default), or cancel "
        "the step.",
    ),
    click.option(
        "--stall-timeout",
        metavar="TIME",
        help="How long that broker may be offline, at least 30s. Default: 5m.",
    ),
    click.option(
        "--on-foreign-change",
        type=click.Choice([choice.value for choice in OnForeignChange]),
        default=_DEFAULTS.on_foreign_change.value,
        help="What to do with a waiting partition that someone else changed: skip it (default), "
        "or replan its way to the target from there.",
    ),
    click.option(
        "--stop-on-failure", is_flag=True, help="Begin nothing more once a partition has failed."
    ),
    click.option(
        "--most-under-min-isr",
        type=click.IntRange(0),
        metavar="N",
        help="Take no step while more than N partitions outside the run are under min ISR.",
    ),
    click.option(
        "--most-offline",
        type=click.IntRange(0),
        metavar="N",
        help="Take no step while more than N partitions outside the run are offline.",
    ),
    run_recorded_option,
    click.option("--poll", metavar="TIME", help="Time between polls of the cluster. Default: 1s."),
)
_ALLOWANCES = (
    click.option(
        Option.REPLICATION_FACTOR_CHANGE.value,
        "factor_change",
        is_flag=True,
        help="Allow the plan to change how many replicas a partition has.",
    ),
    click.option(
        Option.BELOW_MIN_ISR.value,
        "below_min_isr",
        is_flag=True,
        help="Allow the plan to leave fewer replicas than min.insync.replicas.",
    ),
)


def run_options(function: F) -> F:
    """Add the options of a run, and those that allow a plan more."""
    for option in reversed((*_RUN_OPTIONS, *_ALLOWANCES)):
        function = option(function)
    return function


def pop_run_options(values: dict[str, Any]) -> RunOptions:
    """Remove the options of a run from all values, and return them.

    Raises:
        BadInput: a value cannot be used; names the option and the fix.
    """
    stall_s = _seconds("--stall-timeout", values.pop("stall_timeout"), _DEFAULTS.stall_timeout_s)
    if stall_s < STALLED_AFTER_S:
        least = f"{STALLED_AFTER_S:g} s"
        raise BadInput(f"--stall-timeout: give {least} or more. A stall shows only after {least}")
    poll_s = _seconds("--poll", values.pop("poll"), _DEFAULTS.poll_s)
    if not LEAST_POLL_S <= poll_s <= MOST_POLL_S:
        raise BadInput(f"--poll: give a time from {LEAST_POLL_S:g}s to {MOST_POLL_S:g}s")
    return RunOptions(
        on_stall=OnStall(values.pop("on_stall")),
        stall_timeout_s=stall_s,
        on_foreign_change=OnForeignChange(values.pop("on_foreign_change")),
        stop_on_failure=values.pop("stop_on_failure"),
        most_under_min_isr=values.pop("most_under_min_isr"),
        most_offline=values.pop("most_offline"),
        record=values.pop("record") is not False,
        poll_s=poll_s,
    )


def pop_allowances(values: dict[str, Any]) -> Allowances:
    """Remove the allowances of a plan from all values, and return them."""
    return Allowances(values.pop("factor_change"), values.pop("below_min_isr"))


def _seconds(option: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        seconds = float(parse_quantity(Seconds, int(text) if text.isdecimal() else text))
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    return seconds
