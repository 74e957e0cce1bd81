"""`ktui plan`: what is to be known of a plan before anything is sent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from ktui.cli import options
from ktui.cli.cancel_gate_told import gate_findings, of_cluster
from ktui.cli.claiming import claiming, owner_findings
from ktui.cli.cluster import Cluster, choose_cluster
from ktui.cli.partition_json import encode
from ktui.cli.plan_json import check_json
from ktui.cli.plan_limits import given_limits, limits_for, limits_options
from ktui.cli.plan_permissions import permission_findings
from ktui.cli.plan_rate import assume_rate_option, given_rate
from ktui.cli.plan_remaining import remaining_command
from ktui.cli.plan_report import Checked, report
from ktui.cli.plan_rollback import rollback_command
from ktui.cli.plan_source import BAD_PLAN, given_plan
from ktui.cli.throttle_options import given_throttle, throttle_options, throttled
from ktui.cluster.clock import SystemClock
from ktui.execution.options import RunOptions
from ktui.execution.statedir import StateDir
from ktui.planning.check import check_plan
from ktui.planning.finding import Allowances, ClusterSnapshot, Option
from ktui.planning.plan import Plan
from ktui.planning.preflight import preflight
from ktui.planning.snapshot import take_snapshot
from ktui.planning.steps import steps_of


@click.group("plan")
def command() -> None:
    """Check plans of reassignments, and make them of runs. Changes nothing."""


command.add_command(remaining_command)
command.add_command(rollback_command)


@command.command("check")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@options.cluster_options
@options.state_dir_option
@options.json_option
@click.option("--steps", is_flag=True, help="Also each partition's steps, under the limits.")
@limits_options
@throttle_options
@assume_rate_option
@click.option(
    Option.REPLICATION_FACTOR_CHANGE.value,
    "factor_change",
    is_flag=True,
    help="Let the plan change how many replicas a partition has.",
)
@click.option(
    Option.BELOW_MIN_ISR.value,
    "below_min_isr",
    is_flag=True,
    help="Let the plan leave fewer replicas than min.insync.replicas.",
)
def check(  # noqa: PLR0913 - an option each
    path: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    json: bool,
    steps: bool,
    assume_rate: str | None,
    factor_change: bool,
    below_min_isr: bool,
    state: StateDir,
    **chosen: Any,
) -> None:
    """Read PLAN, hold it against the cluster, and say what it would do. Sends nothing.

    PLAN is a file as kafka-reassign-partitions takes it, or - for standard input. A file that
    cannot be read as a plan is told with all its mistakes, before anything is connected to.

    Exit code 2 when there is a problem, 0 when there are warnings at most.
    """
    throttle, rate = given_throttle(chosen), given_rate(assume_rate)
    given = given_limits(chosen)
    name, plan = given_plan(path)
    cluster = choose_cluster(bootstrap_server, command_config, context)
    whose = of_cluster(
        {
            "bootstrap_server": bootstrap_server,
            "command_config": command_config,
            "context": context,
        }
    )
    wanted = throttled(RunOptions(), throttle, cluster.context.throttle)
    is_throttled = bool(wanted.throttle)
    lacking = asyncio.run(permission_findings(cluster, plan, throttled=is_throttled, starts=False))
    cluster_id, seen = asyncio.run(_look(cluster, plan, measure=is_throttled))
    in_force = limits_for(seen, cluster.context.limits, given)
    checked = Checked(
        plan=name,
        cluster=cluster.name,
        findings=(
            *lacking,
            *check_plan(plan, seen, Allowances(factor_change, below_min_isr)),
            *gate_findings(state, cluster_id, whose),
            *asyncio.run(owner_findings(claiming(cluster, state, cluster_id, ""))),
        ),
        preflight=preflight(
            plan,
            seen,
            in_force,
            rate,
            wanted.throttle,
            throttle_leaders=wanted.throttle_leaders,
        ),
        throttle=wanted.throttle,
        throttle_leaders=wanted.throttle_leaders,
        partitions=steps_of(plan, seen, in_force) if steps else None,
    )
    click.echo(encode(check_json(checked)) if json else report(checked))
    if checked.problems:
        sys.exit(BAD_PLAN)


async def _look(cluster: Cluster, plan: Plan, *, measure: bool) -> tuple[str, ClusterSnapshot]:
    """Give the cluster's id, and all that the plan is about."""
    reader = cluster.reader()
    try:
        cluster_id = (await reader.describe_cluster()).cluster_id
        return cluster_id, await take_snapshot(reader, plan, SystemClock() if measure else None)
    finally:
        await reader.aclose()
