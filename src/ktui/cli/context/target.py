"""The cluster that a verb works on, named by options, by a run or by the config file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

import msgspec

from ktui.cli.context.cluster import Cluster, choose_cluster, resolve_names
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import ClusterReader
from ktui.cluster.text import clean
from ktui.execution.errors import RunRefused
from ktui.execution.run.events import Started
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan

TLS_UNVERIFIED = "TLS unverified"


class ClusterChoice(NamedTuple):
    """The options that name a cluster; an absent one is None."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    context: str | None = None

    def or_of_run(self, begun: Started) -> ClusterChoice:
        """Return the same options; without any, those that named the cluster of a run."""
        if any(name is not None for name in self):
            return self
        at_start = begun.connection
        config = Path(at_start["command_config"]) if "command_config" in at_start else None
        return ClusterChoice(at_start.get("bootstrap_server"), config, at_start.get("context"))

    def cluster(self) -> Cluster:
        """Return the cluster, to be read only.

        Raises:
            BadInput: no cluster is named, or its connection settings cannot be used.
            FileProblem: the config file cannot be used, or has no such context.
        """
        return choose_cluster(*self)

    def target(self, *, changes: bool = True) -> Target:
        """Return the cluster with its names. A verb that changes it needs a writable context.

        Args:
            changes: whether the verb changes the cluster.

        Raises:
            BadInput: no cluster is named, its settings cannot be used, or a cluster to be changed
                has a read-only context.
            FileProblem: the config file cannot be used, or has no such context.
        """
        chosen = ClusterChoice(*resolve_names(*self))
        cluster = chosen.cluster()
        if changes and cluster.context.read_only:
            raise BadInput(
                f"context {chosen.context} is read_only: nothing may be changed on it. Remove that "
                "line from config.yaml, or name another context"
            )
        config = chosen.command_config
        options = {**chosen._asdict(), "command_config": config and config.absolute()}
        names = {name: str(value) for name, value in options.items() if value is not None}
        for name, value in names.items():
            _check_text(f"--{name.replace('_', '-')}", value)
        return Target(cluster, names)


class Target(msgspec.Struct, frozen=True):
    """The cluster of a run, and its names, by which the engine finds the cluster."""

    cluster: Cluster
    names: Mapping[str, str]
    """bootstrap_server, command_config (absolute) and context, without the absent ones."""


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
    reader: ClusterReader, plan: Plan, *, measure: bool = False
) -> tuple[str, ClusterSnapshot]:
    """Return the cluster's id, and a snapshot of all that a plan concerns.

    Args:
        reader: reads the cluster.
        plan: the plan.
        measure: whether to measure also the rates that a throttle is checked against. That takes
            some seconds.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    cluster_id = (await reader.describe_cluster()).cluster_id
    return cluster_id, await take_snapshot(reader, plan, SystemClock() if measure else None)


async def check_cluster(where: Target, cluster_id: str) -> None:
    """Check that a cluster is the cluster of a run.

    Raises:
        RunRefused: it is another one.
        ClusterError: the cluster cannot be read.
    """
    async with aclosing(where.cluster.reader()) as reader:
        found = (await reader.describe_cluster()).cluster_id
    check_same_cluster(where, found, cluster_id)


def check_same_cluster(where: Target, found: str, cluster_id: str) -> None:
    """Check that the id of a cluster is that of a run's cluster.

    Raises:
        RunRefused: it is another one.
    """
    if found != cluster_id:
        raise RunRefused(
            f"{where.cluster.name} is cluster {found}, but the run belongs to cluster "
            f"{cluster_id}. Name that one with --bootstrap-server, --command-config or --context"
        )


def warn_of_tls(cluster: Cluster) -> None:
    """Warn the operator of the checks that TLS leaves out."""
    for sentence in cluster.unverified:
        print_note(f"warning: {TLS_UNVERIFIED}: {sentence}")
