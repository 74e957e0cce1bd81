"""`ktui start`: carry out a plan under limits, in an engine process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktui.cli.context.cluster import ClusterChoice, warn_of_tls
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import allowance_options, read_plan_argument
from ktui.cli.start.new_run import (
    StartOptions,
    carry_out,
    check_new_run,
    report_findings,
    show_dry_run,
    start_options,
)
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import default_name
from ktui.planning.check.findings import Allowances


@click.command("start")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@click.option("--name", metavar="RUN", help="Name of the run. Default: that of the plan's file.")
@allowance_options
@start_options
def command(
    path: Path,
    choice: ClusterChoice,
    *,
    name: str | None,
    allowed: Allowances,
    how: StartOptions,
) -> None:
    """Carry out PLAN, a few replicas at a time, under limits that you can change meanwhile.

    The run goes on without the terminal. Interrupt it once, and it submits nothing more and waits
    for the steps in flight. Interrupt it twice, and the engine leaves at once. Either way,
    `ktui resume` continues the run.

    Exit code 0 when all is done, 3 when some partitions are not at their target, 1 when a failure
    stopped the run, 2 when nothing was sent, 130 when the run was left.
    """
    source, plan = read_plan_argument(path)
    run = name or default_name(path)
    if not how.dry_run:
        how.state.free_name(run)
    target = choice.target()
    warn_of_tls(target.cluster)
    new = how.new_run(
        target.cluster.context,
        run,
        plan,
        plan_name=clean(path.name),
        allowed=allowed,
        source=source,
    )
    checked = check_new_run(new, target, how)
    if how.dry_run:
        show_dry_run(checked, json=how.json)
    report_findings(checked)
    sys.exit(carry_out(checked, target, how))
