"""`ktui plan`: check a plan before anything is sent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from ktui.cli.context.claim import claim_request
from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.limits import GivenLimits, check_limits, complete_limits, limits_options
from ktui.cli.options.plan import (
    BAD_PLAN,
    allowance_options,
    assume_rate_option,
    parse_assumed_rate,
    read_plan_argument,
)
from ktui.cli.options.throttle import ThrottleOptions, throttle_options, with_throttle
from ktui.cli.output.gate import cancel_cluster_options, gate_findings
from ktui.cli.output.json_form import encode
from ktui.cli.output.plan_report import CheckedPlan, check_json, report
from ktui.cli.plan.cluster_facts import read_cluster_facts
from ktui.cli.plan.from_run import remaining_command, rollback_command
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.execution.run.options import RunOptions
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import Allowances
from ktui.planning.preflight.preflight import preflight
from ktui.planning.preflight.steps import steps_of


@click.group("plan")
def command() -> None:
    """Check reassignment plans, or make them from runs. Changes nothing."""


command.add_command(remaining_command)
command.add_command(rollback_command)


@command.command("check")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@common.state_dir_option
@common.json_option
@click.option("--steps", is_flag=True, help="Also show each partition's steps under the limits.")
@limits_options
@throttle_options
@assume_rate_option
@allowance_options
def check(  # noqa: PLR0913 - an option each
    path: Path,
    choice: ClusterChoice,
    *,
    json: bool,
    steps: bool,
    assume_rate: str | None,
    limits: GivenLimits,
    throttle: ThrottleOptions,
    allowed: Allowances,
    state: StateDir,
) -> None:
    """Check PLAN against the cluster, and show what it would do. Sends nothing.

    PLAN is a file in the format of kafka-reassign-partitions, or - for standard input. All mistakes
    in a file that is not a plan are reported before ktui connects to anything.

    Exit code 2 if there is a problem, 0 if there are only warnings or none.
    """
    rate = parse_assumed_rate(assume_rate)
    check_limits(limits)
    name, plan = read_plan_argument(path)
    cluster = choice.cluster()
    whose = cancel_cluster_options(choice._asdict())
    options = with_throttle(RunOptions(), throttle, cluster.context)
    facts = asyncio.run(
        read_cluster_facts(
            cluster,
            plan,
            state,
            throttled=bool(options.throttle),
            starts=False,
            canary=options.canary_of(default_name(path), options.throttle),
            claim=lambda cluster_id: claim_request(cluster, state, cluster_id, ""),
        )
    )
    in_force = complete_limits(cluster.context.limits, limits)
    checked = CheckedPlan(
        plan=name,
        cluster=cluster.name,
        findings=(
            *facts.lacking,
            *check_plan(plan, facts.seen, allowed),
            *gate_findings(state, facts.cluster_id, whose),
            *facts.owner,
        ),
        preflight=preflight(
            plan,
            facts.seen,
            in_force,
            rate,
            options.throttle,
            throttle_leaders=options.throttle_leaders,
        ),
        throttle=options.throttle,
        throttle_leaders=options.throttle_leaders,
        partitions=steps_of(plan, facts.seen, in_force) if steps else None,
    )
    click.echo(encode(check_json(checked)) if json else report(checked))
    if checked.problems:
        sys.exit(BAD_PLAN)
