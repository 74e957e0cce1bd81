"""`ktui start`: carry out a plan under limits, in an engine process of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from ktui.cli.context.claim import claim_request, owner_findings, ownership_options
from ktui.cli.context.target import choose_target, read_cluster_for_plan, warn_of_tls
from ktui.cli.context.terminal import print_note
from ktui.cli.doctor.permissions import permission_findings
from ktui.cli.options import common
from ktui.cli.options.limits import complete_limits, limits_options, parse_limit_options
from ktui.cli.options.plan import BAD_PLAN, read_plan_argument
from ktui.cli.options.run import (
    parse_until,
    pop_allowances,
    pop_run_options,
    run_options,
    until_option,
)
from ktui.cli.options.throttle import pop_throttle_options, throttle_options, with_throttle
from ktui.cli.output.gate import cancel_cluster_options, gate_findings
from ktui.cli.output.plan_report import finding_line
from ktui.cli.process.launch import Launch, launch_new_run
from ktui.cli.start.dry_run import DryRun, fit_in_words
from ktui.cli.start.follow import is_headless, show_run
from ktui.cli.start.request import StartRequest
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.host.catalog import unfinished_with_partitions
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import FindingKind, Severity
from ktui.quantities import as_count


@click.command("start")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@common.cluster_options
@click.option("--name", metavar="RUN", help="Name of the run. Default: that of the plan's file.")
@limits_options
@throttle_options
@run_options
@until_option
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@click.option("--headless", is_flag=True, help="Show a progress line instead of the live view.")
@click.option("--json", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--concurrent", is_flag=True, help="Allow another live run on the cluster.")
@ownership_options
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    path: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    name: str | None,
    until: str | None,
    dry_run: bool,
    headless: bool,
    json: bool,
    concurrent: bool,
    take_over: bool,
    no_ownership: bool,
    state: StateDir,
    **chosen: Any,
) -> None:
    """Carry out PLAN, a few replicas at a time, under limits that you can change meanwhile.

    The run goes on without the terminal. Interrupt it once, and it submits nothing more and waits
    for the steps in flight. Interrupt it twice, and the engine leaves at once. Either way,
    `ktui resume` continues the run.

    Exit code 0 when all is done, 3 when some partitions are not at their target, 1 when a failure
    stopped the run, 2 when nothing was sent, 130 when the run was left.
    """
    run_options, allowed = pop_run_options(chosen), pop_allowances(chosen)
    throttle = pop_throttle_options(chosen)
    given, now = parse_limit_options(chosen), SystemClock().now()
    until_at = parse_until(until, now)
    source, plan = read_plan_argument(path)
    name = name or default_name(path)
    if not dry_run:
        state.free_name(name)
    where = choose_target(bootstrap_server, command_config, context)
    warn_of_tls(where.cluster)
    run_options = with_throttle(run_options, throttle, where.cluster.context.throttle)
    is_throttled = bool(run_options.throttle)
    lacking = asyncio.run(
        permission_findings(where.cluster, plan, throttled=is_throttled, starts=True)
    )
    cluster_id, seen = asyncio.run(
        read_cluster_for_plan(where, plan, measure=is_throttled and not lacking)
    )
    own = claim_request(
        where.cluster, state, cluster_id, name, off=no_ownership, take_over=take_over
    )
    request = StartRequest(
        name=name,
        source=source,
        plan_name=clean(path.name),
        plan=plan,
        target=where,
        cluster_id=cluster_id,
        seen=seen,
        findings=(
            *lacking,
            *check_plan(plan, seen, allowed),
            *(
                gate_findings(state, cluster_id, cancel_cluster_options(where.names))
                if dry_run
                else ()
            ),
            *(asyncio.run(owner_findings(own)) if dry_run else ()),
        ),
        limits=complete_limits(seen, where.cluster.context.limits, given),
        options=run_options,
        until=until_at,
        now=now,
    )
    if dry_run:
        _dry_run(request, json=json)
    else:
        headless = is_headless(headless=headless, json=json)
        launch = Launch(
            state=state,
            name=name,
            cluster_id=cluster_id,
            names=where.names,
            until=until_at,
            concurrent=concurrent,
            owner=own,
        )
        _start(request, launch, headless=headless, json=json)


def _dry_run(request: StartRequest, *, json: bool) -> None:
    dry_run = DryRun(request)
    click.echo(dry_run.json() if json else dry_run.text())
    sys.exit(BAD_PLAN if dry_run.checked.problems else 0)


def _start(request: StartRequest, launch: Launch, *, headless: bool, json: bool) -> None:
    _report_findings(request)
    _warn_of_unfinished(request, launch.state)
    code = show_run(
        lambda: launch_new_run(launch, request.first_events()),
        request.target,
        launch.state,
        headless=headless,
        json=json,
    )
    sys.exit(code)


def _report_findings(request: StartRequest) -> None:
    """Print the findings. End the program on a problem, or with nothing to do."""
    for finding in request.findings:
        print_note(finding_line(request.source, finding))
    if any(finding.severity is Severity.PROBLEM for finding in request.findings):
        print_note("nothing was sent")
        sys.exit(BAD_PLAN)
    if any(finding.kind is FindingKind.NOTHING_TO_DO for finding in request.findings):
        print_note("nothing to do")
        sys.exit(0)
    if request.until is not None or request.options.throttle:
        figures = request.preflight()
        for finding in figures.warnings:
            print_note(finding_line(request.source, finding))
        if request.until is not None:
            print_note(fit_in_words(figures.time_s, request.until, request.now))


def _warn_of_unfinished(request: StartRequest, state: StateDir) -> None:
    partitions = [choose_target.tp for choose_target in request.plan.partitions]
    for name, left in unfinished_with_partitions(state, request.cluster_id, partitions):
        print_note(
            f"warning: run {name} is waiting for resume, with {as_count(left, 'partition')} of "
            "this plan left to move. Resumed later, it leaves out those that have changed by then"
        )
