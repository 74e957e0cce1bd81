"""`ktui broker demote`: take the leadership off a broker, as a paced run."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

import click

from ktui.cli.broker.read import broker_argument, read_plan_layout
from ktui.cli.broker.runs import LeftRuns, broker_run, check_run
from ktui.cli.context.cluster import Cluster, ClusterChoice, warn_of_tls
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import allowance_options
from ktui.cli.options.run import MADE_BY_KTUI
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cli.start.new_run import carry_out, report_findings, show_dry_run
from ktui.cli.start.options import StartOptions, start_options
from ktui.execution.broker.status import unknown_broker
from ktui.execution.host.state_dir import StateDir
from ktui.ops.broker.runs import (
    DEMOTE,
    free_run_name,
    last_run_of,
    left_text,
    made_run,
    make,
    plan_text,
)
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.made_plan import CannotMake


@click.command("demote", context_settings=MADE_BY_KTUI)
@broker_argument
@cluster_options
@allowance_options
@start_options
def command(broker: int, choice: ClusterChoice, *, allowed: Allowances, how: StartOptions) -> None:
    """Move leadership away from broker ID: others lead its partitions.

    Starts a run that puts the broker last in every list of replicas, and lets the new first ones
    lead, under limits as `ktui start` does. Nothing is copied. `ktui broker undo ID` restores order
    and leaders. An unfinished run of an earlier call is carried on.

    Exit codes are those of `ktui start`; 3 also where the broker keeps a leadership, because no
    other replica is in sync.
    """
    target = choice.target()
    warn_of_tls(target.cluster)
    words = DEMOTE.words(broker)
    unfinished = _unfinished(target.cluster, how.state, words)
    if unfinished is not None and not how.dry_run:
        print_note(f"going on with run {unfinished}")
        sys.exit(LeftRuns.of(target, how).go_on(unfinished))
    layout = read_plan_layout(target.cluster)
    if broker not in layout.known:
        raise BadInput(unknown_broker(broker, layout.known))
    try:
        made = make(DEMOTE, broker, layout)
    except CannotMake as nothing:
        print_note(f"nothing to do: {nothing}")
        sys.exit(0)
    for line in left_text(made):
        print_note(line)
    if not made.plan.partitions:
        sys.exit(NOT_ALL_DONE)
    name = free_run_name(how.state, DEMOTE.run_name(broker))
    new = broker_run(name, words, made.plan, allowed, target)
    request = check_run(new, how)
    if how.dry_run:
        show_dry_run(request, json=how.json)
    report_findings(request)
    print_note(f"{words}: {plan_text(made)}")
    code = carry_out(new, request, how)
    sys.exit(code or (NOT_ALL_DONE if made.left else 0))


def _unfinished(cluster: Cluster, state: StateDir, words: str) -> str | None:
    """Return the last run for a purpose, if it has not ended."""
    last = last_run_of(state, asyncio.run(read_cluster_id(cluster)), words)
    run = None if last is None else made_run(state, last.name)
    return None if run is None or run.ended else run.name


async def read_cluster_id(cluster: Cluster) -> str:
    """Read the id of a cluster.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    async with aclosing(cluster.reader()) as reader:
        return (await reader.describe_cluster()).cluster_id
