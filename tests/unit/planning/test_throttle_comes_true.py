"""What a preflight predicts of a throttle comes true on the simulated cluster."""

from __future__ import annotations

import asyncio
import re

import pytest

from ktui.pacing.limits import Limits
from ktui.planning.check.findings import FindingKind
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.preflights import preflight
from support.simulated.moving_clusters import a_cluster, throttle, tp, wait

MB = 10**6
NAMES = ("orders-0", "orders-1", "orders-2")
LISTED = {"follower.replication.throttled.replicas": "*"}
PLAN = Plan(tuple(PartitionTarget("orders", n, (4, 2, 3)) for n in range(3)))


def cluster() -> SimulatedCluster:
    """Return a cluster of three partitions with 2 MB/s of writes each, and a fast network."""
    built = a_cluster(
        resting=NAMES, messages=20_000, inbound_s=2_000, copied_s=80_000, configs=LISTED
    )
    ours = SimulatedCluster(built.spec, VirtualClock(leaping=True))
    wait(ours, 30.0)
    return ours


def never_ends_warnings(rate: int, limits: Limits) -> list[str]:
    """Return the warnings of a preflight that the run never ends."""
    ours = cluster()
    seen = asyncio.run(take_snapshot(ours.reader(), PLAN, ours.clock))
    figures = preflight(PLAN, seen, limits, throttle=ThrottleRates(rate))
    return [found.sentence for found in figures.findings if found.kind is FindingKind.NEVER_ENDS]


def ends(rate: int, names: tuple[str, ...] = NAMES) -> bool:
    """Return whether moves that start together have ended after an hour."""
    ours = cluster()
    ours.do(throttle("follower", 4, rate))
    ours.do(layout.Alter({tp(name): (4, 2, 3) for name in names}))
    wait(ours, 3_600.0)
    return not asyncio.run(ours.reader().list_reassignments())


@pytest.mark.parametrize("rate", [1 * MB, 5 * MB, 5_900_000])
def test_a_run_forecast_to_never_end_does_not_end_until_the_named_rate(rate: int) -> None:
    (sentence,) = never_ends_warnings(rate, Limits())
    numbers = [float(number) * MB for number in re.findall(r"([\d.]+) MB/s", sentence)]

    assert not ends(rate)
    assert ends(round(max(numbers) * 1.05))
    assert never_ends_warnings(round(max(numbers) * 1.05), Limits()) == []


def test_a_run_ends_under_the_lower_limit_that_the_forecast_names() -> None:
    (sentence,) = never_ends_warnings(5 * MB, Limits())

    assert "it needs --per-broker 2" in sentence
    assert ends(5 * MB, NAMES[:2])
    assert never_ends_warnings(5 * MB, Limits(per_broker=2)) == []
