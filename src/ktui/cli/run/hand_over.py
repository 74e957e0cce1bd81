"""`ktui runs export` and `ktui runs import`: hand a run over to another state directory."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from ktui.cli.context.claim import (
    NO_OWNERSHIP,
    OwnerChoice,
    claim_request,
    no_ownership_option,
    own_cluster,
    ownership_options,
    release_cluster,
)
from ktui.cli.context.cluster import (
    ClusterChoice,
    Target,
    check_cluster,
    cluster_options,
    warn_of_tls,
)
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BadInput, print_note
from ktui.cli.options import common
from ktui.cli.output.json_form import encode_record
from ktui.cli.output.plan_check import options_of_names
from ktui.cli.process import resume_command
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.durable import find_place
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.catalog import check_one_throttle, throttles_left
from ktui.execution.host.client import RunClient
from ktui.execution.host.hand_over import check_import, export_run, import_run, open_export
from ktui.execution.host.ownership import LiveRun, lock_starts
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.quantities import as_count


@click.command("export", short_help="Write a run into a file, to go on elsewhere.")
@common.run_argument
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@cluster_options
@no_ownership_option
@common.state_dir_option
@common.json_option
def export(
    name: str, file: Path, choice: ClusterChoice, *, no_ownership: bool, state: StateDir, json: bool
) -> None:
    """Write RUN into FILE and release its cluster; `ktui runs import` continues it elsewhere.

    RUN must not have an engine. Steps in flight go on in Kafka. In this state directory the run is
    then `exported` and cannot be resumed. Its recording stays here.
    """
    client = RunClient.find(state, name)
    found = client.read_begun()
    where = choice.or_of_run(found.begun).target()
    cluster_id = found.begun.cluster_id
    ownership = OwnerChoice(no_ownership=no_ownership)
    claim = claim_request(where.cluster, state, cluster_id, name, ownership, only_ends=True)
    if claim is not None:
        _check_reached(where, cluster_id)
    if (owner := client.owner) is not None:
        raise RunRefused(
            f"run {name} is owned by {owner}. Only a run without an engine can be exported. Have "
            f"the engine leave it: kill {owner.pid}. Steps in flight go on in Kafka"
        )
    with lock_starts(state, cluster_id) as live:
        if claim is not None:
            _check_alone(state, cluster_id, name, live)
        run = export_run(client.folder, file, SystemClock())
        try:
            owned = None if claim is None else asyncio.run(release_cluster(claim))
        except RunProblem as problem:
            owned = str(problem)
    if json:
        left = _partitions_left(run)
        shape = {"run": name, "file": clean(str(file)), "partitions_left": left, "owned": owned}
        click.echo(encode_record(shape))
    else:
        _report_export(run, file, owned, asked=claim is not None)


def _check_reached(where: Target, cluster_id: str) -> None:
    try:
        asyncio.run(check_cluster(where, cluster_id))
    except ClusterError as error:
        raise RunProblem(
            f"{error}. Nothing was exported. To export without releasing the cluster, use "
            f"{NO_OWNERSHIP}: the claim then lapses within 30 minutes, unless it is taken over"
        ) from None


def _check_alone(state: StateDir, cluster_id: str, name: str, live: list[LiveRun]) -> None:
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


def _partitions_left(run: Run) -> int:
    return len(run.tracks) - run.over


def _report_export(run: Run, file: Path, owned: str | None, *, asked: bool) -> None:
    where, left = clean(str(file)), as_count(_partitions_left(run), "partition")
    # The text would be part of an export that goes through standard output.
    say = partial(click.echo, err=find_place(file).own_stream is not None)
    say(f"run {run.name}: exported to {where}, {left} left")
    if run.in_flight:
        steps = as_count(run.in_flight, "step")
        say(f"{steps} in flight {'goes' if run.in_flight == 1 else 'go'} on in Kafka")
    take_over = ""
    if owned is not None:
        take_over = " --take-over"
        print_note(f"the cluster was not released: {owned}. A claim lapses within 30 minutes")
    elif asked:
        say("this state directory no longer owns the cluster")
    say(f"continue it in another state directory: ktui runs import {where}{take_over}")


@click.command("import", short_help="Import a run that was exported.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@add_option("--name NAME", "Name of the run here. Default: its old name.")
@cluster_options
@ownership_options
@common.state_dir_option
@common.json_option
def import_(
    file: Path,
    name: str | None,
    choice: ClusterChoice,
    *,
    ownership: OwnerChoice,
    state: StateDir,
    json: bool,
) -> None:
    """Import the run in FILE, from `ktui runs export`, and own its cluster from now on.

    The connection to the cluster is that of the run, unless an option names another. If the run
    named both brokers and credentials, an option has to. Nothing goes on before `ktui resume`.
    """
    clock = SystemClock()
    with open_export(state, file, clock) as export:
        name = name or export.exported.run
        cluster_id = export.begun.cluster_id
        if not any(choice):
            _check_names(file, export.begun.connection)
        where = choice.or_of_run(export.begun).target()
        warn_of_tls(where.cluster)
        asyncio.run(check_cluster(where, cluster_id))
        claim = claim_request(where.cluster, state, cluster_id, name, ownership)
        with lock_starts(state, cluster_id):
            if export.run.throttled.brokers:
                check_one_throttle(state, cluster_id, name)
            check_import(state, export, name, clock)
            with nullcontext() if claim is None else own_cluster(claim):
                import_run(state, export, name, where.names, clock)
        left = _partitions_left(export.run)
    if json:
        click.echo(encode_record({"run": name, "cluster_id": cluster_id, "partitions_left": left}))
    else:
        source = clean(str(file))
        click.echo(f"run {name}: imported from {source}, {as_count(left, 'partition')} left")
        if claim is not None:
            click.echo("this state directory owns the cluster, for 30 minutes without an engine")
        click.echo(f"resume it: {resume_command(state, name)}")


def _check_names(file: Path, connection: Mapping[str, str]) -> None:
    """Keep a file from elsewhere from choosing which brokers get this host's credentials."""
    if "bootstrap_server" in connection and {"command_config", "context"} & connection.keys():
        again = shlex.join(["ktui", "runs", "import", str(file), *options_of_names(connection)])
        raise BadInput(
            f"{clean(str(file))}: names both brokers and a place of credentials on this host. If "
            f"these brokers may get those credentials, name both yourself: {clean(again)}"
        )
