"""`ktui cancel`: partitions are stopped, rolled back or trimmed; or the cancel gate is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktui.cli.cancel.gate import open_gate, open_gate_of_cluster
from ktui.cli.cancel.options import CancelRequest, cancel_options, check_scope_given, taken
from ktui.cli.cancel.run import cancel_run
from ktui.cli.context.errors import BadInput
from ktui.cli.options import common
from ktui.execution.host.catalog import find_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind


@click.command("cancel")
@click.argument("name", metavar="[RUN]", required=False)
@click.option(
    "--cluster",
    "of_cluster",
    is_flag=True,
    help="In place of a run: every reassignment on the cluster, whoever began it.",
)
@cancel_options
@common.cluster_options
@common.state_dir_option
@common.json_option
def command(
    name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    of_cluster: bool,
    state: StateDir,
    json: bool,
    **chosen: Any,
) -> None:
    """Stop partitions of RUN, roll them back or trim them; say what that comes to first.

    Of a run that has not ended, --topic, --partition or --all says which. Returns once the process
    that carries the run on has answered; one is started where there is none, with the rest of the
    run paused. What becomes of it then: `ktui status RUN`.

    --all shuts the cancel gate of the cluster: nothing but what cancels and rolls back is
    submitted there by any run of this state directory, until --remove-cancel opens it.

    Exit code 2 where it cannot be asked for.
    """
    wanted = taken(chosen, json=json)
    if of_cluster == (name is not None):
        raise BadInput("name a run, or --cluster in its place; see which there are: ktui runs")
    names = (bootstrap_server, command_config, context)
    if name is not None:
        run = find_run(state, name)
        if wanted is None:
            open_gate(run, state, json=json)
        else:
            cancel_run(run, wanted, names, state)
    elif wanted is None:
        open_gate_of_cluster(names, state, json=json)
    else:
        _check_on_cluster(wanted)
        from ktui.cli.cancel.cluster import cancel_on_cluster  # noqa: PLC0415 - runs need none

        cancel_on_cluster(
            *names,
            state=state,
            kind=wanted.kind,
            topics=wanted.topics,
            partitions=wanted.partitions,
            everything=wanted.everything,
            dry_run=wanted.dry_run,
            json=json,
            take_over=wanted.take_over,
        )


def _check_on_cluster(wanted: CancelRequest) -> None:
    """See that what is wanted can be had without a run, and is of something.

    Raises:
        BadInput: it cannot, or is not.
    """
    if wanted.kind is CancelKind.TRIM:
        raise BadInput("--trim needs a run: how many replicas there were stands in its journal")
    check_scope_given(wanted)
