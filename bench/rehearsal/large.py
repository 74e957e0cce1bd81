"""How long a rehearsal of 10,000 moves takes, on a slow, a usual and a fast twin."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.checks import check_count
from ktui.execution.host.launch import NewRun
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.rehearsal.play import Rehearsal
from ktui.rehearsal.twin import Twin, twin_of
from ktui.rehearsal.twins import cores, prepare, rehearse
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import GIB, BrokerSpec, ClusterSpec, TopicSpec

OLD, NEW = 90, 10
"""So many brokers have replicas, and so many are new."""
BALANCED = 24
"""So many brokers exchange replicas."""
TOPICS, PARTITIONS = 200, 50
MB = 1_000_000
MOST_S = 60.0

Placement = Sequence[tuple[int, ...]]


class Case(NamedTuple):
    """A plan of 10,000 moves, and its cluster."""

    name: str
    twin: Twin
    plan: Plan


def run() -> None:
    """Print the figures."""
    for case in (balancing(), growing()):
        _measure(case)


def _measure(case: Case) -> None:
    began_s, cpu_s = time.perf_counter(), _cpu_s()
    rehearsal = rehearsal_of(case.plan, case.twin, default_limits({}))
    twins = rehearse(rehearsal, case.twin, start=FIRST_MOMENT)
    taken_s = time.perf_counter() - began_s
    moves = len(case.plan.partitions)
    for each in twins:
        check_count("moves that ended at their target", each.summary.done, moves)
    lasts = ", ".join(f"{each.pace} {each.summary.time_s / 3600:.1f} h" for each in twins)
    print(
        f"a rehearsal of {moves:,} moves {case.name}: {taken_s:.0f} s (aim: at most {MOST_S:.0f} s "
        f"on two cores; here {cores()}), {_cpu_s() - cpu_s:.0f} s of CPU; the twins last: {lasts}",
        flush=True,
    )


def rehearsal_of(plan: Plan, twin: Twin, limits: Limits) -> Rehearsal:
    """Return the rehearsal of a plan that a start would accept."""
    wanted = NewRun(
        plan=plan,
        name="large",
        plan_name="large.json",
        limits=limits,
        options=RunOptions(record=False),
        allowed=Allowances(),
    )
    prepared = prepare(wanted, twin)
    if prepared.rehearsal is None:
        raise SystemExit(f"not measured: {prepared.preview.findings[0]}")
    return prepared.rehearsal


def balancing() -> Case:
    """Return a plan that moves one replica of each partition of 100 MB to another broker."""
    placed = [_placed(topic, BALANCED) for topic in range(TOPICS)]
    topics = [
        TopicSpec(
            name=_name(topic),
            replicas=replicas,
            bytes_each=100 * MB,
            inbound=0.002 * MB,
            configs={"min.insync.replicas": "2"},
        )
        for topic, replicas in enumerate(placed)
    ]
    targets = [[(*here[:2], (here[2] + 2) % BALANCED + 1) for here in each] for each in placed]
    name = f"of 100 MB between {BALANCED} brokers"
    return Case(name, _twin(BALANCED, topics), _plan(targets))


def growing() -> Case:
    """Return a plan that gives one replica of each partition to one of ten new brokers."""
    chance = random.Random(1)  # noqa: S311 - not a secret
    placed = [_placed(topic, OLD) for topic in range(TOPICS)]
    topics = [
        TopicSpec(
            name=_name(topic),
            replicas=replicas,
            sizes=tuple(_size(chance) for _ in range(PARTITIONS)),
            inbound=0.0002 * (1 + topic % 23) * MB,
            configs={"min.insync.replicas": "2"},
        )
        for topic, replicas in enumerate(placed)
    ]
    targets = [
        [(*here[:2], OLD + 1 + (topic + number) % NEW) for number, here in enumerate(replicas)]
        for topic, replicas in enumerate(placed)
    ]
    held = sum(sum(topic.sizes or ()) for topic in topics) / MB / 1_000
    name = f"of {held:,.0f} GB onto {NEW} of {OLD + NEW} brokers"
    return Case(name, _twin(OLD + NEW, topics), _plan(targets))


def _size(chance: random.Random) -> int:
    return int(min(chance.paretovariate(1.3), 50.0) * 70 * MB)


def _name(topic: int) -> str:
    return f"topic-{topic:03}"


def _placed(topic: int, brokers: int) -> tuple[tuple[int, ...], ...]:
    firsts = (topic * PARTITIONS + number for number in range(PARTITIONS))
    return tuple(tuple((first + place) % brokers + 1 for place in range(3)) for first in firsts)


def _twin(count: int, topics: Sequence[TopicSpec]) -> Twin:
    brokers = (
        BrokerSpec(id=broker, rack=f"rack-{broker % 3}", disk_bytes=4_000 * GIB)
        for broker in range(1, count + 1)
    )
    spec = ClusterSpec(name="large", brokers=tuple(brokers), topics=tuple(topics))
    return twin_of("large", spec, None)


def _plan(targets: Sequence[Placement]) -> Plan:
    return Plan(
        tuple(
            PartitionTarget(_name(topic), number, replicas)
            for topic, each in enumerate(targets)
            for number, replicas in enumerate(each)
        )
    )


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
