"""The simulated clock, changes and bandwidth."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from ktui.max_min import max_min_rates
from ktui.simulated.clock import FIRST_MOMENT, ScaledClock, VirtualClock
from ktui.simulated.controller.altering import DecisionContext, Election, RequestedChange, decide
from ktui.simulated.controller.configs import rules_of
from ktui.simulated.controller.records import Registration
from ktui.simulated.data.flows import SLOT_S, TideFactors
from ktui.simulated.layout import VERSIONS, Tide


async def test_virtual_time_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock()

    await asyncio.sleep(0)

    assert clock.monotonic() == 0.0
    assert clock.now() == FIRST_MOMENT


async def test_sleepers_wake_in_order_each_at_its_own_time() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    tasks = [
        asyncio.create_task(sleeper(*who)) for who in (("late", 7), ("early", 2), ("never", 99))
    ]
    await clock.advance(10.0)

    assert woken == [("early", 2.0), ("late", 7.0)]
    assert clock.monotonic() == 10.0
    tasks[-1].cancel()


async def test_a_sleeper_that_sleeps_again_within_the_advance_wakes_again() -> None:
    clock = VirtualClock()
    woken: list[float] = []

    async def ticker() -> None:
        while True:
            await clock.sleep(3.0)
            woken.append(clock.monotonic())

    task = asyncio.create_task(ticker())
    await clock.advance(10.0)
    task.cancel()

    assert woken == [3.0, 6.0, 9.0]


async def test_a_leaping_clock_leaps_to_the_next_sleeper_once_all_tasks_sleep() -> None:
    clock = VirtualClock(leaping=True)

    async def work() -> None:
        for _ in range(3):
            await clock.sleep(100.0)

    await asyncio.gather(work(), clock.sleep(250.0))

    assert clock.monotonic() == 300.0


async def test_no_time_passes_while_a_task_is_awake_however_long_it_works() -> None:
    async def work(clock: VirtualClock) -> float:
        await clock.sleep(1.0)
        for _ in range(100):
            await asyncio.sleep(0)
        return clock.monotonic()

    leaping, advanced = VirtualClock(leaping=True), VirtualClock()
    done, _ = await asyncio.gather(work(leaping), leaping.sleep(2.0))
    also_done, _ = await asyncio.gather(work(advanced), advanced.advance(2.0))

    assert (done, also_done) == (1.0, 1.0)


async def test_a_leaping_clock_takes_no_time_for_a_cancelled_wait() -> None:
    clock = VirtualClock(leaping=True)
    patience = asyncio.create_task(clock.sleep(60.0))
    await asyncio.sleep(0)

    patience.cancel()
    await clock.sleep(1.0)

    assert clock.monotonic() == 1.0


async def test_a_scaled_clock_runs_faster_by_its_factor() -> None:
    slow, fast = ScaledClock(1.0), ScaledClock(1_000.0)

    await fast.sleep(10.0)

    assert fast.monotonic() >= 10.0
    assert slow.monotonic() < fast.monotonic()


async def test_a_scaled_clock_can_be_stopped_and_changes_its_speed() -> None:
    real = VirtualClock()
    clock = ScaledClock(5.0, fastest=100.0, real=real)
    sleeper = asyncio.create_task(clock.sleep(20.0))
    await real.advance(2.0)
    clock.pause()
    await real.advance(60.0)
    assert (clock.monotonic(), sleeper.done()) == (10.0, False)

    clock.run()
    clock.faster()
    await real.advance(1.0)
    assert (clock.speed, clock.monotonic(), sleeper.done()) == (10.0, 20.0, True)
    assert clock.now() == real.now() - timedelta(seconds=63) + timedelta(seconds=20)


@pytest.mark.parametrize(
    ("speed", "slower", "faster"),
    [(5.0, 2.0, 10.0), (7.0, 5.0, 10.0), (0.1, 0.1, 0.25), (100.0, 50.0, 100.0)],
)
def test_speeds_go_up_and_down_in_steps_between_the_slowest_and_the_fastest(
    speed: float, slower: float, faster: float
) -> None:
    down, up = (ScaledClock(speed, fastest=100.0, real=VirtualClock()) for _ in range(2))
    down.slower()
    up.faster()
    assert (down.speed, up.speed) == (slower, faster)


OFFLINE = Registration((1, 2, 3), (), None, 5, 7)


def context(*alive: int, version: str = VERSIONS[-1], min_isr: int = 1) -> DecisionContext:
    return DecisionContext(rules_of(version), min_isr, alive.__contains__)


def test_a_healthy_partition_without_requests_needs_no_decision() -> None:
    known = Registration((1, 2), (1, 2), 1)

    assert decide(known, RequestedChange(), context(1, 2)) is None


def test_any_decision_completes_a_move_that_nothing_blocks_any_more() -> None:
    waiting = Registration((2, 1), (2,), 2, removing=(1,))

    done = decide(waiting, RequestedChange(election=Election.PREFERRED), context(1, 2))

    assert done == Registration((2,), (2,), 2, 1, 1)


def test_a_move_does_not_end_with_an_empty_isr() -> None:
    known = Registration((2, 1), (1,), 1, removing=(1,))

    assert decide(known, RequestedChange(), context(1, 2)) is None


@pytest.mark.parametrize(
    ("kind", "leader"), [(Election.ONLINE, 2), (Election.UNCLEAN, 2), (Election.PREFERRED, 3)]
)
def test_a_valid_leader_stays_unless_a_preferred_election_is_requested(
    kind: Election, leader: int
) -> None:
    known = Registration((3, 2, 1), (1, 2, 3), 2)

    after = decide(known, RequestedChange(election=kind), context(1, 2, 3))

    assert (known if after is None else after).leader == leader


def test_a_partition_without_its_leader_is_led_by_its_first_in_sync_replica() -> None:
    known = Registration((4, 3, 2, 1), (1, 2, 3), 1)

    after = decide(known, RequestedChange(isr=(2, 3)), context(2, 3, 4))

    assert after == Registration((4, 3, 2, 1), (2, 3), 3, 1, 1)


def test_a_preferred_election_elects_another_replica_when_there_is_no_leader() -> None:
    known = Registration((1, 2, 3), (3,), None, 5, 7, last_known_leader=3)

    after = decide(known, RequestedChange(election=Election.PREFERRED), context(2, 3))

    assert after == Registration((1, 2, 3), (3,), 3, 6, 8)


def test_an_eligible_replica_leads_alone_when_the_isr_is_empty() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2, 3), last_known_leader=3)

    after = decide(known, RequestedChange(), context(2, 3, min_isr=2))

    assert after == Registration((1, 2, 3), (2,), 2, 6, 8, elr=(3,))


def test_the_last_known_leader_waits_until_no_eligible_replica_is_left() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2,), last_known_leader=3)

    assert decide(known, RequestedChange(), context(3)) is None


def test_the_last_known_leader_survives_an_unclean_shutdown_of_an_eligible_replica() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2,), last_known_leader=3)

    after = decide(known, RequestedChange(unclean_shutdown=2), context(1))

    assert after == Registration((1, 2, 3), (), None, 5, 8, last_known_leader=3)


def test_an_unclean_election_prefers_an_eligible_replica_then_any_live_one() -> None:
    eligible = Registration((1, 2, 3), (), None, 5, 7, elr=(3,), last_known_leader=3)
    wish = RequestedChange(election=Election.UNCLEAN)

    clean = decide(eligible, wish, context(1, 2, 3, min_isr=2))
    unclean = decide(eligible, wish, context(1, 2, min_isr=2))

    assert clean is not None
    assert unclean is not None
    assert (clean.leader, clean.isr, clean.elr) == (3, (3,), ())
    assert (unclean.leader, unclean.isr, unclean.elr) == (1, (1,), ())


def test_an_unclean_election_without_live_replicas_elects_nobody() -> None:
    assert decide(OFFLINE, RequestedChange(election=Election.UNCLEAN), context()) is None


def test_an_isr_is_never_empty_before_4_1() -> None:
    known = Registration((1, 2), (2,), 2)

    after = decide(known, RequestedChange(isr=()), context(version="4.0"))

    assert after == Registration((1, 2), (2,), None, 1, 1)


def test_flows_through_one_resource_share_it_equally() -> None:
    assert max_min_rates([90.0], [((0,), 3)]) == [30.0]


def test_bandwidth_unused_by_a_limited_flow_goes_to_the_others() -> None:
    rates = max_min_rates([100.0, 10.0], [((0, 1), 1), ((0,), 2)])
    assert rates == [10.0, 45.0]


def test_a_flow_is_limited_by_its_narrowest_resource() -> None:
    assert max_min_rates([100.0, 20.0, math.inf], [((0, 1, 2), 2)]) == [10.0]


def test_a_blocked_resource_starves_only_the_flows_that_need_it() -> None:
    assert max_min_rates([0.0, 50.0], [((0, 1), 5), ((1,), 1)]) == [0.0, 50.0]


def test_an_overdrawn_resource_counts_as_empty() -> None:
    assert max_min_rates([-5.0], [((0,), 1)]) == [0.0]


def test_no_flows_have_no_rates() -> None:
    assert max_min_rates([1.0], []) == []


def test_traffic_is_even_without_a_tide() -> None:
    tides = TideFactors(Tide(), seed=1)
    assert tides.factor(12_345.6) == 1.0
    assert tides.integral(12_345.6) == 12_345.6
    assert tides.next_turn_s(5.0) == math.inf


def test_a_tide_rises_in_the_first_half_of_its_period_and_falls_in_the_second() -> None:
    tides = TideFactors(Tide(swing=0.5, period_s=3_600), seed=1)
    assert tides.factor(900) == pytest.approx(1.5, abs=0.01)
    assert tides.factor(2_700) == pytest.approx(0.5, abs=0.01)
    assert tides.integral(3_600) == pytest.approx(3_600)


def test_a_tide_changes_only_every_half_minute() -> None:
    tides = TideFactors(Tide(noise=0.4), seed=3)
    assert tides.factor(0.0) == tides.factor(29.9) != tides.factor(SLOT_S)
    assert tides.next_turn_s(0.0) == tides.next_turn_s(29.9) == SLOT_S
    assert tides.next_turn_s(SLOT_S) == 2 * SLOT_S


def test_the_integral_is_the_sum_of_the_factors() -> None:
    tides = TideFactors(Tide(swing=0.3, noise=0.4), seed=3)
    factors = [tides.factor(SLOT_S * slot) for slot in range(10)]
    assert tides.integral(10 * SLOT_S) == pytest.approx(SLOT_S * sum(factors))
    assert tides.integral(45.0) == pytest.approx(30 * factors[0] + 15 * factors[1])


def test_a_seed_gives_the_same_tide_however_it_is_read() -> None:
    one, other = TideFactors(Tide(noise=0.4), seed=3), TideFactors(Tide(noise=0.4), seed=3)
    late = one.factor(3_000)
    assert [other.factor(at) for at in range(0, 3_001, 30)][-1] == late
    assert TideFactors(Tide(noise=0.4), seed=4).factor(3_000) != late


def test_a_tide_never_flows_backwards() -> None:
    tides = TideFactors(Tide(swing=3.0), seed=1)
    assert min(tides.factor(at) for at in range(0, 3_600, 30)) == 0.0


_STORY = """
import asyncio

from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout as events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, Tide, TopicSpec

NAMES = ("orders", "payments", "audit", "clicks")
spec = ClusterSpec(
    brokers=tuple(BrokerSpec(id=b, net_in=10.0 * MIB) for b in range(1, 7)),
    topics=tuple(
        TopicSpec(name=name, replicas=((1, 2, 3), (2, 3, 4)), bytes_each=99 * MIB, inbound=9e5)
        for name in NAMES
    ),
    tide=Tide(swing=0.3, noise=0.2),
)
clock = VirtualClock()
cluster = SimulatedCluster(spec, clock, seed=5)


async def tell():
    reader = cluster.reader()
    print(await reader.describe_cluster())
    print(await reader.describe_topics(set(NAMES)))
    print(await reader.list_reassignments())
    tps = [tp async for page in reader.scan_topics() for tp in page.partitions]
    for broker in cluster.machines.up():
        print(await reader.log_offsets(broker, ends=tps, starts=tps))
        print(await reader.log_dirs(broker, tps))
    print(await reader.topic_configs({*NAMES, "gone"}))


for act in (
    events.Alter({TopicPartition(name, 0): (5, 6, 3) for name in NAMES}),
    events.Hang(2),
    events.DeleteTopic("audit"),
    events.Kill(3),
    events.Slow(1, 0.02),
):
    cluster.do(act)
    clock.pass_time(12.0)
    asyncio.run(tell())
"""


def _printed(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", _STORY],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_a_process_with_other_hashes_prints_the_same_answers_in_the_same_order() -> None:
    assert _printed("1") == _printed("2")
