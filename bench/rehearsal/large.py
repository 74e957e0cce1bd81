"""How long a rehearsal of 10,000 moves takes, on a slow, a usual and a fast twin."""

from __future__ import annotations

import random
import resource
import time

import msgspec

from bench.checks import check_count
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.rehearsal.play import Rehearsal
from ktui.rehearsal.prepare import PlanToRehearse, prepare
from ktui.rehearsal.twin import Twin
from ktui.rehearsal.twins import cores, rehearse
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import GIB, BrokerSpec, ClusterSpec, TopicSpec

OLD, NEW = 90, 10
"""So many brokers have replicas, and so many are new."""
TOPICS, PARTITIONS = 200, 50
MB = 1_000_000
MOST_S = 60.0


def run() -> None:
    """Print the figures."""
    limits = default_limits({})
    own = msgspec.structs.replace(limits, partitions=200, per_broker=8, per_leader=4)
    for name, chosen in (("the default limits", limits), ("P 200, B 8, S 4", own)):
        _measure(name, chosen)


def _measure(name: str, limits: Limits) -> None:
    began_s, cpu_s = time.perf_counter(), _cpu_s()
    twin, plan = growing_twin(), plan_of_all()
    twins = rehearse(rehearsal_of(plan, twin, limits), twin, start=FIRST_MOMENT)
    taken_s = time.perf_counter() - began_s
    for each in twins:
        check_count("moves that ended at their target", each.summary.done, len(plan.partitions))
    lasts = ", ".join(f"{each.pace} {each.summary.time_s / 3600:.1f} h" for each in twins)
    print(
        f"a rehearsal of {len(plan.partitions):,} moves onto {NEW} of {OLD + NEW} brokers, {name}: "
        f"{taken_s:.0f} s (aim: at most {MOST_S:.0f} s on two cores; here {cores()}), "
        f"{_cpu_s() - cpu_s:.0f} s of CPU; the twins last: {lasts}"
    )


def rehearsal_of(plan: Plan, twin: Twin, limits: Limits) -> Rehearsal:
    """Return the rehearsal of a plan that a start would accept."""
    wanted = PlanToRehearse(
        plan=plan,
        name="large",
        plan_name="large.json",
        limits=limits,
        options=RunOptions(record=False),
        allowed=Allowances(),
    )
    prepared = prepare(wanted, twin)
    if prepared.rehearsal is None:
        raise SystemExit(f"not measured: {prepared.findings[0]}")
    return prepared.rehearsal


def growing_twin() -> Twin:
    """Return a cluster of 100 brokers, 10 of which hold nothing yet."""
    chance = random.Random(1)  # noqa: S311 - not a secret
    topics = tuple(
        TopicSpec(
            name=f"topic-{topic:03}",
            replicas=_replicas(topic),
            sizes=tuple(_size(chance) for _ in range(PARTITIONS)),
            inbound=0.0002 * (1 + topic % 23) * MB,
            configs={"min.insync.replicas": "2"},
        )
        for topic in range(TOPICS)
    )
    brokers = (
        BrokerSpec(id=broker, rack=f"rack-{broker % 3}", disk_bytes=4_000 * GIB)
        for broker in range(1, OLD + NEW + 1)
    )
    return Twin(name="large", spec=ClusterSpec(name="large", brokers=tuple(brokers), topics=topics))


def _size(chance: random.Random) -> int:
    return int(min(chance.paretovariate(1.3), 50.0) * 70 * MB)


def _replicas(topic: int) -> tuple[tuple[int, ...], ...]:
    firsts = (topic * PARTITIONS + number for number in range(PARTITIONS))
    return tuple(tuple((first + place) % OLD + 1 for place in range(3)) for first in firsts)


def plan_of_all() -> Plan:
    """Return the plan that gives one replica of each partition to a new broker."""
    return Plan(
        tuple(
            PartitionTarget(
                f"topic-{topic:03}", number, (*here[:2], OLD + 1 + (topic + number) % NEW)
            )
            for topic in range(TOPICS)
            for number, here in enumerate(_replicas(topic))
        )
    )


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
