"""How well runs keep `--by`, on simulated clusters whose load changes and whose brokers die."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from bench.simulated_runs import carry_out
from ktui.execution.run.events import JournalEntry, RateChosen
from ktui.execution.run.options import NO_SCHEDULE, RunOptions, Schedule
from ktui.pacing.limits import default_limits
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import (
    MIB,
    BrokerSpec,
    ClusterSpec,
    Kill,
    OutsideEvent,
    ScheduledEvent,
    SetInbound,
    Start,
    TopicSpec,
)

RUNS = 40
BROKERS = range(1, 9)
_FASTEST, _SLOWEST = 1.5, 4.0
"""The time promised is so many times what the run takes at full rate."""


class Kept(NamedTuple):
    """How one run has kept its promise."""

    kind: str
    of_full_rate: float
    """The time promised, as a multiple of what the run takes at full rate."""
    of_promise: float
    """The time taken, as a part of the time promised."""
    changes_a_minute: float
    mean_rate: float
    """The mean over time of the rate chosen, as a part of what a broker can take in."""


def run() -> None:
    """Print how many of the runs end in time, and how many not long before it."""
    kept = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for seed, each in enumerate(pool.map(_played, range(RUNS))):
            print(f"  seed {seed:<2} {each.kind:<16} {_line([each])}", flush=True)
            kept.append(each)
    for kind in dict.fromkeys(each.kind for each in kept):
        part = [each for each in kept if each.kind == kind]
        print(f"  {kind:<16} {_line(part)}")
    print(f"  {'all':<16} {_line(kept)}")
    print("  (aim: 36 of 40 from 90% to 100% of the time, none after 105%)")


def _line(kept: Sequence[Kept]) -> str:
    of = [each.of_promise for each in kept]
    within = sum(0.9 <= share <= 1.0 for share in of)  # noqa: PLR2004 - of the aim
    late = sum(share > 1.05 for share in of)  # noqa: PLR2004 - of the aim
    return (
        f"{within:2} of {len(of):2} within, {late} late; took {min(of):.3f} to {max(of):.3f}, "
        f"median {statistics.median(of):.3f}; "
        f"rate {statistics.mean(each.mean_rate for each in kept):.0%} of full "
        f"(least {statistics.mean(1 / each.of_full_rate for each in kept):.0%}); "
        f"{statistics.mean(each.changes_a_minute for each in kept):.2f} changes a minute"
    )


class _Scene(NamedTuple):
    kind: str
    spec: ClusterSpec
    plan: Plan
    acts: tuple[ScheduledEvent, ...]
    net_in: float


def _played(seed: int) -> Kept:
    chance = random.Random(seed)  # noqa: S311 - a seed, not a secret
    scene, factor = _scene(seed, chance), chance.uniform(_FASTEST, _SLOWEST)
    full_s, _ = asyncio.run(_carried_out(scene, None))
    scene = _scene_over(scene, chance, factor * full_s)
    within_s = factor * full_s
    took_s, chosen = asyncio.run(_carried_out(scene, within_s))
    return Kept(
        scene.kind,
        factor,
        took_s / within_s,
        60 * len(chosen) / took_s,
        _mean_rate(chosen, took_s, scene.net_in) / scene.net_in,
    )


def _mean_rate(chosen: Sequence[JournalEntry], took_s: float, full: float) -> float:
    """Return the mean over time of the rates chosen, at most the full rate of a broker."""
    began = chosen[0].at
    begin_s = [*((each.at - began).total_seconds() for each in chosen), took_s]
    rates = [each.event.rate for each in chosen if isinstance(each.event, RateChosen)]
    spans = zip(rates, pairwise(begin_s), strict=True)
    whole = sum(min(full, rate or full) * max(0.0, end - begin) for rate, (begin, end) in spans)
    return whole / took_s


def _scene(seed: int, chance: random.Random) -> _Scene:
    """Return a cluster and a plan; in every fourth scene one broker leads most partitions."""
    kind = ("steady", "load steps", "a dead broker", "skewed leaders")[seed % 4]
    net_in = chance.uniform(20, 60) * MIB
    topics, targets = [], []
    for number in range(chance.randrange(40, 120)):
        name = f"topic-{number:03}"
        *kept, new = chance.sample(BROKERS, 4)
        if kind == "skewed leaders" and chance.random() < 0.7 and new != 1:  # noqa: PLR2004
            kept = [1, *[broker for broker in kept if broker != 1][:2]]
        size = net_in * min(400.0, 4 * chance.paretovariate(0.9))
        inbound = chance.uniform(0, 0.01) * net_in
        topics.append(
            TopicSpec(name=name, replicas=(tuple(kept),), bytes_each=int(size), inbound=inbound)
        )
        targets.append(PartitionTarget(name, 0, (*kept[:-1], new)))
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_in=net_in) for b in BROKERS),
        topics=tuple(topics),
        auto_leader_rebalance=False,
    )
    return _Scene(kind, spec, Plan(tuple(targets)), (), net_in)


def _scene_over(scene: _Scene, chance: random.Random, whole_s: float) -> _Scene:
    """Return the scene with what happens in it during the whole time."""
    acts: list[tuple[float, OutsideEvent]] = []
    if scene.kind == "load steps":
        for part in (0.3, 0.6):
            factor = chance.uniform(0.5, 3.0)
            acts += [
                (part * whole_s, SetInbound(topic=topic.name, inbound=factor * topic.inbound))
                for topic in scene.spec.topics
            ]
    if scene.kind == "a dead broker":
        dies_s = chance.uniform(0.1, 0.5) * whole_s
        broker = chance.choice(list(BROKERS))
        acts += [(dies_s, Kill(broker)), (dies_s + 0.15 * whole_s, Start(broker))]
    return scene._replace(acts=tuple(ScheduledEvent(at_s, act) for at_s, act in acts))


async def _carried_out(scene: _Scene, within_s: float | None) -> tuple[float, list[JournalEntry]]:
    """Let an engine carry out a plan, and return its seconds and the rates that were chosen."""
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(scene.spec, clock)
    for act in scene.acts:
        cluster.schedule(act)
    by = None if within_s is None else clock.now() + timedelta(seconds=within_s)
    options = RunOptions(schedule=NO_SCHEDULE if by is None else Schedule(by=by))
    took_s, entries = await carry_out(cluster, scene.plan, default_limits(), options)
    return took_s, [each for each in entries if isinstance(each.event, RateChosen)]
