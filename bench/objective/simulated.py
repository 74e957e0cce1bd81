"""Ways to choose a rate, on a simulated cluster with producers whose load doubles for a while.

The cluster is the lab of `python -m bench latency`, with the constants of its model. What is
decided without the figure (a constant rate, a schedule, `--by`) is carried out once, and the ten
seeds draw what its producers feel. Ways that follow the figure are carried out once a seed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from bench.objective.latency import BROKERS, CAPACITY, ring
from bench.simulated_runs import carry_out
from ktui.cluster.clock import Clock
from ktui.execution.host.figures import CanaryFigure
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, RateChosen, RateHeld, ThrottleChanged
from ktui.execution.run.options import RunOptions, Schedule
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import no_figure
from ktui.pacing.limits import Limits
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import Objective, ThrottleRates
from ktui.quantities import as_rate
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, ScheduledEvent, SetInbound, TopicSpec
from ktui.simulated.producers import WINDOW_S, Producers, Second, percentiles_s, rank

SEEDS = range(10)
OBJECTIVE = Objective("p99", 400.0, "ms")
"""Well over what a machine with two cores is late by itself."""
PARTITIONS = 18
BYTES_EACH = 600_000_000
BYTES_S = 2e6
"""Bytes a second of all producers before and after the rush."""
LIMITS = Limits(replicas=1, per_broker=2)
"""Each broker receives nearly always, so that its rate decides how long the plan takes."""
RUSH_S = (300.0, 700.0)
"""When producers write twice as much, in seconds from the start."""
MB = 1_000_000
LOW, HIGH, _FINELY = 2 * MB, 12 * MB, MB // 2
HELD = 0.95
"""The share of windows in which the figure has to be below the objective."""
MOST_TIMES = 1.2
"""The most that ours may take, as a multiple of the best constant rate."""
_AIMD_UP, _AIMD_DOWN = MB // 2, 0.5
_BY_TIMES = 2.0
"""The time of --by, as a multiple of the time at full rate."""


class Outcome(NamedTuple):
    """How one way went, with one seed."""

    seconds: float
    over: float
    """The share of the windows of 10 s with a figure over the objective."""
    stalled_s: float
    """Partition-seconds in which a record had waited for more than 0.3 s."""
    worst_s: float
    """The highest p99 of a single second, of all records, in seconds."""
    changes_a_minute: float


class Way(NamedTuple):
    """A way to choose the rate: by the options of the run, and by an operator beside it."""

    options: RunOptions
    operator: Callable[[Clock, Producers, Journal], Coroutine[Any, Any, None]] | None = None
    within_s: float | None = None
    """The seconds of --by; None without it."""


def run() -> None:
    """Print what each way takes, and what producers feel of it."""
    rates = range(LOW, HIGH + 1, _FINELY)
    best, best_found = _fastest(rates, _constant)
    calm, schedule_found = _fastest(rates, _schedule)
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        aimd = list(pool.map(partial(_outcome, _aimd()), SEEDS))
        ours = list(pool.map(partial(_outcome, _ours()), SEEDS))
    print(f"objective {OBJECTIVE}; the load doubles from {RUSH_S[0]:.0f} to {RUSH_S[1]:.0f} s")
    for name, found in (
        (f"constant, {as_rate(LOW)}", outcomes(_constant(LOW), SEEDS)),
        (f"constant, {as_rate(HIGH)}", outcomes(_constant(HIGH), SEEDS)),
        (f"best constant, {as_rate(best)}", best_found),
        (f"schedule, {as_rate(calm)} and half", schedule_found),
        ("AIMD", aimd),
        (f"--slo {OBJECTIVE}", ours),
    ):
        print(f"  {name:<28}{_line(found)}")
    times = _mean_s(ours) / _mean_s(best_found)
    print(f"  ours takes {times:.2f} times the best constant rate (aim {MOST_TIMES})")
    _print_by()


def _print_by() -> None:
    full = outcomes(Way(RunOptions()), SEEDS)
    paced = outcomes(Way(RunOptions(), within_s=_BY_TIMES * full[0].seconds), SEEDS)
    print("in time, beside full rate")
    for name, found in (("full rate", full), (f"--by, {_BY_TIMES:g} x the time", paced)):
        print(f"  {name:<28}{_line(found)}")
    part = sum(each.stalled_s for each in paced) / sum(each.stalled_s for each in full)
    print(f"  --by stalls {part:.2f} times as much (aim 0.5)")


def _mean_s(found: Sequence[Outcome]) -> float:
    return statistics.mean(each.seconds for each in found)


def _line(found: Sequence[Outcome]) -> str:
    over = statistics.mean(each.over for each in found)
    return (
        f"{_mean_s(found):5.0f} s  {over:6.1%} of the windows over (worst seed "
        f"{max(each.over for each in found):.1%})  stalled "
        f"{statistics.mean(each.stalled_s for each in found):6.1f} partition-s  worst second "
        f"{max(each.worst_s for each in found) * 1000:5.0f} ms  "
        f"{statistics.mean(each.changes_a_minute for each in found):4.2f} changes a minute"
    )


def _fastest(rates: Sequence[int], way_of: Callable[[int], Way]) -> tuple[int, list[Outcome]]:
    """Return the highest rate that holds the objective often enough, and how it went.

    Raises:
        SystemExit: none of them does.
    """
    low, high = 0, len(rates)
    holding: tuple[int, list[Outcome]] | None = None
    while low < high:
        middle = (low + high) // 2
        found = outcomes(way_of(rates[middle]), SEEDS)
        if statistics.mean(each.over for each in found) <= 1 - HELD:
            holding, low = (rates[middle], found), middle + 1
        else:
            high = middle
    if holding is None:
        raise SystemExit(f"not measured: {as_rate(rates[0])} does not hold {OBJECTIVE} either")
    return holding


def _constant(rate: int) -> Way:
    return Way(RunOptions(throttle=ThrottleRates(every=rate)))


def _schedule(rate: int) -> Way:
    """Return the way of an operator who knows the rush, and sets half the rate in it."""

    async def operate(clock: Clock, _: Producers, journal: Journal) -> None:
        for at_s, now in ((RUSH_S[0], rate // 2), (RUSH_S[1], rate)):
            await clock.sleep(at_s - clock.monotonic())
            _set_rate(journal, now)

    return Way(RunOptions(throttle=ThrottleRates(every=rate)), operate)


def _aimd() -> Way:
    """Return the textbook's way: up by a constant, down by half, every window."""
    return Way(RunOptions(throttle=ThrottleRates(every=FLOOR)), _follow)


async def _follow(clock: Clock, producers: Producers, journal: Journal) -> None:
    rate = FLOOR
    while True:
        await clock.sleep(WINDOW_S)
        figures = producers.percentiles_s(99)
        if figures:
            over = max(figures.values()) * 1000 > OBJECTIVE.below
            rate = max(FLOOR, int(rate * _AIMD_DOWN)) if over else rate + _AIMD_UP
            _set_rate(journal, rate)


def _ours() -> Way:
    return Way(RunOptions(throttle=ThrottleRates(objective=OBJECTIVE), canary=True))


def _set_rate(journal: Journal, rate: int) -> None:
    journal.ask(SetThrottle(ThrottleRates(every=rate)), "bench")


def _outcome(way: Way, seed: int) -> Outcome:
    return outcomes(way, [seed])[0]


def outcomes(way: Way, seeds: Sequence[int]) -> list[Outcome]:
    """Carry out the plan once, and return how it went for the producers of each seed.

    A way that follows the figure follows that of the first seed.
    """
    return asyncio.run(_carried_out(way, seeds))


async def _carried_out(way: Way, seeds: Sequence[int]) -> list[Outcome]:
    spec, plan = _scene()
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(spec, clock)
    for at_s, factor in zip(RUSH_S, (2.0, 1.0), strict=True):
        for topic in spec.topics:
            cluster.schedule(ScheduledEvent(at_s, SetInbound(topic.name, factor * topic.inbound)))
    felt = [Producers(cluster, seed=seed, keep_s=None) for seed in seeds]
    for producers in felt:
        producers.start()
    options, operator = way.options, way.operator
    if way.within_s is not None:
        by = clock.now() + timedelta(seconds=way.within_s)
        options = RunOptions(schedule=Schedule(by=by))
    seconds, entries = await carry_out(
        cluster,
        plan,
        LIMITS,
        options,
        figure=CanaryFigure(felt[0]) if options.canary else no_figure,
        beside=None if operator is None else partial(operator, clock, felt[0]),
    )
    changes = 60 * rate_changes(entries) / seconds
    return [_judged(list(p.seconds), seconds, changes) for p in felt]


def rate_changes(entries: Sequence[JournalEntry]) -> int:
    """Return how often another rate was chosen, after the first one."""
    rates: list[int | None] = []
    for event in (entry.event for entry in entries):
        if isinstance(event, RateHeld | RateChosen):
            rates.append(event.rate)
        elif isinstance(event, ThrottleChanged):
            rates.append(event.new.every)
    return sum(one != other for one, other in itertools.pairwise(rates))


def _judged(seconds: Sequence[Second], took_s: float, changes_a_minute: float) -> Outcome:
    windows = [seconds[n : n + WINDOW_S] for n in range(0, int(took_s) - WINDOW_S, WINDOW_S)]
    figures = [max(percentiles_s(window, 99).values(), default=0.0) for window in windows]
    return Outcome(
        took_s,
        sum(OBJECTIVE.below < 1000 * figure for figure in figures) / len(figures),
        sum(second.stalled_s for second in seconds),
        max(rank(_took_s(second), 99) for second in seconds),
        changes_a_minute,
    )


def _took_s(second: Second) -> list[float]:
    return [record.took_s for records in second.records.values() for record in records]


def _scene() -> tuple[ClusterSpec, Plan]:
    """Return the cluster, and a plan that moves all replicas from three brokers to the others."""
    topics = tuple(
        TopicSpec(
            name=f"topic-{n:02}",
            replicas=(ring(n),),
            bytes_each=BYTES_EACH,
            inbound=BYTES_S / PARTITIONS,
        )
        for n in range(PARTITIONS)
    )
    machines = tuple(
        BrokerSpec(id=b, net_in=CAPACITY, net_out=CAPACITY, disk_write=CAPACITY)
        for b in range(1, BROKERS + 1)
    )
    spec = ClusterSpec(brokers=machines, topics=topics, auto_leader_rebalance=False)
    targets = (PartitionTarget(t.name, 0, ring(n, 3)) for n, t in enumerate(topics))
    return spec, Plan(tuple(targets))
