"""Ways to choose a rate on real brokers, with producers whose load doubles for a while.

`python -m bench objective-real`, or `python -m bench.objective.real 12MB` with another constant
rate: the best one that `python -m bench objective` finds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.checks import check_count
from bench.disturbing import (
    LEAST_IDLE,
    MOST_GC_S,
    Way,
    brokers,
    quietly,
    remove_tool_throttles,
    watched,
)
from bench.machine import Samples, sampled
from bench.objective.latency import BROKERS, BYTES_S, ring
from bench.objective.simulated import OBJECTIVE, rate_changes
from bench.producing import WARM_UP_S, Load, producer
from bench.stalls import Timed, stalls_of
from bench.timing import percentile
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.journal import Journal
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.quantities import as_rate

ROUNDS = 3
PARTITIONS = 18
BYTES_EACH = 32 * 1024 * 1024
LOAD = Load(BYTES_S, 2.0, WARM_UP_S + 30.0, WARM_UP_S + 60.0)
CONSTANT = 7_000_000
"""The best constant rate in simulation, in bytes a second into each broker."""
WINDOW_S = 10.0
_LIMITS = ("--replicas", "1", "--per-broker", "2")


class Cost(NamedTuple):
    """What one way has cost."""

    seconds: float
    over: float
    """The share of the windows of 10 s whose p99 was over the objective."""
    stalled_s: float
    """Partition-seconds in which a record had waited for more than 0.3 s."""
    worst_s: float
    """The highest p99 of the records sent in one second, in seconds."""
    changes_a_minute: float
    idle: float
    gc_s: float

    @property
    def of_the_machine(self) -> bool:
        """Whether the machine was too busy for the figures to say anything of the way."""
        return self.idle < LEAST_IDLE or self.gc_s > MOST_GC_S


def run(constant: int = CONSTANT) -> None:
    """Print what each way has cost, round by round; a busy machine's rounds are left out.

    All at once has no throttle, and leaves no CPU idle on any machine that is small enough.
    """
    ways = (
        (Way("all at once"), None),
        (Way(f"constant, {as_rate(constant)}", _LIMITS), constant),
        (Way(f"--slo {OBJECTIVE}", (*_LIMITS, "--slo", str(OBJECTIVE), "--canary")), None),
    )
    left_out = 0
    with brokers(BROKERS) as lab:
        for number in range(ROUNDS):
            print(f"round {number + 1}")
            busy = False
            for n, (way, throttle) in enumerate(ways):
                cost = _cost(lab, f"bench-{number}-{n}", way, throttle)
                busy |= way.options is not None and cost.of_the_machine
                print(f"  {way.name:<20}{_line(cost)}", flush=True)
            left_out += busy
            if busy:
                print("  left out: the machine was too busy")
    print(f"{left_out} of {ROUNDS} rounds left out")


def _line(cost: Cost) -> str:
    return (
        f"{cost.seconds:5.0f} s  {cost.over:6.1%} of the windows over  stalled "
        f"{cost.stalled_s:6.1f} partition-s  worst second {cost.worst_s * 1000:5.0f} ms  "
        f"{cost.changes_a_minute:4.2f} changes a minute  idle {cost.idle:.0%}  GC {cost.gc_s:.1f} s"
    )


def _cost(lab: Lab, topic: str, way: Way, throttle: int | None) -> Cost:
    """Move the replicas of a topic in one way with a producer on it, and measure the cost."""
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, topic, [ring(n) for n in range(PARTITIONS)])
    for number in range(PARTITIONS):
        fill(connection, topic, [number], bytes_each=BYTES_EACH)
    plan = Plan(tuple(PartitionTarget(topic, n, ring(n, 3)) for n in range(PARTITIONS)))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder,
            producer(lab.bootstrap_servers, topic, PARTITIONS, LOAD) as writing,
            sampled(lab) as machine,
        ):
            file = Path(folder) / f"{topic}.json"
            file.write_text(plan_as_json(plan))
            mover = quietly(way.argv(lab, file, folder, throttle))
            seconds, ended_s, _ = asyncio.run(watched(connection, plan, mover))
            timed: Timed = json.loads(writing.communicate()[0])
            check_count("as the exit code of the producer", writing.wait(), 0)
            if way.options is None:
                remove_tool_throttles(lab, file)
            changes = 0 if way.options is None else _changes(Path(folder))
        return _judged(timed, ended_s - seconds, ended_s, changes, machine)
    finally:
        delete_topics(connection, [topic])


def _changes(folder: Path) -> int:
    found = StateDir(folder).run_dirs()
    check_count("runs", len(found), 1)
    with Journal.open(found[0].journal, SystemClock(), read_only=True) as journal:
        return rate_changes(list(journal.entries()))


def _judged(timed: Timed, since_s: float, until_s: float, changes: int, machine: Samples) -> Cost:
    during = [each for each in timed if since_s <= each[0] <= until_s]
    seconds = until_s - since_s
    figures = [percentile(took, 0.99) for took in _split(during, since_s, WINDOW_S)]
    return Cost(
        seconds,
        sum(figure * 1000 > OBJECTIVE.below for figure in figures) / len(figures),
        sum(stall.until_s - stall.since_s for stall in stalls_of(during)),
        max(percentile(took, 0.99) for took in _split(during, since_s, 1.0)),
        60 * changes / seconds,
        machine.idle(since_s, until_s),
        machine.gc_s(since_s, until_s),
    )


def _split(timed: Timed, since_s: float, window_s: float) -> Sequence[Sequence[float]]:
    """Return how long the records of each window took, by when they were sent."""
    windows: defaultdict[int, list[float]] = defaultdict(list)
    for sent_s, took_s, _ in timed:
        windows[int((sent_s - since_s) / window_s)].append(took_s)
    return list(windows.values())


if __name__ == "__main__":
    run(parse_throttle_rates(sys.argv[1]).every or CONSTANT)
