"""`ktui cancel --remove-cancel`: open the cancel gate of a cluster."""

from __future__ import annotations

import asyncio

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.output.json_form import encode_record
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem
from ktui.execution.host.cancel_gate import CancelGateFile
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import RunDir, StateDir


def open_gate(run: RunDir, state: StateDir, *, json: bool) -> None:
    """Open the gate of a run's cluster; the cluster need not answer.

    Raises:
        RunProblem: the run's journal does not name its cluster.
    """
    started = RunClient(run).read().run.started
    if started is None:
        raise RunProblem(
            f"{run.journal}: the journal does not name the run's cluster. Name the cluster "
            "yourself: ktui cancel --cluster --remove-cancel"
        )
    _open(started.cluster_id, state, json=json)


def open_gate_of_cluster(choice: ClusterChoice, state: StateDir, *, json: bool) -> None:
    """Open the gate of the cluster that the options name.

    Raises:
        ClusterError: the cluster does not answer.
    """
    _open(asyncio.run(_cluster_id(choice.cluster())), state, json=json)


async def _cluster_id(cluster: Cluster) -> str:
    reader = cluster.reader()
    try:
        return (await reader.describe_cluster()).cluster_id
    finally:
        await reader.aclose()


def _open(cluster_id: str, state: StateDir, *, json: bool) -> None:
    shut = CancelGateFile(state, cluster_id).open()
    if json:
        click.echo(encode_record({"cluster_id": cluster_id, "had_shut": shut}))
    elif shut is None:
        click.echo(f"the cancel gate of cluster {cluster_id} was already open")
    else:
        click.echo(
            f"the cancel gate of cluster {cluster_id} is now open. It was shut by "
            f"{clean(shut.words)}"
        )
