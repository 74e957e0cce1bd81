"""A run that a real engine executes beside the test, on a simulated cluster, at a fast pace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.engine.engine import Engine
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Owned
from ktui.execution.run.first_events import first_events
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.simulated.clock import ScaledClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from support.runs.engine_runs import plan_of, snapshot_of

Replicas = tuple[int, ...]

SPEED = 20.0
"""The cluster's seconds in one real second."""
_COPIED_S = 1_000.0


@contextmanager
def owned_run(
    state: StateDir,
    name: str = "drain-b3",
    *,
    partitions: int = 4,
    limits: Limits | None = None,
) -> Iterator[RunDir]:
    """Let an engine own a run of `orders`, from broker 3 to 4; it takes hours, and is left."""
    run = state.create_run(name)
    going, leave = threading.Event(), threading.Event()
    target = {TopicPartition("orders", n): (1, 2, 4) for n in range(partitions)}
    in_force = limits or Limits(replicas=1, partitions=2)

    def execute() -> None:
        asyncio.run(_carry_on(run, target, in_force, going, leave))

    engine = threading.Thread(target=execute)
    engine.start()
    try:
        assert going.wait(30), "the engine did not begin"
        yield run
    finally:
        leave.set()
        engine.join()


async def _carry_on(
    run_dir: RunDir,
    targets: Mapping[TopicPartition, Replicas],
    limits: Limits,
    going: threading.Event,
    leave: threading.Event,
) -> None:
    cluster = _cluster(len(targets))
    clock = cluster.clock
    plan = plan_of(targets)
    events = first_events(
        plan,
        await snapshot_of(cluster.reader(), plan),
        limits,
        RunOptions(),
        cluster_id=cluster.spec.name,
        plan_name="drain-b3.json",
    )
    ways = ClusterPorts(cluster.reader(), cluster.writer())
    observer = Observer(ways.reader, clock)
    with own_run(run_dir) as owned, Journal.create(run_dir.journal, clock) as journal:
        run = Run(run_dir.name).fold(journal.append(events))
        state = StateDir(run_dir.path.parent.parent)
        check = partial(check_one_throttle, state, cluster.spec.name, run.name)
        engine = Engine(run, journal, observer, ways, clock, check_throttle=check)
        me = owned.holder
        carrying = asyncio.create_task(
            engine.execute(Owned(pid=me.pid, host=me.host, user=me.user))
        )
        while not leave.is_set() and not carrying.done():
            if run.tracks_in_flight:
                going.set()
            await asyncio.sleep(0.01)
        engine.leave("the test is over")
        await carrying
        await observer.aclose()


def _cluster(partitions: int) -> SimulatedCluster:
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_in=_COPIED_S * 1_000) for b in range(1, 5)),
        topics=(
            TopicSpec(
                name="orders",
                replicas=((1, 2, 3),) * partitions,
                bytes_each=100_000_000_000,
                message_bytes=1_000,
            ),
        ),
    )
    return SimulatedCluster(spec, ScaledClock(SPEED))
