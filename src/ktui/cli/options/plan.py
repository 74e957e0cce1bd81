"""The plan of a command line: a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BAD_INPUT, BadInput, print_note
from ktui.cli.options.common import parse_amount
from ktui.cluster.text import clean
from ktui.inputfile import Unreadable, read_pipe
from ktui.planning.check.findings import Allowances, Option
from ktui.planning.json_cursor import BadPlan
from ktui.planning.plan import MOST_BYTES, Plan
from ktui.planning.read import read_plan
from ktui.quantities import Rate

OPTION = "--rate"


def _rate(text: str) -> float:
    if (rate := parse_amount(OPTION, Rate, text)) < 1:
        raise BadInput(f"{OPTION}: {text} would never copy anything. Give a rate such as 50MB/s")
    return rate


rate_option = add_option(
    f"{OPTION} RATE",
    "Rate into each broker for time estimates, such as 80MB/s. Default: by earlier runs, else "
    "assumed.",
    reads=_rate,
)


below_min_isr_option = add_option(
    Option.BELOW_MIN_ISR.value,
    "Allow the plan to leave fewer replicas than min.insync.replicas.",
    "below_min_isr",
)

slow_option = add_option(
    Option.SLOW.value, "Allow a throttle under which, by the estimate, no copy ends.", "slow"
)

allowance_options = Grouped(
    "allowed",
    Allowances,
    add_option(
        Option.REPLICATION_FACTOR_CHANGE.value,
        "Allow the plan to change how many replicas a partition has.",
        "replication_factor_change",
    ),
    below_min_isr_option,
    slow_option,
)

STANDARD_INPUT = Path("-")
_SHOWN_AS = Path("<stdin>")


def read_plan_argument(path: Path) -> tuple[str, Plan]:
    """Return the name of the plan's source, and the plan. A bad plan ends the program."""
    shown = _SHOWN_AS if path == STANDARD_INPUT else path
    try:
        plan = read_plan(_source(path))
    except BadPlan as bad:
        click.echo(str(BadPlan(bad.problems, bad.more, shown)), err=True)
        sys.exit(BAD_INPUT)
    if plan.note:
        print_note(f"{shown}: {plan.note}")
    return clean(str(shown)), plan


def _source(path: Path) -> bytes | Path:
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise BadInput("there is no standard input to read the plan from. Name a file")
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        return read_pipe(path, MOST_BYTES) if path.is_fifo() else path
    except Unreadable as why:
        raise BadInput(f"{path}: cannot be read: {why}") from None
