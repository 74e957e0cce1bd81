"""The CPU time of simulated time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from bench.checks import check_count
from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import GIB, MIB, BrokerSpec, ClusterSpec, TopicSpec

BROKERS = 12
MOVING = 10_000
SECONDS = 300
"""Simulated seconds: the first moves end after two minutes, and until then time costs nothing."""


def run() -> None:
    """Print the figures."""
    _at_scale()
    _moves("1,000 moves at once, to their end", at_once=1_000)
    _moves("1,000 moves, 4 at a time", at_once=4)


def _at_scale() -> None:
    cluster, clock = _cluster(topics=1_000, partitions=200, bytes_each=GIB // 8)
    built_s = _cpu_s(lambda: _cluster(topics=1_000, partitions=200, bytes_each=GIB // 8))
    _start(cluster, _targets(cluster, MOVING))
    clock.pass_time(1.0)
    cluster.catch_up()
    check_count("moving partitions", len(cluster.controller.reassigning), MOVING)
    taken = [_cpu_s(lambda: _second(cluster, clock)) for _ in range(SECONDS)]
    ended = MOVING - len(cluster.controller.reassigning)
    if not ended:
        raise SystemExit(f"not measured: no move has ended within {SECONDS} s")
    polled_s = asyncio.run(_polls(cluster, clock))
    print(
        f"200,000 partitions, {MOVING:,} moving: built in {built_s:.2f} s; "
        f"{SECONDS} simulated seconds, in which {ended:,} moves end, take {sum(taken):.2f} s, "
        f"the worst of them {max(taken) * 1000:.0f} ms (aim: under 100 ms); "
        f"one poll by the observer {polled_s * 1000:.0f} ms"
    )


async def _polls(cluster: SimulatedCluster, clock: VirtualClock) -> float:
    observer = Observer(cluster.reader(), clock)
    await observer.poll()
    clock.pass_time(1.0)
    cluster.catch_up()
    before = time.process_time()
    seen = await observer.poll()
    taken = time.process_time() - before
    await observer.aclose()
    moves = sum(bool(state.adding) for state in seen.partitions.values())
    check_count("moves in a poll", moves, len(cluster.controller.reassigning))
    return taken


def _moves(what: str, *, at_once: int) -> None:
    cluster, clock = _cluster(topics=200, partitions=5, bytes_each=4 * GIB)
    targets = _targets(cluster, 1_000)
    queue = list(targets.items())
    before = time.process_time()
    while queue or cluster.controller.reassigning:
        room = at_once - len(cluster.controller.reassigning)
        if room and queue:
            _start(cluster, dict(queue[:room]))
            del queue[:room]
        clock.pass_time(1.0)
        cluster.catch_up()
    spent_s = time.process_time() - before
    done = sum(
        cluster.controller.topics[tp.topic].partitions[tp.partition].replicas == target
        for tp, target in targets.items()
    )
    check_count("moves that ended at their target", done, 1_000)
    print(f"{what}: {clock.monotonic() / 3600:.1f} h take {spent_s:.2f} s (aim: under 1 s)")


def _second(cluster: SimulatedCluster, clock: VirtualClock) -> None:
    clock.pass_time(1.0)
    cluster.catch_up()


def _cluster(
    *, topics: int, partitions: int, bytes_each: int
) -> tuple[SimulatedCluster, VirtualClock]:
    def replicas(topic: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple((topic + number + place) % BROKERS + 1 for place in range(3))
            for number in range(partitions)
        )

    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, disk_bytes=10**15) for b in range(1, BROKERS + 1)),
        topics=tuple(
            TopicSpec(
                name=f"topic-{t:04}",
                replicas=replicas(t),
                bytes_each=bytes_each * (1 + t % 37) // 19,
                inbound=0.0001 * (1 + t % 23) * MIB,
            )
            for t in range(topics)
        ),
    )
    clock = VirtualClock()
    return SimulatedCluster(spec, clock), clock


def _targets(cluster: SimulatedCluster, limit: int) -> dict[TopicPartition, tuple[int, ...]]:
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in cluster.controller.topics.items():
        for number, known in enumerate(topic.partitions):
            if len(found) == limit:
                return found
            new = known.replicas[-1] % BROKERS + 1
            found[TopicPartition(name, number)] = (*known.replicas[:-1], new)
    return found


def _start(cluster: SimulatedCluster, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    cluster.do(layout.Alter(dict(targets)))


def _cpu_s(action: Callable[[], object]) -> float:
    before = time.process_time()
    action()
    return time.process_time() - before
