"""`ktui cancel --remove-cancel`: open the cancel gate of a cluster."""

from __future__ import annotations

import asyncio

import click
import msgspec

from ktui.cli.context.cluster import Cluster, choose_cluster
from ktui.cli.context.target import ClusterNames
from ktui.cli.output.gate import CancelGateJson, gate_json
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cluster.text import clean
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.follower import RunFollower


class OpenedJson(msgspec.Struct, frozen=True):
    """The output of `ktui cancel --remove-cancel --json`."""

    schema_version: int
    cluster_id: str
    had_shut: CancelGateJson | None
    """Who had shut the gate; null if it was open."""


def open_gate(run: RunDir, state: StateDir, *, json: bool) -> None:
    """Open the gate of a run's cluster; the cluster need not answer.

    Raises:
        RunProblem: the run's journal does not name its cluster.
    """
    with RunFollower(run.journal) as follower:
        follower.refresh()
    started = follower.run.started
    if started is None:
        raise RunProblem(
            f"{run.journal}: the journal does not name the run's cluster. Name the cluster "
            "yourself: ktui cancel --cluster --remove-cancel"
        )
    _open(started.cluster_id, state, json=json)


def open_gate_of_cluster(names: ClusterNames, state: StateDir, *, json: bool) -> None:
    """Open the gate of the cluster that the options name.

    Raises:
        ClusterError: the cluster does not answer.
    """
    _open(asyncio.run(_cluster_id(choose_cluster(*names))), state, json=json)


async def _cluster_id(cluster: Cluster) -> str:
    reader = cluster.reader()
    try:
        return (await reader.describe_cluster()).cluster_id
    finally:
        await reader.aclose()


def _open(cluster_id: str, state: StateDir, *, json: bool) -> None:
    shut = CancelGateFile(state, cluster_id).open()
    if json:
        had_shut = None if shut is None else gate_json(shut)
        click.echo(encode(OpenedJson(SCHEMA_VERSION, cluster_id, had_shut)))
    elif shut is None:
        click.echo(f"the cancel gate of cluster {cluster_id} was already open")
    else:
        click.echo(
            f"the cancel gate of cluster {cluster_id} is now open. It was shut by "
            f"{clean(shut.words)}"
        )
