"""`ktui runs export`: write a run into a file, to go on in another state directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from ktui.cli.context.claim import (
    NO_OWNERSHIP,
    ClaimRequest,
    claim_request,
    no_ownership_option,
    release_cluster,
)
from ktui.cli.context.target import Target, check_cluster, choose_target, cluster_names_of_run
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.process.left_run import read_run
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import find_run, throttles_left
from ktui.execution.host.hand_over import export_run
from ktui.execution.host.ownership import LiveRun, holder, lock_starts
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.quantities import as_count


class ExportJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui runs export --json`."""

    schema_version: int
    run: str
    file: str
    partitions_left: int
    owned: str | None
    """Why the cluster was not released: no answer, or another owner; null if it was released."""


@click.command("export", short_help="Write a run into a file, to go on elsewhere.")
@common.run_argument
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@common.cluster_options
@no_ownership_option
@common.state_dir_option
@common.json_option
def command(  # noqa: PLR0913 - an option each
    name: str,
    file: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    no_ownership: bool,
    state: StateDir,
    json: bool,
) -> None:
    """Write RUN into FILE and release its cluster; `ktui runs import` continues it elsewhere.

    RUN must not have an engine. Steps in flight go on in Kafka. In this state directory the run is
    then `exported` and cannot be resumed. Its recording stays here.
    """
    run_dir = find_run(state, name)
    found = read_run(run_dir)
    where = choose_target(
        *cluster_names_of_run((bootstrap_server, command_config, context), found.begun)
    )
    cluster_id = found.begun.cluster_id
    how = claim_request(where.cluster, state, cluster_id, name, off=no_ownership, only_ends=True)
    if how is not None:
        _check_reached(where, cluster_id)
    if (owner := holder(run_dir)) is not None:
        raise RunRefused(
            f"run {name} is owned by {owner}. Only a run without an engine can be exported. Have "
            f"the engine leave it: kill {owner.pid}. Steps in flight go on in Kafka"
        )
    with lock_starts(state, cluster_id) as live:
        if how is not None:
            _check_alone(state, cluster_id, name, live)
        run = export_run(run_dir, file, SystemClock())
        owned = None if how is None else _release(how)
    if json:
        shape = ExportJson(
            schema_version=SCHEMA_VERSION,
            run=name,
            file=clean(str(file)),
            partitions_left=_left(run),
            owned=owned,
        )
        click.echo(encode(shape))
    else:
        _report(run, file, owned, asked=how is not None)


def _check_reached(where: Target, cluster_id: str) -> None:
    """Check that the cluster answers, so that it can be released.

    Raises:
        RunProblem: the cluster does not answer.
        RunRefused: it is not the run's cluster.
    """
    try:
        asyncio.run(check_cluster(where, cluster_id))
    except ClusterError as error:
        raise RunProblem(
            f"{error}. Nothing was exported. To export without releasing the cluster, use "
            f"{NO_OWNERSHIP}: the claim then lapses within 30 minutes, unless it is taken over"
        ) from None


def _check_alone(state: StateDir, cluster_id: str, name: str, live: list[LiveRun]) -> None:
    """Check that no other run of the state directory needs the cluster.

    Raises:
        RunRefused: one does.
    """
    for other in live:
        if other.name != name:
            raise RunRefused(
                f"run {other.name}, owned by {other.holder}, is live on the cluster, and an export "
                f"of run {name} would release that. Wait for the end of run {other.name} first"
            )
    for other_name, where in throttles_left(state, cluster_id, name):
        raise RunRefused(
            f"run {other_name} has left its throttle on {where}. The next owner of the cluster "
            f"could not tell that throttle from their own. First: ktui resume {other_name}; or: "
            f"ktui cancel {other_name} --stop --all"
        )


def _release(how: ClaimRequest) -> str | None:
    try:
        return asyncio.run(release_cluster(how))
    except RunProblem as problem:
        return str(problem)


def _left(run: Run) -> int:
    return len(run.tracks) - run.over


def _report(run: Run, file: Path, owned: str | None, *, asked: bool) -> None:
    where, left = clean(str(file)), as_count(_left(run), "partition")
    click.echo(f"run {run.name}: exported to {where}, {left} left")
    if run.in_flight:
        steps = as_count(run.in_flight, "step")
        click.echo(f"{steps} in flight {'goes' if run.in_flight == 1 else 'go'} on in Kafka")
    take_over = ""
    if owned is not None:
        take_over = " --take-over"
        print_note(f"the cluster was not released: {owned}. A claim lapses within 30 minutes")
    elif asked:
        click.echo("this state directory no longer owns the cluster")
    click.echo(f"continue it in another state directory: ktui runs import {where}{take_over}")
