"""`ktui runs import`: a run that was exported goes on in this state directory."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import click
import msgspec

from ktui.cli.context.claim import claiming, owned, ownership_options
from ktui.cli.context.errors import BadInput
from ktui.cli.context.target import check_cluster, run_names, target, warn_of_tls
from ktui.cli.options import common
from ktui.cli.output.gate import cluster_options
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.process.launch import resume_command
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.hand_over import check_import, import_run, opened
from ktui.execution.host.ownership import starting
from ktui.execution.host.state_dir import StateDir
from ktui.quantities import as_count


class ImportJson(msgspec.Struct, frozen=True, kw_only=True):
    """What `ktui runs import --json` prints."""

    schema_version: int
    run: str
    cluster_id: str
    partitions_left: int


@click.command("import", short_help="Take a run that was exported.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What the run is called here; else as it was there.")
@common.cluster_options
@ownership_options
@common.state_dir_option
@common.json_option
def command(  # noqa: PLR0913 - an option each
    file: Path,
    name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    take_over: bool,
    no_ownership: bool,
    state: StateDir,
    json: bool,
) -> None:
    """Take the run in FILE, written by `ktui runs export`, and own its cluster from now on.

    The cluster is named as where the run came from, unless an option names it. An option has to
    where that was by brokers and by credentials. Nothing of the run goes on before `ktui resume`.
    """
    clock = SystemClock()
    with opened(state, file, clock) as export:
        name = name or export.exported.run
        cluster_id = export.begun.cluster_id
        given = bootstrap_server, command_config, context
        if not any(given):
            _check_names(file, export.begun.connection)
        where = target(*run_names(given, export.begun))
        warn_of_tls(where.cluster)
        asyncio.run(check_cluster(where, cluster_id))
        how = claiming(
            where.cluster, state, cluster_id, name, off=no_ownership, take_over=take_over
        )
        with starting(state, cluster_id):
            if export.run.throttled.brokers:
                check_one_throttle(state, cluster_id, name)
            check_import(state, export, name, clock)
            with nullcontext() if how is None else owned(how):
                import_run(state, export, name, where.names, clock)
        left = len(export.run.tracks) - export.run.over
    if json:
        told = ImportJson(
            schema_version=SCHEMA_VERSION, run=name, cluster_id=cluster_id, partitions_left=left
        )
        click.echo(encode(told))
    else:
        where_from = clean(str(file))
        click.echo(f"run {name}: imported from {where_from}, {as_count(left, 'partition')} left")
        if how is not None:
            click.echo("this state directory owns the cluster, for 30 minutes without an engine")
        click.echo(f"go on with it: {resume_command(state, name)}")


def _check_names(file: Path, connection: Mapping[str, str]) -> None:
    """See that a file from elsewhere does not choose who gets the credentials of this host.

    Raises:
        BadInput: it names brokers, and a file or context that has the credentials.
    """
    if "bootstrap_server" in connection and {"command_config", "context"} & connection.keys():
        again = shlex.join(["ktui", "runs", "import", str(file), *cluster_options(connection)])
        raise BadInput(
            f"{clean(str(file))}: names both brokers and where credentials for them are. If those "
            f"are to get these, say so: {clean(again)}"
        )
