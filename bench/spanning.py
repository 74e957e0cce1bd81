"""The makespan of whole plans, relative to a lower bound of any order.

One plan is carried out by an engine on a simulated cluster, and many random ones are played.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from math import inf

import msgspec

from bench.checks import check_count
from bench.simulated_runs import carry_out
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits, Mode, Order, default_limits
from ktui.pacing.queue import put_long_first
from ktui.pacing.situation import Situation, WantedPartition
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.speed.capacity import Capacity
from ktui.speed.least_time import least_time
from ktui.speed.simulate import RestOfRun, StepOverhead, simulate_rest_of_run

SEED = 1335
BROKERS = range(1, 11)
PARTITIONS = 200
NET_IN = 50.0 * MIB
LARGEST = 20_000 * MIB
PLANS = 1_000
_ORDERS = (Order.LONG_FIRST, Order.TOPIC, Order.SIZE_DESC)
_AIM = 1.1
_SKEWED = 0.4
"""The share of random plans in which one broker leads most partitions; the share that it leads."""
_LED_BY_ONE = 0.7
_KEEPS_FIRST = 0.7
"""The share of moves that keep the preferred leader."""


def run() -> None:
    """Print the makespan of waves and of rolling, in two orders, as multiples of the bound."""
    plan, cluster = _plan_and_cluster()
    bound_s = _bound_s(plan, cluster)
    print(
        f"{PARTITIONS} partitions of skewed sizes, one replica each moved; bound {bound_s:,.0f} s"
    )
    for mode, order in (
        (Mode.WAVE, Order.TOPIC),
        (Mode.WAVE, Order.SIZE_DESC),
        (Mode.ROLLING, Order.TOPIC),
        (Mode.ROLLING, Order.SIZE_DESC),
    ):
        plan, cluster = _plan_and_cluster()
        limits = Limits(replicas=1, partitions=2 * len(BROKERS), mode=mode, order=order)
        took_s, _ = asyncio.run(carry_out(cluster, plan, limits, RunOptions()))
        if took_s < bound_s:
            raise SystemExit(f"not measured: {took_s:,.0f} s is less than any order could take")
        print(f"  {mode:<8}{order:<10} {took_s / bound_s:5.2f} times the bound", end="")
        print("  (aim: at most 1.1)" if (mode, order) == (Mode.ROLLING, Order.SIZE_DESC) else "")
    print(f"{PLANS:,} random plans, two in five with one broker that leads most, default limits")
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        spans = list(pool.map(_spans, range(PLANS), chunksize=10))
    for order in _ORDERS:
        ratios = sorted(each[order] for each in spans)
        within = sum(ratio <= _AIM for ratio in ratios) / len(ratios)
        print(
            f"  rolling {order:<10} {ratios[len(ratios) // 2]:5.2f} in the median, "
            f"{ratios[len(ratios) * 9 // 10]:.2f} in the ninth tenth, {ratios[-1]:.2f} at most; "
            f"{within:.1%} at most {_AIM}"
        )


def _spans(seed: int) -> dict[Order, float]:
    """Play a random plan in each order, as multiples of the least time under its limits."""
    chance = random.Random(seed)  # noqa: S311 - a seed, not a secret
    wanted = put_long_first(_random_plan(chance))
    rates = Capacity(given=NET_IN).under(NO_THROTTLE)
    bound = least_time(wanted, default_limits(), rates)
    check_count("bounds", bound is not None, 1)
    ratios = {}
    for order in _ORDERS:
        limits = msgspec.structs.replace(default_limits(), order=order)
        whole = RestOfRun((), wanted)
        played = simulate_rest_of_run(whole, limits, StepOverhead(), rates.copies())
        took_s = played.copying_s + played.waiting_s
        ratios[order] = took_s / (inf if bound is None else bound.time_s.middle)
    if min(ratios.values()) < 1:
        raise SystemExit(f"not measured: plan {seed} takes less than any order could")
    return ratios


def _random_plan(chance: random.Random) -> list[WantedPartition]:
    brokers = range(1, chance.randrange(4, 25) + 1)
    skewed = chance.random() < _SKEWED
    wanted = []
    for number in range(chance.randrange(20, 300)):
        replicas = chance.sample(brokers, 3)
        if skewed and chance.random() < _LED_BY_ONE:
            replicas = [1, *[broker for broker in replicas if broker != 1][:2]]
        others = [broker for broker in brokers if broker not in replicas]
        new = chance.sample(others, min(chance.choice((1, 1, 1, 2, 3)), len(others)))
        kept = replicas[: 3 - len(new)]
        target = (*kept, *new) if chance.random() < _KEEPS_FIRST else (*new, *kept)
        situation = Situation(
            replicas=tuple(replicas),
            isr=tuple(replicas),
            leader=replicas[0],
            target=target,
            online=frozenset(brokers),
        )
        size = int(min(10 * LARGEST, 100 * MIB * chance.paretovariate(0.8)))
        wanted.append(WantedPartition(TopicPartition(f"t{number:03}", 0), situation, size))
    return wanted


def _plan_and_cluster() -> tuple[Plan, SimulatedCluster]:
    """Return the same plan and the same cluster each time."""
    chance = random.Random(SEED)  # noqa: S311 - a seed, not a secret
    topics, targets = [], []
    for number in range(PARTITIONS):
        name, size = f"topic-{number:03}", int(LARGEST / (1 + chance.randrange(PARTITIONS)))
        *kept, new = chance.sample(BROKERS, 4)
        topics.append(TopicSpec(name=name, replicas=(tuple(kept),), bytes_each=size))
        targets.append(PartitionTarget(name, 0, (*kept[:-1], new)))
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_in=NET_IN) for b in BROKERS),
        topics=tuple(topics),
        auto_leader_rebalance=False,
    )
    return Plan(tuple(targets)), SimulatedCluster(spec, VirtualClock(leaping=True))


def _bound_s(plan: Plan, cluster: SimulatedCluster) -> float:
    """Return the seconds that the busiest broker needs to receive its data at its full rate."""
    sizes = {topic.name: topic.bytes_each for topic in cluster.spec.topics}
    received: Counter[int] = Counter()
    for target in plan.partitions:
        received[target.replicas[-1]] += sizes[target.topic]
    return max(received.values()) / NET_IN
