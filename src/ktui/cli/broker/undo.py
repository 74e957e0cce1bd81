"""`ktui broker undo`: the order and the leaders from before the last demote of a broker."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from functools import partial

import click

from ktui.cli.broker.demote import read_cluster_id
from ktui.cli.broker.read import broker_argument
from ktui.cli.broker.runs import LeftRuns
from ktui.cli.context.cluster import ClusterChoice, check_same_cluster, warn_of_tls
from ktui.cli.context.errors import BadInput
from ktui.cli.context.ownership_options import ownership_options
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.run import concurrent_option
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cluster.clock import SystemClock
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.ops.broker.runs import DEMOTE, last_run_of
from ktui.ops.undo import Undo, find_undo, left_as_is_lines


@click.command("undo")
@broker_argument
@cluster_options
@click.option("--dry-run", is_flag=True, help="Show what would be undone, and send nothing.")
@click.option("--json", is_flag=True, help="Print each event as a line of JSON.")
@concurrent_option
@ownership_options
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
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
    undo = _find_undo(runs, last.name)
    for line in left_as_is_lines(undo.left):
        print_note(line)
    if not undo.partitions:
        print_note(f"nothing to do: nothing of run {last.name} is left to be undone")
    elif dry_run:
        click.echo(undo.text)
        click.echo("nothing was sent")
    elif not _roll_back(runs, undo):
        sys.exit(NOT_ALL_DONE)
    sys.exit(NOT_ALL_DONE if undo.left else 0)


def _find_undo(runs: LeftRuns, name: str) -> Undo:
    found = RunClient.find(runs.state, name).read_begun()
    same_cluster = partial(check_same_cluster, runs.target)

    async def find() -> Undo:
        async with aclosing(runs.target.cluster.reader()) as reader:
            return await find_undo(reader, SystemClock(), found, same_cluster)

    return asyncio.run(find())


def _roll_back(runs: LeftRuns, undo: Undo) -> bool:
    """Roll a run back, and return whether all that is undone is as before.

    Ends the program if the run was left before its end.
    """
    print_note(undo.text)
    code = runs.cancel(undo.run.name, CancelKind.ROLLBACK, undo.partitions)
    run = RunClient.find(runs.state, undo.run.name).read().run
    if not run.ended:
        sys.exit(code)
    return not undo.not_back(run)


def _refuse_removal(file: RemovalFile, broker: int) -> None:
    removal = file.load()
    if removal is not None and removal.unregistered_at is None:
        raise RunRefused(
            f"broker {broker} is being removed, and its leadership with it. To undo that: "
            f"ktui broker remove {broker} --undo"
        )
