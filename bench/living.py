"""CPU time of the view while a run goes on for a minute, and while nothing moves."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.checks import check_count
from bench.cockpit import Cockpit
from ktui.cli.output.view import rare_collections
from ktui.cli.watch.demo import SimulatedEngines
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer, SourceWrapper
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated.clock import ScaledClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec

BROKERS = 9
PARTITIONS = 500
QUIET = 2_000
POLL_S = 1.0
MEASURED_S = 20.0
FEWEST_POLLS = 18
WARM_S = 5.0
"""Seconds before the measurement: what only the start of the view costs is left out."""
SIZE = (200, 60)
LIMITS = Limits(replicas=1, partitions=20)
NET_IN = 20 * MIB
"""Bytes a second that a broker receives: the plan takes several minutes."""


def run() -> None:
    """Print the figures."""
    alone_s = asyncio.run(_run_alone())
    together_s = asyncio.run(_run_watched())
    share = (together_s - alone_s) / MEASURED_S
    print(
        f"the view of a run of {PARTITIONS} partitions, polled each second for "
        f"{MEASURED_S:.0f} s: {share:.1%} of a core (aim: at most 3 %); left out: its engine and "
        f"the simulated cluster ({alone_s / MEASURED_S:.1%}), its start, the terminal itself",
        flush=True,
    )
    idle = asyncio.run(_idle()) / MEASURED_S
    print(
        f"the view of {QUIET:,} partitions of which none moves: {idle:.1%} of a core "
        f"(aim: at most 2 %); left out: its start, the terminal itself",
        flush=True,
    )


async def _run_alone() -> float:
    """Return the CPU time of the engine and the cluster without a view."""
    async with _running() as (cluster, _):
        await asyncio.sleep(WARM_S)
        spent_s = await _measured()
        check_count("run that still moves", bool(cluster.controller.reassigning), expected=True)
    return spent_s


async def _run_watched() -> float:
    async with _running() as (cluster, folder), _view(cluster) as (app, polls):
        app.attach_to(folder)
        await asyncio.sleep(WARM_S)
        attached, before = app.attached, polls.count
        if attached is None:
            raise SystemExit("not measured: the view does not follow the run")
        done = attached.run.counts[State.DONE]
        spent_s = await _measured()
        check_count("partitions of the run", len(attached.run.tracks), PARTITIONS)
        check_count(
            "partitions in the list",
            app.watch_screen.partition_list.arrangement.belonging,
            PARTITIONS,
        )
        check_count("run that still moves", bool(attached.run.in_flight), expected=True)
        _check_most("partitions that ended meanwhile", attached.run.counts[State.DONE] - done, 1)
        _check_most("polls", polls.count - before, FEWEST_POLLS)
    return spent_s


async def _idle() -> float:
    cluster = _cluster(QUIET)
    async with _view(cluster) as (app, polls):
        await asyncio.sleep(WARM_S)
        before = polls.count
        spent_s = await _measured()
        check_count("moving partitions", app.overview.totals.moving, 0)
        census = None if app.progress.last is None else app.progress.last.census
        check_count("partitions of the cluster", 0 if census is None else census.partitions, QUIET)
        _check_most("polls", polls.count - before, FEWEST_POLLS)
    return spent_s


def _check_most(what: str, found: int, least: int) -> None:
    if found < least:
        raise SystemExit(f"not measured: {found} {what}, and at least {least} were expected")


async def _measured() -> float:
    before = time.process_time()
    await asyncio.sleep(MEASURED_S)
    return time.process_time() - before


class CountedPolls(SourceWrapper):
    """Counts the polls of a view."""

    count = 0

    async def poll(self, interest: Interest) -> Observation:
        """Poll once.

        Raises:
            ClusterError: the cluster does not answer.
        """
        self.count += 1
        return await super().poll(interest)


@asynccontextmanager
async def _view(cluster: SimulatedCluster) -> AsyncIterator[tuple[Cockpit, CountedPolls]]:
    observer = Observer(cluster.reader(), cluster.clock)
    polls = CountedPolls(observer)
    app = Cockpit(polls, clock=cluster.clock, poll_interval_s=POLL_S)
    with rare_collections():
        async with app.run_test(size=SIZE, notifications=True):
            yield app, polls
    await observer.aclose()


@asynccontextmanager
async def _running() -> AsyncIterator[tuple[SimulatedCluster, RunDir]]:
    """Carry out a plan on a simulated cluster, in real time."""
    cluster = _cluster(PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        engines = SimulatedEngines(cluster, StateDir(Path(folder)))
        wanted = NewRun(
            name="bench", plan=_plan(cluster), plan_name="bench.json", limits=LIMITS,
            allowed=Allowances(),
        )  # fmt: skip
        started = await engines.start(wanted)
        try:
            yield cluster, started
        finally:
            await engines.aclose()


def _cluster(partitions: int) -> SimulatedCluster:
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_in=NET_IN) for b in range(1, BROKERS + 1)),
        topics=tuple(
            TopicSpec(
                name=f"topic-{t:02}", replicas=_replicas(t), bytes_each=40 * MIB, inbound=0.01 * MIB
            )
            for t in range(partitions // 50)
        ),
    )
    return SimulatedCluster(spec, ScaledClock(1.0))


def _replicas(topic: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple((topic + number + place) % BROKERS + 1 for place in range(3)) for number in range(50)
    )


def _plan(cluster: SimulatedCluster) -> Plan:
    """Replace the last replica of each partition."""
    return Plan(
        tuple(
            PartitionTarget(topic.name, number, (*old[:-1], old[-1] % BROKERS + 1))
            for topic in cluster.spec.topics
            for number, old in enumerate(topic.replicas)
        )
    )
