"""`ktui runs import`: bring an exported run into this state directory."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import click
import msgspec

from ktui.cli.context.claim import claim_request, own_cluster, ownership_options
from ktui.cli.context.errors import BadInput
from ktui.cli.context.target import check_cluster, choose_target, cluster_names_of_run, warn_of_tls
from ktui.cli.options import common
from ktui.cli.output.gate import cluster_options
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.process.launch import resume_command
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.hand_over import check_import, import_run, open_export
from ktui.execution.host.ownership import lock_starts
from ktui.execution.host.state_dir import StateDir
from ktui.quantities import as_count


class ImportJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui runs import --json`."""

    schema_version: int
    run: str
    cluster_id: str
    partitions_left: int


@click.command("import", short_help="Import a run that was exported.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the run here. Default: its old name.")
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
    """Import the run in FILE, from `ktui runs export`, and own its cluster from now on.

    The connection to the cluster is that of the run, unless an option names another. If the run
    named both brokers and credentials, an option has to. Nothing goes on before `ktui resume`.
    """
    clock = SystemClock()
    with open_export(state, file, clock) as export:
        name = name or export.exported.run
        cluster_id = export.begun.cluster_id
        names = bootstrap_server, command_config, context
        if not any(names):
            _check_names(file, export.begun.connection)
        where = choose_target(*cluster_names_of_run(names, export.begun))
        warn_of_tls(where.cluster)
        asyncio.run(check_cluster(where, cluster_id))
        how = claim_request(
            where.cluster, state, cluster_id, name, off=no_ownership, take_over=take_over
        )
        with lock_starts(state, cluster_id):
            if export.run.throttled.brokers:
                check_one_throttle(state, cluster_id, name)
            check_import(state, export, name, clock)
            with nullcontext() if how is None else own_cluster(how):
                import_run(state, export, name, where.names, clock)
        left = len(export.run.tracks) - export.run.over
    if json:
        shape = ImportJson(
            schema_version=SCHEMA_VERSION, run=name, cluster_id=cluster_id, partitions_left=left
        )
        click.echo(encode(shape))
    else:
        source = clean(str(file))
        click.echo(f"run {name}: imported from {source}, {as_count(left, 'partition')} left")
        if how is not None:
            click.echo("this state directory owns the cluster, for 30 minutes without an engine")
        click.echo(f"resume it: {resume_command(state, name)}")


def _check_names(file: Path, connection: Mapping[str, str]) -> None:
    """Check that a file from elsewhere does not choose which brokers get this host's credentials.

    Raises:
        BadInput: the file names brokers, and also a file or context with credentials.
    """
    if "bootstrap_server" in connection and {"command_config", "context"} & connection.keys():
        again = shlex.join(["ktui", "runs", "import", str(file), *cluster_options(connection)])
        raise BadInput(
            f"{clean(str(file))}: names both brokers and a place of credentials on this host. If "
            f"these brokers may get those credentials, name both yourself: {clean(again)}"
        )
