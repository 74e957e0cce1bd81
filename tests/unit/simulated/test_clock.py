"""Virtual time passes only when advanced, and wakes sleepers in order."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from ktui.simulated.clock import FIRST_MOMENT, ScaledClock, VirtualClock


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
