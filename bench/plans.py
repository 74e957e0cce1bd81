"""CPU time of a plan of 200,000 partitions, from file to preview, relative to json.loads."""

from __future__ import annotations

import json
import random
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial

from bench.checks import check_count
from bench.timing import ratio
from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.pacing.limits import SHAPES, Limits, Shape, default_limits
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import ClusterSnapshot, Severity
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.read import read_plan
from ktui.preview.facts import ClusterFacts, Terms, steps_of
from ktui.preview.preview import PreviewBase

BROKERS = 12
PARTITIONS = 200
"""Partitions per topic."""
TURNS = 5
GB = 1_000_000_000


def run() -> None:
    """Print the figures."""
    _large_plan()
    _limits_being_typed()


def _large_plan() -> None:
    made, cluster = _world(200_000)
    data = plan_as_json(made).encode()
    del made
    size = f"{len(data) / 1e6:.0f} MB"
    before = _peak_memory()
    loads, reads = _in_turn(lambda: json.loads(data), lambda: read_plan(data))
    plan, limits = read_plan(data), default_limits()
    check_count("partitions read", len(plan.partitions), 200_000)
    print(
        f"a plan of 200,000 partitions ({size}): json.loads {statistics.median(loads):.2f} s; "
        f"read {ratio(reads, loads):.2f} times that (aim: at most 4)"
    )
    one = statistics.median(loads)
    for what, action in (
        ("checked", lambda: _check(plan, cluster)),
        ("split into steps", lambda: _split(plan, cluster, limits)),
    ):
        print(f"  {what} {_seconds(action) / one:.1f} times that")
    grounds: list[PreviewBase] = []
    once = _seconds(lambda: grounds.append(PreviewBase(plan, ClusterFacts(seen=cluster))))
    print(f"  preview, once {once / one:.1f}")
    for shape in SHAPES:
        taken = _seconds(partial(_preview, grounds[0], plan, _in(limits, shape)))
        print(f"  preview, under limits, {shape} {taken / one:.1f} ({taken:.1f} s)")
    grown = (_peak_memory() - before) / 1e6
    print(f"  peak memory: {grown:.0f} MB more than with the file and the cluster alone")


def _limits_being_typed() -> None:
    plan, cluster = _world(10_000)
    ground, limits = PreviewBase(plan, ClusterFacts(seen=cluster)), default_limits()
    for shape in SHAPES:
        under = partial(_preview, ground, plan, _in(limits, shape), roughly=True)
        taken = [_seconds(under) for _ in range(9)]
        print(
            f"preview of 10,000 partitions as limits change, {shape}: "
            f"{statistics.median(taken) * 1000:.0f} ms (aim: under 333 ms)"
        )


def _check(plan: Plan, cluster: ClusterSnapshot) -> None:
    problems = [each for each in check_plan(plan, cluster) if each.severity is Severity.PROBLEM]
    check_count("problems found", len(problems), 0)


def _split(plan: Plan, cluster: ClusterSnapshot, limits: Limits) -> None:
    moved = sum(bool(each.steps) for each in steps_of(plan, cluster, limits))
    check_count("partitions with steps", moved, len(plan.partitions))


def _preview(ground: PreviewBase, plan: Plan, limits: Limits, *, roughly: bool = False) -> None:
    found = ground.under(Terms(limits=limits), roughly=roughly)
    check_count("replicas to move", found.summary.replica_movements, len(plan.partitions))
    check_count("partitions of unknown size", found.sizes_unknown, 0)


def _world(partitions: int) -> tuple[Plan, ClusterSnapshot]:
    """Make a plan that replaces one replica of each partition, and its cluster."""
    chance = random.Random(1)  # noqa: S311 - not a secret
    states, sizes, targets = {}, {}, []
    for number in range(partitions):
        tp = TopicPartition(f"topic-{number // PARTITIONS:04}", number % PARTITIONS)
        here = tuple((number + place) % BROKERS + 1 for place in range(3))
        states[tp] = PartitionState(tp=tp, topic_id=None, replicas=here, isr=here, leader=here[0])
        sizes[Replica(tp, here[0])] = int(chance.paretovariate(1.3) * GB / 5)
        new = (number + 3) % BROKERS + 1
        targets.append(PartitionTarget(tp.topic, tp.partition, (*here[:2], new)))
    dirs = {b: (LogDir(b, "/data", None, 10_000 * GB, 9_000 * GB),) for b in range(1, BROKERS + 1)}
    cluster = ClusterSnapshot(
        partitions=states,
        brokers={broker: Broker(broker) for broker in dirs},
        configs={tp.topic: TopicConfig() for tp in states},
        sizes=sizes,
        log_dirs=dirs,
    )
    return Plan(tuple(targets)), cluster


def _in(limits: Limits, shape: Shape) -> Limits:
    return Limits(replicas=limits.replicas, partitions=limits.partitions, shape=shape)


def _in_turn(*actions: Callable[[], object]) -> list[list[float]]:
    turns = [[_seconds(action) for action in actions] for _ in range(TURNS)]
    return [list(taken) for taken in zip(*turns, strict=True)]


def _seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of an action, in seconds."""
    started = time.process_time()
    action()
    return time.process_time() - started


def _peak_memory() -> float:
    """Return the peak memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
