"""A run of the demo follows an objective, by what simulated producers feel."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ktui.cli.watch.demo import SimulatedEngines
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import RateHeld
from ktui.execution.run.options import RunOptions
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.pacing.limits import default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec

ORDERS = TopicPartition("orders", 0)


async def _held(slo: str, folder: Path) -> list[RateHeld]:
    """Copy 1 GiB in a run of the demo, and return the rates that its objective allowed."""
    topic = TopicSpec(name=ORDERS.topic, replicas=((1, 2, 3),), bytes_each=1024 * MIB, inbound=MIB)
    brokers = tuple(BrokerSpec(id=b, net_out=40.0 * MIB) for b in range(1, 5))
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(ClusterSpec(brokers=brokers, topics=(topic,)), clock)
    engines = SimulatedEngines(cluster, StateDir(folder))
    plan = Plan((PartitionTarget(ORDERS.topic, 0, (1, 2, 4)),))
    rates = parse_throttle_rates(f"slo={slo}")
    run = await engines.start(
        NewRun(
            name="drain",
            plan=plan,
            plan_name="drain.json",
            limits=default_limits(),
            allowed=Allowances(),
            options=RunOptions(throttle=rates),
        )
    )
    await clock.sleep(180)
    await engines.aclose()
    with Journal.open(run.journal, clock, read_only=True) as journal:
        events = [entry.event for entry in journal.entries()]
    return [event for event in events if isinstance(event, RateHeld)]


def test_the_rate_rises_while_simulated_producers_feel_little(tmp_path: Path) -> None:
    held = asyncio.run(_held("p99<500ms", tmp_path))

    assert all(event.figure is not None and event.figure > 0 for event in held)
    assert held[-1].rate > 8 * FLOOR


def test_the_rate_stays_the_least_where_they_feel_more_than_the_objective_at_rest(
    tmp_path: Path,
) -> None:
    held = asyncio.run(_held("p99<1ms", tmp_path))

    assert {event.rate for event in held} == {FLOOR}
