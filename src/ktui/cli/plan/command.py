"""`ktui plan`: check a plan before anything is sent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from ktui.cli.context.claim import claim_request, owner_findings
from ktui.cli.context.cluster import Cluster, choose_cluster
from ktui.cli.doctor.permissions import permission_findings
from ktui.cli.options import common
from ktui.cli.options.limits import complete_limits, limits_options, parse_limit_options
from ktui.cli.options.plan import (
    BAD_PLAN,
    assume_rate_option,
    parse_assumed_rate,
    read_plan_argument,
)
from ktui.cli.options.throttle import pop_throttle_options, throttle_options, with_throttle
from ktui.cli.output.gate import cancel_cluster_options, gate_findings
from ktui.cli.output.json_form import encode
from ktui.cli.output.plan_json import check_json
from ktui.cli.output.plan_report import CheckedPlan, report
from ktui.cli.plan.from_run import remaining_command, rollback_command
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.options import RunOptions
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import Allowances, ClusterSnapshot, Option
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan
from ktui.planning.preflight.preflight import preflight
from ktui.planning.preflight.steps import steps_of


@click.group("plan")
def command() -> None:
    """Check reassignment plans, or make them from runs. Changes nothing."""


command.add_command(remaining_command)
command.add_command(rollback_command)


@command.command("check")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@common.cluster_options
@common.state_dir_option
@common.json_option
@click.option("--steps", is_flag=True, help="Also show each partition's steps under the limits.")
@limits_options
@throttle_options
@assume_rate_option
@click.option(
    Option.REPLICATION_FACTOR_CHANGE.value,
    "factor_change",
    is_flag=True,
    help="Allow the plan to change how many replicas a partition has.",
)
@click.option(
    Option.BELOW_MIN_ISR.value,
    "below_min_isr",
    is_flag=True,
    help="Allow the plan to leave fewer replicas than min.insync.replicas.",
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
    """Check PLAN against the cluster, and show what it would do. Sends nothing.

    PLAN is a file in the format of kafka-reassign-partitions, or - for standard input. All mistakes
    in a file that is not a plan are reported before ktui connects to anything.

    Exit code 2 if there is a problem, 0 if there are only warnings or none.
    """
    throttle, rate = pop_throttle_options(chosen), parse_assumed_rate(assume_rate)
    given = parse_limit_options(chosen)
    name, plan = read_plan_argument(path)
    cluster = choose_cluster(bootstrap_server, command_config, context)
    whose = cancel_cluster_options(
        {
            "bootstrap_server": bootstrap_server,
            "command_config": command_config,
            "context": context,
        }
    )
    options = with_throttle(RunOptions(), throttle, cluster.context.throttle)
    is_throttled = bool(options.throttle)
    lacking = asyncio.run(permission_findings(cluster, plan, throttled=is_throttled, starts=False))
    cluster_id, seen = asyncio.run(_snapshot(cluster, plan, measure=is_throttled))
    in_force = complete_limits(seen, cluster.context.limits, given)
    checked = CheckedPlan(
        plan=name,
        cluster=cluster.name,
        findings=(
            *lacking,
            *check_plan(plan, seen, Allowances(factor_change, below_min_isr)),
            *gate_findings(state, cluster_id, whose),
            *asyncio.run(owner_findings(claim_request(cluster, state, cluster_id, ""))),
        ),
        preflight=preflight(
            plan,
            seen,
            in_force,
            rate,
            options.throttle,
            throttle_leaders=options.throttle_leaders,
        ),
        throttle=options.throttle,
        throttle_leaders=options.throttle_leaders,
        partitions=steps_of(plan, seen, in_force) if steps else None,
    )
    click.echo(encode(check_json(checked)) if json else report(checked))
    if checked.problems:
        sys.exit(BAD_PLAN)


async def _snapshot(cluster: Cluster, plan: Plan, *, measure: bool) -> tuple[str, ClusterSnapshot]:
    reader = cluster.reader()
    try:
        cluster_id = (await reader.describe_cluster()).cluster_id
        return cluster_id, await take_snapshot(reader, plan, SystemClock() if measure else None)
    finally:
        await reader.aclose()
