"""`ktui limits`: show or change how much of a run may move at once, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.options import common
from ktui.cli.options.limits import limits_options, parse_limit_options
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table
from ktui.cli.process.send_command import run_with_engine, send_command
from ktui.execution.host.catalog import find_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import SetLimits
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.run import Run
from ktui.pacing.limits import CHOICES, COUNTS, Limits, LimitsProblem, parse_limits


class LimitsJson(msgspec.Struct, frozen=True):
    """The output of `ktui limits RUN --json` without a change."""

    schema_version: int
    run: str
    limits: Limits
    since_batch: int
    """The first decision that the limits bind."""


@click.command("limits")
@common.run_argument
@limits_options
@common.state_dir_option
@common.json_option
def command(name: str, *, state: StateDir, json: bool, **limits: str | None) -> None:
    """Show or change the limits of RUN; unnamed ones keep their value.

    New limits bind from the next decision on. Steps in flight stay as they are. Waits up to 30 s
    for the engine's answer, which names that decision. Without an engine nothing changes: resume
    the run first.
    """
    given = parse_limit_options(limits)
    run_dir = find_run(state, name)
    if given:
        _check(given, run_with_engine(run_dir))
        send_command(
            run_dir, SetLimits(cast("dict[str, int | str | None]", dict(given))), json=json
        )
        return
    with RunFollower(run_dir.journal) as follower:
        follower.refresh()
    click.echo(_as_json(follower.run) if json else _as_text(follower.run))


def _check(given: Mapping[str, object], run: Run) -> None:
    """Check new limits together with the ones that stay, before anything is written."""
    try:
        parse_limits(given, run.limits)
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem


def _as_json(run: Run) -> str:
    return encode(LimitsJson(SCHEMA_VERSION, run.name, run.limits, run.limits_changed_at + 1))


def _as_text(run: Run) -> str:
    rows = [(f"--{option}", _value(run.limits, option)) for option in (*COUNTS, *CHOICES)]
    return table((f"LIMITS OF {run.name}", "IN FORCE"), rows)


def _value(limits: Limits, option: str) -> str:
    value = getattr(limits, option.replace("-", "_"))
    return "none" if value is None else str(value)
