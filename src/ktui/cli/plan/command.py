"""`ktui plan`: check a plan before anything is sent, or make one."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktui.cli.context.option import GroupedCommand, add_option
from ktui.cli.options import common
from ktui.cli.options.plan import BAD_PLAN, allowance_options, read_plan_argument
from ktui.cli.output.json_form import encode
from ktui.cli.output.plan_report import report
from ktui.cli.plan.from_run import remaining_command, rollback_command, undo_command
from ktui.cli.plan.make import COMMANDS
from ktui.cli.plan.make_options import CheckOptions, check_options
from ktui.execution.host.state_dir import default_name
from ktui.planning.check.findings import Allowances


@click.group("plan")
def command() -> None:
    """Check reassignment plans, or make them: from what you want, or from runs. Changes nothing."""


@command.command("check", cls=GroupedCommand)
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@common.json_option
@add_option("--steps", "Also show each partition's steps under the limits.")
@check_options
@allowance_options
def check(path: Path, *, json: bool, steps: bool, how: CheckOptions, allowed: Allowances) -> None:
    """Check PLAN against the cluster, and show what it would do. Sends nothing.

    PLAN is a file in the format of kafka-reassign-partitions, or - for standard input. All mistakes
    in a file that is not a plan are reported before ktui connects to anything.

    Exit code 2 if there is a problem, 0 if there are only warnings or none.
    """
    name, plan = read_plan_argument(path)
    preview = how.check(
        plan,
        how.choice.cluster(),
        source=name,
        run=default_name(path),
        allowed=allowed,
        steps=steps,
    )
    click.echo(encode(preview) if json else report(preview))
    if preview.problems:
        sys.exit(BAD_PLAN)


for verb in (*COMMANDS, remaining_command, rollback_command, undo_command):
    command.add_command(verb)
