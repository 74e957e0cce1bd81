"""Whole runs on simulated clusters, carried out by an engine in virtual time."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.checks import check_count
from ktui.cluster.clock import Clock
from ktui.cluster.observer import Observer
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.engine.engine import Engine
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, Owned
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import first_events
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.throttle.objective import Figure, no_figure
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import Objective
from ktui.simulated.cluster import SimulatedCluster


async def carry_out(
    cluster: SimulatedCluster,
    plan: Plan,
    limits: Limits,
    options: RunOptions,
    *,
    figure: Callable[[Objective], Figure] = no_figure,
    beside: Callable[[Journal], Coroutine[Any, Any, None]] | None = None,
) -> tuple[float, list[JournalEntry]]:
    """Carry out a plan of topics with one partition, and return its seconds and its journal.

    Args:
        cluster: the cluster, in virtual time.
        plan: the plan.
        limits: the limits of the run.
        options: its options.
        figure: the figure of its objective.
        beside: an operator who gives the run commands until it ends; None for nobody.

    Raises:
        SystemExit: a partition did not come to its target.
    """
    clock = cluster.clock
    began_s = clock.monotonic()
    events = first_events(
        plan,
        await _snapshot(cluster, plan),
        limits,
        options,
        cluster_id=cluster.spec.name,
        plan_name="bench",
    )
    with (
        tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder,
        Journal.create(Path(folder) / "journal.db", clock) as journal,
    ):
        journal.append(events)
        run = Run("bench").fold(journal.entries())
        reader = cluster.reader()
        observer = Observer(reader, clock)
        engine = Engine(
            run, journal, observer, ClusterPorts(reader, cluster.writer()), clock, figure=figure
        )
        async with _operating(beside, Path(folder) / "journal.db", clock):
            await engine.execute(Owned(pid=0, host="", user=""))
        await observer.aclose()
        entries = list(journal.entries())
    check_count("partitions done", run.counts[State.DONE], len(plan.partitions))
    return clock.monotonic() - began_s, entries


@asynccontextmanager
async def _operating(
    beside: Callable[[Journal], Coroutine[Any, Any, None]] | None, path: Path, clock: Clock
) -> AsyncIterator[None]:
    """Let an operator give commands, who writes them as another process would."""
    if beside is None:
        yield
        return
    with Journal.open(path, clock) as journal:
        operator = asyncio.create_task(beside(journal))
        try:
            yield
        finally:
            operator.cancel()
            await asyncio.gather(operator, return_exceptions=True)


async def _snapshot(cluster: SimulatedCluster, plan: Plan) -> ClusterSnapshot:
    reader, names = cluster.reader(), {target.topic for target in plan.partitions}
    return ClusterSnapshot(
        partitions=(await reader.describe_topics(names)).partitions,
        brokers=(await reader.describe_cluster()).brokers,
        configs=(await reader.topic_configs(names)).configs,
        sizes={
            Replica(TopicPartition(topic.name, 0), topic.replicas[0][0]): int(topic.bytes_each)
            for topic in cluster.spec.topics
        },
    )
