"""The cluster that a verb works on, named by options, by a run or by the config file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ktui.cli.context.cluster import Cluster, choose_cluster, resolve_names
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.errors import RunRefused
from ktui.execution.run.events import Started
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan

TLS_UNVERIFIED = "TLS unverified"


ClusterNames = tuple[str | None, Path | None, str | None]
"""The names of a cluster: bootstrap_server, command_config, context."""


class Target(msgspec.Struct, frozen=True):
    """The cluster of a run, and its names, by which the engine finds the cluster."""

    cluster: Cluster
    names: Mapping[str, str]
    """bootstrap_server, command_config (absolute) and context, without the absent ones."""


def choose_target(
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    changes: bool = True,
) -> Target:
    """Choose the cluster of a verb. A verb that changes the cluster needs a writable context.

    Args:
        bootstrap_server: the option.
        command_config: the option.
        context: the option.
        changes: whether the verb changes the cluster.

    Raises:
        BadInput: no cluster is named, its settings cannot be used, or a cluster to be changed has a
            read-only context.
        FileProblem: the config file cannot be used.
    """
    bootstrap_server, command_config, context = resolve_names(
        bootstrap_server, command_config, context
    )
    cluster = choose_cluster(bootstrap_server, command_config, context)
    if changes and cluster.context.read_only:
        raise BadInput(
            f"context {context} is read_only: nothing may be changed on it. Remove that line from "
            "config.yaml, or name another context"
        )
    names = {
        "bootstrap_server": bootstrap_server,
        "command_config": None if command_config is None else str(command_config.absolute()),
        "context": context,
    }
    present = {name: value for name, value in names.items() if value is not None}
    for name, value in present.items():
        _check_text(f"--{name.replace('_', '-')}", value)
    return Target(cluster, present)


def cluster_names_of_run(names: ClusterNames, begun: Started) -> ClusterNames:
    """Return the names of a run's cluster: the options, or else the names from its start."""
    if any(name is not None for name in names):
        return names
    at_start = begun.connection
    config = Path(at_start["command_config"]) if "command_config" in at_start else None
    return at_start.get("bootstrap_server"), config, at_start.get("context")


def _check_text(option: str, value: str) -> None:
    """Check that the journal of a run can store an option that names its cluster.

    Raises:
        BadInput: the value has bytes that are not text.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{option} {clean(value)}: is not UTF-8, so the run cannot store it. Rename it"
        ) from None


async def read_cluster_for_plan(
    where: Target, plan: Plan, *, measure: bool = False
) -> tuple[str, ClusterSnapshot]:
    """Return the cluster's id, and a snapshot of all that a plan concerns.

    Args:
        where: the cluster.
        plan: the plan.
        measure: whether to measure also the rates that a throttle is checked against. That takes
            some seconds.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    reader = where.cluster.reader()
    try:
        cluster = await reader.describe_cluster()
        seen = await take_snapshot(reader, plan, SystemClock() if measure else None)
        return cluster.cluster_id, seen
    finally:
        await reader.aclose()


async def check_cluster(where: Target, cluster_id: str) -> None:
    """Check that a cluster is the cluster of a run.

    Raises:
        RunRefused: it is another one.
        ClusterError: the cluster cannot be read.
    """
    reader = where.cluster.reader()
    try:
        found = (await reader.describe_cluster()).cluster_id
    finally:
        await reader.aclose()
    if found != cluster_id:
        raise RunRefused(
            f"{where.cluster.name} is cluster {found}, but the run belongs to cluster "
            f"{cluster_id}. Name that one with --bootstrap-server, --command-config or --context"
        )


def warn_of_tls(cluster: Cluster) -> None:
    """Warn the operator of the checks that TLS leaves out."""
    for sentence in cluster.unverified:
        print_note(f"warning: {TLS_UNVERIFIED}: {sentence}")
