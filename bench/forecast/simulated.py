"""Simulated runs: the engine of a real run, on a cluster with other physics, in virtual time.

Each cluster is drawn from its seed, and carries out some runs one after the other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.forecast.physics import MIB, Physics, sharing_of
from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import CancelMoves, Command, SetThrottle
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits, default_limits, parse_limits
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates, parse_throttle_rates
from ktui.recording.recorder import Recorder
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, Tide, TopicSpec
from support.recordings.drained_recordings import RecordedRun

TRAINING = tuple(range(1, 9))
FROZEN = tuple(range(1001, 1009))
"""Seeds of clusters. Rules and figures of the forecast are chosen on `TRAINING` alone."""
RUNS_EACH = 3
_LONGEST_S = 1_200.0
"""A run that has not ended after so many seconds is left: it never ends."""
_OUTAGE_S, _REST_S = 40.0, 300.0
_ACTS = ("nothing",) * 6 + ("throttle", "slow", "outage", "stop", "death")
_LIMITS: tuple[dict[str, object], ...] = (
    {}, {}, {"partitions": 4}, {"partitions": 1}, {"per-broker": 2}, {"pace": "fast"},
    {"partitions": 10, "mode": "wave"}, {"per-broker": 1, "order": "size-desc"},
)  # fmt: skip


class DrawnRun(NamedTuple):
    """One run of a simulated cluster."""

    act: str
    targets: dict[TopicPartition, tuple[int, ...]]
    limits: Limits
    throttle: ThrottleRates
    commands: dict[float, Command]
    events: list[layout.ScheduledEvent]


def cluster_name(seed: int) -> str:
    """Return the name of a simulated cluster."""
    return f"simulated-{seed}"


def record_cluster(seed: int, folder: Path) -> None:
    """Record the runs of a simulated cluster, each in a folder of its own."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable choice
    clock = VirtualClock(leaping=True)
    cluster = _cluster(rng, seed, clock)
    for number in range(1, RUNS_EACH + 1):
        run = _draw(rng, cluster)
        _carry_out(cluster, run, folder / f"{number}-{run.act}", f"run-{number}")
        _recover(cluster, clock)


def _cluster(rng: random.Random, seed: int, clock: VirtualClock) -> SimulatedCluster:
    brokers = range(1, rng.randint(5, 9) + 1)
    rate = MIB * 15 * 5 ** rng.random()
    written = rng.choice([0.0, 0.0, 0.02, 0.05]) * rate
    topics = [
        TopicSpec(
            name=f"t{n:02}",
            replicas=(tuple(rng.sample(brokers, 2)),),
            bytes_each=size,
            inbound=written * rng.uniform(0, 2) / 4,
            configs=rng.choice([{"retention.bytes": str(size)}, {}, {}, {}]),
        )
        for n, size in enumerate(_sizes(rng, rate * len(brokers)))
    ]
    spec = ClusterSpec(
        name=cluster_name(seed),
        brokers=tuple(_broker(rng, b, rate) for b in brokers),
        topics=tuple(topics),
        tide=Tide(swing=0.3, period_s=600.0, noise=0.2),
        auto_leader_rebalance=False,
    )
    cluster = SimulatedCluster(spec, clock, seed=seed)
    physics = Physics(
        seed=seed,
        noise=rng.uniform(0.05, 0.35),
        memory_s=rng.choice([10.0, 30.0, 90.0]),
        round_trip_s=rng.uniform(0.005, 0.08),
        interference=rng.uniform(0.2, 0.8),
    )
    cluster.replication.share_by(sharing_of(physics))
    return cluster


def _sizes(rng: random.Random, bytes_s: float) -> Iterator[int]:
    """Draw the sizes of partitions, as many bytes as take the cluster one to four minutes."""
    count, whole_s = rng.randint(16, 48), rng.uniform(60, 240)
    shares = [10 ** rng.random() for _ in range(count)]
    for share in shares:
        yield round(bytes_s * whole_s / 2 * share / sum(shares))


def _broker(rng: random.Random, broker: int, rate: float) -> BrokerSpec:
    own = rate * rng.uniform(0.6, 1.4)
    return BrokerSpec(id=broker, net_in=own, net_out=own * 1.2, disk_write=own * 1.3)


def _draw(rng: random.Random, cluster: SimulatedCluster) -> DrawnRun:
    brokers = [broker.id for broker in cluster.spec.brokers]
    names = sorted(topic.name for topic in cluster.spec.topics)
    moved = rng.sample(names, max(8, len(names) * 2 // 3))
    targets = {TopicPartition(name, 0): tuple(rng.sample(brokers, 2)) for name in sorted(moved)}
    least = min(broker.net_in for broker in cluster.spec.brokers)
    throttle = round(least * rng.uniform(0.15, 0.6)) if rng.choice([True, True, False]) else None
    limits = parse_limits(named := rng.choice(_LIMITS), default_limits(named))
    act, at_s, victim = rng.choice(_ACTS), rng.uniform(20, 90), rng.choice(brokers)
    began_s = cluster.now_s
    commands: dict[float, Command] = {}
    due: list[layout.ScheduledEvent] = []
    if act == "throttle" and throttle is not None:
        other = round(throttle * rng.choice([0.4, 2.0]))
        commands[at_s] = SetThrottle(parse_throttle_rates(str(other)))
    elif act == "stop":
        commands[at_s] = CancelMoves(CancelKind.STOP)
    elif act == "slow":
        due = [layout.ScheduledEvent(began_s + at_s, layout.Slow(victim, 0.4))]
    elif act in ("outage", "death"):
        due = [layout.ScheduledEvent(began_s + at_s, layout.Kill(victim))]
        if act == "outage":
            due.append(layout.ScheduledEvent(began_s + at_s + _OUTAGE_S, layout.Start(victim)))
    rates = NO_THROTTLE if throttle is None else parse_throttle_rates(str(throttle))
    return DrawnRun(act, targets, limits, rates, commands, due)


def _carry_out(cluster: SimulatedCluster, drawn: DrawnRun, folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    for each in drawn.events:
        cluster.schedule(each)
    run = RecordedRun(cluster, folder, drawn.targets, drawn.limits, throttle=drawn.throttle)
    run.name, run.recorder = name, Recorder(folder, cluster.clock, program="bench")
    run.asked = drawn.commands
    try:
        asyncio.run(_to_its_end(run))
    finally:
        run.recorder.close()


async def _to_its_end(run: RecordedRun) -> None:
    """Carry out a run to its end, or for as long as it may take."""
    running = asyncio.create_task(run.to_its_end())
    limit = asyncio.create_task(run.clock.sleep(_LONGEST_S))
    await asyncio.wait([running, limit], return_when=asyncio.FIRST_COMPLETED)
    limit.cancel()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def _recover(cluster: SimulatedCluster, clock: VirtualClock) -> None:
    """Let the cluster come to rest: every broker up and as fast as ever, and nothing moving."""
    for broker in cluster.spec.brokers:
        cluster.do(layout.Start(broker.id))
        cluster.do(layout.Slow(broker.id, 1.0))
    moving = dict.fromkeys(cluster.controller.reassigning)
    cluster.do(layout.Alter(moving))
    clock.pass_time(_REST_S)
    cluster.catch_up()
