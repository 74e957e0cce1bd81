"""One spec, one seed and the same calls give the same answers, in every process."""

from __future__ import annotations

import os
import subprocess
import sys

_STORY = """
import asyncio

from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout as events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, Tide, TopicSpec

NAMES = ("orders", "payments", "audit", "clicks")
spec = ClusterSpec(
    brokers=tuple(BrokerSpec(id=b, net_in=10.0 * MIB) for b in range(1, 7)),
    topics=tuple(
        TopicSpec(name=name, replicas=((1, 2, 3), (2, 3, 4)), bytes_each=99 * MIB, inbound=9e5)
        for name in NAMES
    ),
    tide=Tide(swing=0.3, noise=0.2),
)
clock = VirtualClock()
cluster = SimulatedCluster(spec, clock, seed=5)


async def tell():
    reader = cluster.reader()
    print(await reader.describe_cluster())
    print(await reader.describe_topics(set(NAMES)))
    print(await reader.list_reassignments())
    tps = [tp async for page in reader.scan_topics() for tp in page.partitions]
    for broker in cluster.machines.up():
        print(await reader.log_offsets(broker, ends=tps, starts=tps))
        print(await reader.log_dirs(broker, tps))
    print(await reader.topic_configs({*NAMES, "gone"}))


for act in (
    events.Alter({TopicPartition(name, 0): (5, 6, 3) for name in NAMES}),
    events.Hang(2),
    events.DeleteTopic("audit"),
    events.Kill(3),
    events.Slow(1, 0.02),
):
    cluster.do(act)
    clock.pass_time(12.0)
    asyncio.run(tell())
"""


def _printed(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", _STORY],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_a_process_with_other_hashes_prints_the_same_answers_in_the_same_order() -> None:
    assert _printed("1") == _printed("2")
