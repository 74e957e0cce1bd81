"""A new run: checked against its cluster, shown, or started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
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
from ktui.cli.output.cluster_facts import Standing, read_facts
from ktui.cli.output.json_form import encode
from ktui.cli.output.plan_report import finding_lines
from ktui.cli.process.launch import Launch, launch_new_run
from ktui.cli.start.dry_run import dry_run_of, dry_run_text
from ktui.cli.start.follow import is_headless, show_run
from ktui.cli.start.options import StartOptions
from ktui.cli.start.request import StartRequest
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.planning.check.findings import (
    Allowances,
    ClusterSnapshot,
    FindingKind,
)
from ktui.planning.check.internal_left_out import leave_out_internal
from ktui.planning.check.permissions import TO_START
from ktui.planning.plan import Plan
from ktui.preview.preview import PreviewBase

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
    asked_for: frozenset[FindingKind] = frozenset()
    """Findings of these kinds are what the operator asked for, and are not shown."""


def check_new_run(new: PlannedRun, how: StartOptions) -> StartRequest:
    """Read the cluster for a run, and return the request for it.

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
    limits = complete_limits(cluster.context.limits, how.limits)
    terms = options.terms(limits, new.allowed, new.name)
    standing = Standing(
        state=how.state,
        names=new.target.names,
        claim=lambda cluster_id: _claim(new, how, cluster_id),
    )
    facts = read_facts(
        cluster,
        plan,
        TO_START,
        how.state,
        standing if how.dry_run else None,  # a start that follows finds it out by itself
        throttles=terms.throttles,
        canary=terms.canary,
    )
    facts = msgspec.structs.replace(facts, seen=_with_created(facts.seen, new.created))
    return StartRequest(
        name=new.name,
        plan_name=new.plan_name,
        target=new.target,
        base=PreviewBase(plan, facts, source=new.source, rate=how.rate),
        terms=terms,
        options=options,
        left_out=left_out,
        asked_for=new.asked_for,
        until=how.until,
        now=how.now,
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
    dry_run = dry_run_of(request)
    click.echo(encode(dry_run) if json else dry_run_text(dry_run))
    sys.exit(BAD_PLAN if dry_run.problems else 0)


def report_findings(request: StartRequest) -> None:
    """Print the findings. End the program on a problem, or with nothing to do."""
    preview = request.preview
    for line in finding_lines(preview):
        print_note(line)
    if preview.problems:
        print_note("nothing was sent")
        sys.exit(BAD_PLAN)
    if preview.idle:
        print_note("nothing to do")
        sys.exit(0)


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
        cluster_id=request.base.facts.cluster_id,
        names=new.target.names,
        until=how.until,
        concurrent=how.concurrent,
        owner=_claim(new, how, request.base.facts.cluster_id),
    )
    return show_run(
        lambda: launch_new_run(launch, request.first_events(), before),
        new.target,
        how.state,
        headless=is_headless(headless=how.headless, json=how.json),
        json=how.json,
    )
