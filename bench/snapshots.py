"""The CPU time and the memory of a snapshot of 200,000 partitions, and of reading its file."""

from __future__ import annotations

import asyncio
import random
import resource
import tempfile
import time
from pathlib import Path

from bench.checks import check_count
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import GIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.scenario.library import load_scenario
from ktui.simulated.scenario.topics import place_replicas
from ktui.simulated.twin import ClusterTwin, take_twin, twin_text

TOPICS, PARTITIONS, BROKERS = 1_000, 200, 100
DOWN = 7
MEASURED_S = 60.0
MOST_SECONDS, MOST_BYTES = 60, 10**9


def run() -> None:
    """Print the figures."""
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(_spec(), clock)
    cluster.do(layout.Kill(DOWN))
    clock.pass_time(60.0)
    cluster.catch_up()
    before = _peak()
    started = time.process_time()
    twin = asyncio.run(_take(cluster, clock))
    read_s = time.process_time() - started
    text = twin_text(twin, "Snapshot", "")
    taken_s, grown = time.process_time() - started, _peak() - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "twin.yaml"
        path.write_text(text, encoding="utf-8")
        started = time.process_time()
        spec = load_scenario(path).spec
        loaded_s = time.process_time() - started
    partitions = sum(len(topic.replicas) for topic in spec.topics)
    check_count("partitions", partitions, TOPICS * PARTITIONS)
    check_count("brokers", len(spec.brokers), BROKERS)
    check_count("differences of the file from its twin", int(spec != twin.spec), 0)
    print(
        f"a snapshot of {partitions:,} partitions and {BROKERS} brokers, one of them down: "
        f"{taken_s:.1f} s of CPU ({read_s:.1f} s of it reading), {grown / 1e6:.0f} MB more than "
        f"the cluster (aim: at most {MOST_SECONDS} s and {MOST_BYTES / 1e6:,.0f} MB)"
    )
    print(f"  its file of {len(text) / 1e6:.1f} MB is read in {loaded_s:.1f} s of CPU")


async def _take(cluster: SimulatedCluster, clock: VirtualClock) -> ClusterTwin:
    rates = SnapshotRates(slow=20e6, usual=50e6, fast=100e6, source=RatesFrom.ASSUMED)
    reader = cluster.reader()
    try:
        return await take_twin(reader, clock, rates=lambda _: rates, measure_s=MEASURED_S)
    finally:
        await reader.aclose()


def _spec() -> ClusterSpec:
    chance = random.Random(1)  # noqa: S311 - not a secret
    brokers = range(1, BROKERS + 1)
    return ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=b, rack=f"rack-{b % 10}", disk_bytes=20_000 * GIB) for b in brokers
        ),
        topics=tuple(
            TopicSpec(
                name=f"topic-{number:04}",
                replicas=place_replicas(PARTITIONS, 3, brokers, first=number, shifting=True),
                sizes=tuple(int(chance.paretovariate(1.3) * GIB / 5) for _ in range(PARTITIONS)),
                inbounds=tuple(chance.uniform(0, 5_000) for _ in range(PARTITIONS)),
                configs={"min.insync.replicas": "2", "retention.ms": "604800000"},
            )
            for number in range(TOPICS)
        ),
    )


def _peak() -> float:
    """Return the peak memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
