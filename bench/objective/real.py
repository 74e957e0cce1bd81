"""Ways to choose a rate on real brokers, with producers whose load doubles for a while.

The best constant rate is the highest of some under which enough windows keep the objective; nobody
knows it beforehand. `KTUI_BENCH_SHARE` gives the share of a core of each broker, without which they
share all cores and reach the machine's limit before their own, `KTUI_BENCH_ROUNDS` the number of
rounds (3), `KTUI_BENCH_BELOW_MS` the objective's value (400), and `KTUI_BENCH_MIB_EACH` the size of
each partition (64): the smaller it is, the more of the time is the objective's cautious beginning.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.checks import check_count, printed_at_end
from bench.disturbing import (
    SIX_BROKERS,
    Way,
    brokers,
    quietly,
    remove_tool_throttles,
    settle,
    too_busy,
    warm_up,
    watched,
)
from bench.machine import Samples, sampled
from bench.objective.latency import BROKERS, BYTES_S, ring
from bench.objective.simulated import HELD, OBJECTIVE, rate_changes
from bench.producing import WARM_UP_S, Load, producer
from bench.real.processor_shares import processor_shares, wanted_share
from bench.stalls import Timed, stalls_of
from bench.timing import percentile
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.journal import Journal
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.throttle_rates import Objective
from ktui.quantities import as_rate

PARTITIONS = 18
LOAD = Load(BYTES_S, 2.0, WARM_UP_S + 30.0, WARM_UP_S + 60.0)
CONSTANT = (5_000_000, 10_000_000, 20_000_000, 40_000_000)
"""Rates in bytes a second into each broker."""
WINDOW_S = 10.0
_LIMITS = ("--replicas", "1", "--per-broker", "2")
_AT_ONCE = Way("all at once")


class Cost(NamedTuple):
    """What one way has cost."""

    seconds: float
    windows: int
    """Those of 10 s from the first move to the end of the last."""
    over: int
    """Those of them whose p99 was over the objective."""
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
        return too_busy(self.idle, self.gc_s / self.seconds)


def run() -> None:
    """Print what each way has cost, round by round, and how ours compares with the best rate.

    What a machine without idle CPUs has cost does not count. All at once has no throttle, and
    leaves none on any machine that is small enough.
    """
    count = int(os.environ.get("KTUI_BENCH_ROUNDS", "3"))
    bytes_each = int(os.environ.get("KTUI_BENCH_MIB_EACH", "64")) * 2**20
    objective = Objective(
        "p99", float(os.environ.get("KTUI_BENCH_BELOW_MS", OBJECTIVE.below)), "ms"
    )
    ours = Way(f"--slo {objective}", (*_LIMITS, "--slo", str(objective), "--canary"))
    constant = {Way(as_rate(rate), _LIMITS): rate for rate in CONSTANT}
    costs: defaultdict[Way, list[Cost]] = defaultdict(list)
    with processor_shares(wanted_share()) as shares, brokers(BROKERS) as lab:
        warm_up(lab, SIX_BROKERS)
        shares.limit(lab)
        for number in range(count):
            print(f"round {number + 1}")
            for n, way in enumerate((_AT_ONCE, *constant, ours)):
                topic = f"bench-{number}-{n}"
                cost = _cost(lab, topic, bytes_each, way, constant.get(way), objective)
                if not cost.of_the_machine:
                    costs[way].append(cost)
                mark = "!" if cost.of_the_machine else " "
                print(f"{mark} {way.name:<16}{_line(cost)}", flush=True)
        print("\n".join(_summary(costs, ours)), flush=True)


def _summary(costs: Mapping[Way, Sequence[Cost]], ours: Way) -> Iterator[str]:
    """Say how often each way kept the objective, and how long ours took beside the best rate."""
    for way, found in costs.items():
        windows = sum(cost.windows for cost in found)
        yield (
            f"{way.name:<16} kept in {_kept(found):.1%} of {windows} windows (aim {HELD:.0%}), "
            f"{_seconds(found):.0f} s"
        )
    keep = [w for w, found in costs.items() if w is not ours and _kept(found) >= HELD]
    if ours in costs and keep:
        best = min(keep, key=lambda way: _seconds(costs[way]))
        share = _seconds(costs[best]) / _seconds(costs[ours])
        yield f"{share:.2f} of the rate of the best that keeps it, {best.name}"


def _kept(costs: Sequence[Cost]) -> float:
    return 1 - sum(cost.over for cost in costs) / sum(cost.windows for cost in costs)


def _seconds(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.seconds for cost in costs)


def _line(cost: Cost) -> str:
    return (
        f"{cost.seconds:5.0f} s  {cost.over} of {cost.windows} windows over  stalled "
        f"{cost.stalled_s:6.1f} partition-s  worst second {cost.worst_s * 1000:5.0f} ms  "
        f"{cost.changes_a_minute:4.2f} changes a minute  idle {cost.idle:.0%}  GC {cost.gc_s:.1f} s"
    )


def _cost(
    lab: Lab, topic: str, bytes_each: int, way: Way, throttle: int | None, objective: Objective
) -> Cost:
    """Move the replicas of a topic in one way with a producer on it, and measure the cost."""
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, topic, [ring(n) for n in range(PARTITIONS)])
    for number in range(PARTITIONS):
        fill(connection, topic, [number], bytes_each=bytes_each)
    plan = Plan(tuple(PartitionTarget(topic, n, ring(n, 3)) for n in range(PARTITIONS)))
    settle(lab)
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
            timed: Timed = printed_at_end(writing, "producer")
            if way.options is None:
                remove_tool_throttles(lab, file)
            changes = 0 if way.options is None else _changes(Path(folder))
        period = (ended_s - seconds, ended_s)
        return _judged(timed, period, changes, machine, objective)
    finally:
        delete_topics(connection, [topic])


def _changes(folder: Path) -> int:
    found = StateDir(folder).run_dirs()
    check_count("runs", len(found), 1)
    with Journal.open(found[0].journal, SystemClock(), read_only=True) as journal:
        return rate_changes(list(journal.entries()))


def _judged(
    timed: Timed,
    period: tuple[float, float],
    changes: int,
    machine: Samples,
    objective: Objective,
) -> Cost:
    since_s, until_s = period
    during = [each for each in timed if since_s <= each[0] <= until_s]
    seconds = until_s - since_s
    figures = [percentile(took, 0.99) for took in _split(during, since_s, WINDOW_S)]
    return Cost(
        seconds,
        len(figures),
        sum(figure * 1000 > objective.below for figure in figures),
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
