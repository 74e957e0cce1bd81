"""What a preview rests on, read through a connection of a verb's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import datetime

import msgspec

from ktui.cli.context.claim import ClaimRequest, owner_findings
from ktui.cli.context.cluster import Cluster
from ktui.cli.output.gate import cancel_cluster_options, gate_findings
from ktui.cluster.clock import SystemClock
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir
from ktui.kafka.reader import KafkaReader
from ktui.ops.preview import FactReader
from ktui.ops.start import CheckedRun, check_run
from ktui.planning.check.findings import Finding
from ktui.planning.check.permissions import TO_START, NeededPermission
from ktui.planning.plan import Plan
from ktui.preview.facts import ClusterFacts


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What would refuse any start on a cluster now: a shut gate, or another owner."""

    state: StateDir
    names: Mapping[str, object]
    """The options that name the cluster on a command line."""
    claim: Callable[[str], ClaimRequest | None]
    """Returns the claim that a run makes on a cluster with this id; None without ownership."""

    async def find(self, reader: KafkaReader, cluster_id: str) -> tuple[Finding, ...]:
        """Find it out through an open reader.

        Raises:
            RunProblem: the state directory cannot be read.
            ClusterError: the cluster cannot be read.
        """
        gate = gate_findings(self.state, cluster_id, cancel_cluster_options(self.names))
        return (*gate, *await owner_findings(self.claim(cluster_id), reader))


def fact_reader(
    cluster: Cluster, reader: KafkaReader, state: StateDir, standing: Standing | None
) -> FactReader:
    """Return what reads the facts of a cluster; without `standing`, a start follows at once."""

    async def find(cluster_id: str) -> tuple[Finding, ...]:
        return () if standing is None else await standing.find(reader, cluster_id)

    return FactReader(
        reader=reader,
        state=state,
        clock=SystemClock(),
        cluster=cluster.name,
        permits=cluster,
        standing=None if standing is None else find,
    )


def read_facts(
    cluster: Cluster,
    plan: Plan,
    need: NeededPermission,
    state: StateDir,
    *,
    throttles: bool,
    joins: str,
) -> ClusterFacts:
    """Read what the preview of a plan that joins a run rests on; see `FactReader.read`.

    Raises:
        ClusterError: the cluster cannot be read.
        RunProblem: the state directory cannot be read.
    """

    async def read() -> ClusterFacts:
        async with aclosing(cluster.reader()) as reader:
            facts = fact_reader(cluster, reader, state, None)
            return await facts.read(plan, need, throttles=throttles, joins=joins)

    return asyncio.run(read())


def check_planned_run(
    cluster: Cluster,
    new: NewRun,
    state: StateDir,
    standing: Standing | None,
    now: datetime,
    need: NeededPermission = TO_START,
) -> CheckedRun:
    """Check a planned run against its cluster; see `ops.start.check_run`.

    Raises:
        ClusterError: the cluster cannot be read.
        RunProblem: the state directory cannot be read.
    """

    async def check() -> CheckedRun:
        async with aclosing(cluster.reader()) as reader:
            return await check_run(new, fact_reader(cluster, reader, state, standing), now, need)

    return asyncio.run(check())
