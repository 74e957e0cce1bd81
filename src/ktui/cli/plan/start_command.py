"""The command that starts a plan, with the options under which it was made."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import click

from ktui.cli.options.common import given_options, state_option
from ktui.cli.options.run import URGENT_FIRST
from ktui.cli.options.throttle import throttle_options
from ktui.cli.output.gate import options_of_names
from ktui.cli.plan.check_options import CheckOptions
from ktui.planning.check.findings import Allowances, Option


@click.command()
@throttle_options
def _throttled(**_options: object) -> None:
    """Have the throttle options, for their names."""


_OF_THROTTLE = frozenset(parameter.name for parameter in _throttled.params)


def start_command(output: Path | None, run: str, allowed: Allowances, how: CheckOptions) -> str:
    """Return the command that starts a plan, with the options that were given for its check.

    A plan that ktui has made from an intention lets urgent partitions go first.

    Args:
        output: the plan's file; None for a pipe.
        run: the name of the run, where no file names it.
        allowed: what the plan has to be allowed.
        how: the cluster and the limits.
    """
    plan = ["-", "--name", run] if output is None else [str(output)]
    limits = (word for name, value in how.limits.items() for word in (f"--{name}", str(value)))
    named = options_of_names(how.choice._asdict())
    throttle = given_options(_OF_THROTTLE)
    words = [*plan, *named, URGENT_FIRST, *limits, *throttle, *_allowances(allowed)]
    return f"ktui start {shlex.join(words)}{state_option(how.state)}"


def _allowances(allowed: Allowances) -> Iterable[str]:
    if allowed.replication_factor_change:
        yield Option.REPLICATION_FACTOR_CHANGE.value
    if allowed.below_min_isr:
        yield Option.BELOW_MIN_ISR.value
    if allowed.slow:
        yield Option.SLOW.value
