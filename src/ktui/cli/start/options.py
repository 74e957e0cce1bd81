"""The options of the verbs that start a run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

import click
import msgspec

from ktui.cli.context.ownership_options import ownership_options
from ktui.cli.options import common
from ktui.cli.options.limits import GivenLimits, limits_options_without, new_run_limits
from ktui.cli.options.plan import parse_given_rate, rate_option
from ktui.cli.options.run import (
    concurrent_option,
    headless_option,
    parse_until,
    run_options,
    until_option,
)
from ktui.cli.options.schedule import schedule_options
from ktui.cli.options.throttle import ThrottleOptions, throttle_options
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.options import RunOptions
from ktui.units import Rate

R = TypeVar("R")


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is to be started."""

    limits: GivenLimits
    """Those that were given; they can be used."""
    exclude_internal: bool
    """Whether Kafka's own topics are left out."""
    throttle: ThrottleOptions
    options: RunOptions
    """Without the throttle."""
    schedule: SetSchedule
    """When its steps may begin."""
    until: datetime | None
    now: datetime
    """When the options were read."""
    rate: Rate | None
    """Bytes a second into each broker for the estimate, where an option names them."""
    dry_run: bool
    headless: bool
    json: bool
    concurrent: bool
    take_over: bool
    no_ownership: bool
    state: StateDir


_OPTIONS = (
    throttle_options,
    run_options,
    schedule_options,
    until_option,
    rate_option,
    click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing."),
    headless_option,
    click.option("--json", is_flag=True, help="Print each event as a line of JSON."),
    concurrent_option,
    ownership_options,
    common.state_dir_option,
)
"""The options that every such verb has, after those of the limits."""


def _start_options(
    *, until: str | None, rate: str | None, limits: GivenLimits, **others: Any
) -> StartOptions:
    """Check the options that need no cluster.

    Raises:
        BadInput: a limit or a time cannot be used.
    """
    limits, excludes = new_run_limits(limits)
    now = SystemClock().now()
    return StartOptions(
        limits=limits,
        exclude_internal=excludes,
        until=parse_until(until, now),
        rate=parse_given_rate(rate),
        now=now,
        **others,
    )


def start_options_without(*limits: str) -> Callable[[common.Verb[R]], common.Verb[R]]:
    """Return a decorator that adds the options of a run to be started.

    Passes them as `how`, a `StartOptions`.

    Args:
        limits: the limits that have no option, because the verb means something else by the name.
    """

    def decorate(verb: common.Verb[R]) -> common.Verb[R]:
        @wraps(verb)
        def with_options(**values: Any) -> R:
            fields = set(StartOptions.__struct_fields__) - {"now", "exclude_internal"}
            how = _start_options(**{name: values.pop(name) for name in fields})
            return verb(**values, how=how)

        decorated: common.Verb[R] = with_options
        for option in reversed((limits_options_without(*limits), *_OPTIONS)):
            decorated = option(decorated)
        return decorated

    return decorate


start_options = start_options_without()
"""Adds the options of a run to be started; passes them as `how`, a `StartOptions`."""
