"""`ktui cancel`: stop, roll back or trim partitions, or open the cancel gate."""

from __future__ import annotations

from typing import Any

import click

from ktui.cli.cancel.gate import open_gate, open_gate_of_cluster
from ktui.cli.cancel.run import cancel_run
from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.context.errors import BadInput
from ktui.cli.options import common
from ktui.cli.options.cancel import (
    CancelRequest,
    cancel_options,
    check_scope_given,
    read_cancel_request,
)
from ktui.cli.options.cluster import cluster_options
from ktui.execution.host.catalog import find_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind


@click.command("cancel")
@click.argument("name", metavar="[RUN]", required=False, shell_complete=common.complete_run)
@click.option(
    "--cluster",
    "of_cluster",
    is_flag=True,
    help="Instead of a run: every reassignment on the cluster, no matter who began it.",
)
@cancel_options
@cluster_options
@common.state_dir_option
@common.json_option
def command(
    name: str | None,
    choice: ClusterChoice,
    *,
    of_cluster: bool,
    state: StateDir,
    json: bool,
    **chosen: Any,
) -> None:
    """Stop, roll back or trim partitions of RUN.

    ktui shows exactly what will happen first. If the run has not ended, choose its partitions with
    --topic, --partition, --broker or --all. The command returns once the run's engine has
    answered. If the run has no engine, ktui starts one and pauses the rest of the run. Follow the
    result with `ktui status RUN`.

    --all shuts the cancel gate of the cluster. Runs of this state directory then submit only
    cancels and rollbacks there, until --remove-cancel opens the gate.

    Exit code 2 if the cancel cannot be requested.
    """
    request = read_cancel_request(chosen, json=json)
    if of_cluster == (name is not None):
        raise BadInput("name a run, or give --cluster instead of one. List the runs: ktui runs")
    if name is not None:
        run = find_run(state, name)
        if request is None:
            open_gate(run, state, json=json)
        else:
            cancel_run(run, request, choice, state)
    elif request is None:
        open_gate_of_cluster(choice, state, json=json)
    else:
        _check_on_cluster(request)
        from ktui.cli.cancel.cluster import cancel_on_cluster  # noqa: PLC0415 - runs need none

        cancel_on_cluster(choice, state, request)


def _check_on_cluster(request: CancelRequest) -> None:
    """Check that a cancel works without a run, and that its scope was given.

    Raises:
        BadInput: --trim was given, or no scope was.
    """
    if request.kind is CancelKind.TRIM:
        raise BadInput(
            "--trim needs a run. Only the run's journal has the original number of replicas. "
            "Name the run: ktui cancel RUN --trim"
        )
    check_scope_given(request)
