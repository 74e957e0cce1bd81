"""The cluster that a verb is about, as options, a run or the config file name it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ktui.cli.context.cluster import Cluster, choose_cluster, named
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import say
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.errors import RunRefused
from ktui.execution.run.events import Started
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan

TLS_UNVERIFIED = "TLS unverified"


Names = tuple[str | None, Path | None, str | None]
"""How a cluster is named: bootstrap_server, command_config, context."""


class Target(msgspec.Struct, frozen=True):
    """The cluster of a run, and how it was named: a process of its own finds it by that."""

    cluster: Cluster
    names: Mapping[str, str]
    """bootstrap_server, command_config (absolute), context: those that were given."""


def target(
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    changes: bool = True,
) -> Target:
    """Choose a cluster that may be changed; or any, where nothing is to be.

    Raises:
        BadInput: none is named, its settings cannot be used, or the context is read-only.
        FileProblem: the config file cannot be used.
    """
    bootstrap_server, command_config, context = named(bootstrap_server, command_config, context)
    cluster = choose_cluster(bootstrap_server, command_config, context)
    if changes and cluster.context.read_only:
        raise BadInput(
            f"context {context} is read_only: nothing may be changed on it. Take that line out of "
            "config.yaml, or name another context"
        )
    names = {
        "bootstrap_server": bootstrap_server,
        "command_config": None if command_config is None else str(command_config.absolute()),
        "context": context,
    }
    given = {name: value for name, value in names.items() if value is not None}
    for name, value in given.items():
        _check_text(f"--{name.replace('_', '-')}", value)
    return Target(cluster, given)


def run_names(names: Names, begun: Started) -> Names:
    """Name the cluster of a run as at its start, unless an option names one."""
    if any(name is not None for name in names):
        return names
    then = begun.connection
    config = Path(then["command_config"]) if "command_config" in then else None
    return then.get("bootstrap_server"), config, then.get("context")


def _check_text(option: str, value: str) -> None:
    """See that a run can keep in mind what names its cluster.

    Raises:
        BadInput: it has bytes that are no text.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{option} {clean(value)}: is not UTF-8, and is to be kept with the run. Rename it"
        ) from None


async def look(where: Target, plan: Plan, *, measure: bool = False) -> tuple[str, ClusterSnapshot]:
    """Give the cluster's id, and all that a plan is about.

    Args:
        where: the cluster.
        plan: what is asked for.
        measure: also what a throttle is held against, which takes some seconds.

    Raises:
        ClusterError: it cannot be asked.
    """
    reader = where.cluster.reader()
    try:
        cluster = await reader.describe_cluster()
        seen = await take_snapshot(reader, plan, SystemClock() if measure else None)
        return cluster.cluster_id, seen
    finally:
        await reader.aclose()


async def check_cluster(where: Target, cluster_id: str) -> None:
    """See that a cluster is the one that a run is of.

    Raises:
        RunRefused: it is another.
        ClusterError: it cannot be asked.
    """
    reader = where.cluster.reader()
    try:
        found = (await reader.describe_cluster()).cluster_id
    finally:
        await reader.aclose()
    if found != cluster_id:
        raise RunRefused(
            f"{where.cluster.name} is cluster {found}, and the run is of {cluster_id}. Name that "
            "one with --bootstrap-server, --command-config or --context"
        )


def warn_of_tls(cluster: Cluster) -> None:
    """Warn the operator of what TLS does not verify."""
    for sentence in cluster.unverified:
        say(f"warning: {TLS_UNVERIFIED}: {sentence}")
