"""`ktui broker demote` takes the leadership off a broker, as a paced run; `undo` gives it back."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from functools import partial

import click

from ktui.cli.broker.runs import LeftRuns, check_broker_run
from ktui.cli.broker.status import broker_argument, read_plan_layout
from ktui.cli.context.claim import ownership_options
from ktui.cli.context.cluster import (
    Cluster,
    ClusterChoice,
    check_same_cluster,
    read_cluster_id,
    warn_of_tls,
)
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import allowance_options
from ktui.cli.options.run import MADE_BY_KTUI, concurrent_option
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cli.start.new_run import (
    StartOptions,
    carry_out,
    report_findings,
    show_dry_run,
    start_options,
)
from ktui.cluster.clock import SystemClock
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.broker.status import unknown_broker
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.ops.broker.removal import Stopped
from ktui.ops.broker.runs import (
    DEMOTE,
    free_run_name,
    last_run_of,
    left_text,
    made_run,
    make,
    plan_text,
)
from ktui.ops.broker.undo import Undo, find_undo, left_as_is_lines, roll_back
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
    checked = check_broker_run(name, words, made.plan, allowed, target, how)
    if how.dry_run:
        show_dry_run(checked, json=how.json)
    report_findings(checked)
    print_note(f"{words}: {plan_text(made)}")
    code = carry_out(checked, target, how)
    sys.exit(code or (NOT_ALL_DONE if made.left else 0))


def _unfinished(cluster: Cluster, state: StateDir, words: str) -> str | None:
    """Return the last run for a purpose, if it has not ended."""
    last = last_run_of(state, asyncio.run(read_cluster_id(cluster)), words)
    run = None if last is None else made_run(state, last.name)
    return None if run is None or run.ended else run.name


@click.command("undo")
@broker_argument
@cluster_options
@click.option("--dry-run", is_flag=True, help="Show what would be undone, and send nothing.")
@click.option("--json", is_flag=True, help="Print each event as a line of JSON.")
@concurrent_option
@ownership_options
@common.state_dir_option
def undo(  # noqa: PLR0913 - an option each
    broker: int,
    choice: ClusterChoice,
    *,
    dry_run: bool,
    json: bool,
    concurrent: bool,
    take_over: bool,
    no_ownership: bool,
    state: StateDir,
) -> None:
    """Undo the last `ktui broker demote` of broker ID.

    Every partition gets its earlier order back, and its earlier leader, under the limits of that
    run. Partitions that others have changed since are left as they are, each with the reason. An
    undo that was interrupted goes on.

    Exit code 0 if all is as before, 3 if some is not, 2 if there is nothing to undo.
    """
    target = choice.target(changes=not dry_run)
    warn_of_tls(target.cluster)
    cluster_id = asyncio.run(read_cluster_id(target.cluster))
    _refuse_removal(RemovalFile(state, cluster_id, broker), broker)
    last = last_run_of(state, cluster_id, DEMOTE.words(broker))
    if last is None:
        raise BadInput(
            f"no run in {state.path} has demoted broker {broker} by `ktui broker demote`. To undo "
            "another run: ktui cancel RUN --rollback"
        )
    runs = LeftRuns(
        target=target,
        state=state,
        concurrent=concurrent,
        take_over=take_over,
        no_ownership=no_ownership,
        json=json,
    )
    back = _find_undo(runs, last.name)
    for line in left_as_is_lines(back.left):
        print_note(line)
    if not back.partitions:
        print_note(f"nothing to do: nothing of run {last.name} is left to be undone")
    elif dry_run:
        click.echo(back.text)
        click.echo("nothing was sent")
    else:
        print_note(back.text)
        try:
            if not roll_back(back, state, runs.cancel):
                sys.exit(NOT_ALL_DONE)
        except Stopped as stopped:
            sys.exit(stopped.code)
    sys.exit(NOT_ALL_DONE if back.left else 0)


def _find_undo(runs: LeftRuns, name: str) -> Undo:
    found = RunClient.find(runs.state, name).read_begun()
    same_cluster = partial(check_same_cluster, runs.target)

    async def find() -> Undo:
        async with aclosing(runs.target.cluster.reader()) as reader:
            return await find_undo(reader, SystemClock(), found, same_cluster)

    return asyncio.run(find())


def _refuse_removal(file: RemovalFile, broker: int) -> None:
    removal = file.load()
    if removal is not None and removal.unregistered_at is None:
        raise RunRefused(
            f"broker {broker} is being removed, and its leadership with it. To undo that: "
            f"ktui broker remove {broker} --undo"
        )
