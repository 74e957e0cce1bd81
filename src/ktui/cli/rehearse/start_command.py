"""The commands that carry a rehearsed plan out, with the limits and the throttle of its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
import msgspec

from ktui.cli.context.config import Context
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.common import given_options, state_option
from ktui.cli.options.limits import EXCLUDE, limits_beyond_context
from ktui.cli.options.plan import allowance_options
from ktui.cli.options.run import rehearsed_run_options, until_option
from ktui.cli.options.schedule import BY, START_AT, WINDOW
from ktui.cli.options.throttle import LEADERS, THROTTLE, throttle_options
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.execution.run.options import Schedule
from ktui.pacing.limits import INTERNAL, OF_ONE_BROKER, Limits, limit_text
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.rehearsal.summary import Settings


@click.command()
@cluster_options
@allowance_options
@throttle_options
@rehearsed_run_options
@until_option
def _started(**_options: object) -> None:
    """Have the options of a start that a rehearsal takes as they are, for their names."""


_RATES = frozenset({"throttle", "budget", "slo"})
_AS_GIVEN = frozenset(option.name or "" for option in _started.params) - _RATES


def options_as_given() -> tuple[str, ...]:
    """Return the options of the present command line that its start has, too.

    Limits, rates and schedule are not among them: they may change while a rehearsal goes on.
    """
    return tuple(given_options(_AS_GIVEN))


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a start of a rehearsed plan has, beside its limits, its throttle and its schedule."""

    path: Path
    """The plan."""
    given: tuple[str, ...]
    """Options, as they were given."""
    context: Context
    """The context whose limits and throttle hold without options."""
    state: StateDir
    exclude_internal: bool

    def lines(self, settings: Settings) -> tuple[str, ...]:
        """Return the command of the start, and those for what a run gets once it has begun."""
        return tuple(clean(line) for line in self._lines(settings))

    def _lines(self, settings: Settings) -> Iterator[str]:
        state = state_option(self.state)
        options = limits_beyond_context(settings.limits, self.context.limits)
        if self.exclude_internal:
            options[INTERNAL] = EXCLUDE
        words = [
            str(self.path),
            *self._with_throttle(settings.throttle),
            *(word for option, value in options.items() for word in (f"--{option}", value)),
            *_schedule(settings.schedule),
        ]
        yield f"ktui start {shlex.join(words)}{state}"
        run = default_name(self.path)
        for words in _of_brokers(settings.limits):
            yield f"ktui limits {shlex.join([run, *words])}{state}"

    def _with_throttle(self, throttle: str) -> Iterator[str]:
        rates = parse_throttle_rates(throttle)
        yield from (word for word in self.given if rates or word != LEADERS)
        if rates != parse_throttle_rates(str(self.context.throttle or "none")):
            yield from (THROTTLE, throttle)


def _schedule(schedule: Schedule) -> Iterator[str]:
    if schedule.start_at is not None:
        yield from (START_AT, _moment(schedule.start_at))
    if schedule.window:
        yield from (WINDOW, schedule.window)
    if schedule.by is not None:
        yield from (BY, _moment(schedule.by))


def _moment(at: datetime) -> str:
    return at.astimezone().isoformat(timespec="seconds")


def _of_brokers(limits: Limits) -> Iterator[list[str]]:
    """Yield the options of each broker that has limits of its own."""
    for each in limits.brokers:
        words = ["--broker", str(each.broker)]
        for option in OF_ONE_BROKER:
            own = limits.own_of(option)
            if each.broker in own:
                words += [f"--{option}", limit_text(option, own[each.broker])]
        yield words
