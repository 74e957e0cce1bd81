"""A new run: checked against its cluster, shown, or started."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NoReturn

import click
import msgspec

from ktui.cli.context.claim import ClaimRequest, claim_request
from ktui.cli.context.cluster import Target
from ktui.cli.context.terminal import print_note
from ktui.cli.options.limits import complete_limits
from ktui.cli.options.outward import with_event_command
from ktui.cli.options.plan import BAD_PLAN
from ktui.cli.options.throttle import with_throttle
from ktui.cli.output.gate import cancel_cluster_options, gate_findings
from ktui.cli.output.plan_report import finding_line
from ktui.cli.plan.cluster_facts import read_cluster_facts
from ktui.cli.process.launch import Launch, launch_new_run
from ktui.cli.start.dry_run import DryRun, fit_in_words, promise_in_words
from ktui.cli.start.follow import is_headless, show_run
from ktui.cli.start.options import StartOptions
from ktui.cli.start.request import StartRequest
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.catalog import unfinished_with_partitions
from ktui.execution.host.state_dir import StateDir
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import (
    Allowances,
    ClusterSnapshot,
    Finding,
    FindingKind,
    Severity,
)
from ktui.planning.check.internal_left_out import leave_out_internal
from ktui.planning.plan import Plan
from ktui.quantities import as_count
from ktui.speed.capacity import Capacity

NONE_CREATED: Mapping[TopicPartition, PartitionState] = MappingProxyType({})


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run, and where it is to be carried out."""

    name: str
    source: str
    """Where the plan comes from, cleaned for the terminal."""
    plan_name: str
    plan: Plan
    allowed: Allowances
    target: Target
    created: Mapping[TopicPartition, PartitionState] = NONE_CREATED
    """Partitions that are to be created, empty, before the run: as they will be."""


def check_new_run(new: PlannedRun, how: StartOptions) -> StartRequest:
    """Read the cluster, and check a run against it.

    Raises:
        BadInput: options contradict the context.
        ClusterError: the cluster cannot be read.
    """
    cluster = new.target.cluster
    plan, left_out = leave_out_internal(new.plan) if how.exclude_internal else (new.plan, ())
    options = with_throttle(how.options, how.throttle, cluster.context)
    options = with_event_command(options, cluster.context.on_event)
    schedule = how.schedule.applied_to(options.schedule)
    options = msgspec.structs.replace(options, schedule=schedule)
    facts = asyncio.run(
        read_cluster_facts(
            cluster,
            plan,
            how.state,
            throttled=options.throttles,
            starts=True,
            canary=options.canary_of(new.name, options.throttle),
            claim=(lambda cluster_id: _claim(new, how, cluster_id)) if how.dry_run else None,
        )
    )
    cluster_id, seen = facts.cluster_id, _with_created(facts.seen, new.created)
    gate = cancel_cluster_options(new.target.names)
    return StartRequest(
        name=new.name,
        source=new.source,
        plan_name=new.plan_name,
        plan=plan,
        target=new.target,
        cluster_id=cluster_id,
        seen=seen,
        findings=(
            *facts.lacking,
            *check_plan(plan, seen, new.allowed),
            *left_out,
            *(gate_findings(how.state, cluster_id, gate) if how.dry_run else ()),
            *facts.owner,
        ),
        slow=new.allowed.slow,
        limits=complete_limits(cluster.context.limits, how.limits),
        options=options,
        until=how.until,
        now=how.now,
        known=Capacity(EarlierRuns(how.state)(cluster_id), given=how.rate),
    )


def _claim(new: PlannedRun, how: StartOptions, cluster_id: str) -> ClaimRequest | None:
    return claim_request(
        new.target.cluster,
        how.state,
        cluster_id,
        new.name,
        off=how.no_ownership,
        take_over=how.take_over,
    )


def _with_created(
    seen: ClusterSnapshot, created: Mapping[TopicPartition, PartitionState]
) -> ClusterSnapshot:
    sizes = {Replica(tp, broker): 0 for tp, state in created.items() for broker in state.replicas}
    return msgspec.structs.replace(
        seen,
        partitions={**seen.partitions, **created},
        sizes={**seen.sizes, **sizes},
        inbound={**seen.inbound, **dict.fromkeys(created, 0)},
    )


def show_dry_run(request: StartRequest, *, json: bool) -> NoReturn:
    """Print what a run would send, and end the program."""
    dry_run = DryRun(request)
    click.echo(dry_run.json() if json else dry_run.text())
    sys.exit(BAD_PLAN if dry_run.checked.problems else 0)


def report_findings(request: StartRequest, state: StateDir) -> None:
    """Print the findings. End the program on a problem, or with nothing to do."""
    for finding in request.findings:
        print_note(finding_line(request.source, finding))
    _end_on_problem(request.findings)
    if any(finding.kind is FindingKind.NOTHING_TO_DO for finding in request.findings):
        print_note("nothing to do")
        sys.exit(0)
    by = request.options.schedule.by
    if request.until is not None or request.options.throttles:
        figures = request.preflight()
        for finding in figures.warnings:
            print_note(finding_line(request.source, finding))
        _end_on_problem(figures.warnings)
        if request.until is not None:
            print_note(fit_in_words(figures.how_long, request.until, request.now))
        if by is not None:
            print_note(
                promise_in_words(figures.how_long, request.options.schedule, by, request.now)
            )
    _warn_of_unfinished(request, state)


def _end_on_problem(findings: Iterable[Finding]) -> None:
    if any(finding.severity is Severity.PROBLEM for finding in findings):
        print_note("nothing was sent")
        sys.exit(BAD_PLAN)


def _warn_of_unfinished(request: StartRequest, state: StateDir) -> None:
    partitions = [each.tp for each in request.plan.partitions]
    for name, left in unfinished_with_partitions(state, request.cluster_id, partitions):
        print_note(
            f"warning: run {name} is waiting for resume, with {as_count(left, 'partition')} of "
            "this plan left to move. Resumed later, it leaves out those that have changed by then"
        )


def start_run(
    new: PlannedRun,
    request: StartRequest,
    how: StartOptions,
    before: Callable[[], None] = lambda: None,
) -> NoReturn:
    """Start a run, show it, and end the program; see `carry_out`."""
    sys.exit(carry_out(new, request, how, before))


def carry_out(
    new: PlannedRun,
    request: StartRequest,
    how: StartOptions,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Start a run, show it, and return the exit code.

    Args:
        new: the run.
        request: the same, checked.
        how: the options.
        before: does what precedes the run, once nothing forbids its start.
    """
    launch = Launch(
        state=how.state,
        name=new.name,
        cluster_id=request.cluster_id,
        names=new.target.names,
        until=how.until,
        concurrent=how.concurrent,
        owner=_claim(new, how, request.cluster_id),
    )
    return show_run(
        lambda: launch_new_run(launch, request.first_events(), before),
        new.target,
        how.state,
        headless=is_headless(headless=how.headless, json=how.json),
        json=how.json,
    )
