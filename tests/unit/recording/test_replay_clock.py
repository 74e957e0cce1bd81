"""The clock of a recording stands, runs and jumps."""

from __future__ import annotations

import asyncio

import pytest

from ktui.recording.replay_tape import FASTEST, SLOWEST, ReplayClock
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock

FROM_S, UNTIL_S = 500.0, 600.0


def a_clock(speed: float = 1.0) -> tuple[ReplayClock, VirtualClock]:
    real = VirtualClock()
    return ReplayClock(FIRST_MOMENT, FROM_S, UNTIL_S, speed=speed, real=real), real


async def asleep(clock: ReplayClock, seconds: float) -> asyncio.Task[None]:
    """Start a task that sleeps, and wait until it does."""
    sleeper = asyncio.create_task(clock.sleep(seconds))
    for _ in range(10):
        await asyncio.sleep(0)
    return sleeper


async def test_the_clock_stands_until_it_is_run() -> None:
    clock, real = a_clock()
    await real.advance(7)
    assert (clock.monotonic(), clock.running, clock.paused) == (FROM_S, False, True)
    clock.run()
    await real.advance(7)
    assert clock.monotonic() == FROM_S + 7
    assert clock.now() == FIRST_MOMENT.replace(second=7)


@pytest.mark.parametrize("speed", [0.5, 1.0, 20.0])
async def test_the_clock_runs_at_its_speed(speed: float) -> None:
    clock, real = a_clock(speed)
    clock.run()
    await real.advance(4)
    assert clock.monotonic() == FROM_S + 4 * speed


async def test_the_clock_stands_at_the_end_of_the_recording() -> None:
    clock, real = a_clock()
    clock.run()
    await real.advance(1_000)
    assert (clock.monotonic(), clock.running) == (UNTIL_S, False)
    clock.move_to(UNTIL_S + 50)
    assert clock.monotonic() == UNTIL_S
    clock.move_to(0)
    assert (clock.monotonic(), clock.running) == (FROM_S, True)


async def test_a_sleeper_wakes_after_that_much_of_the_recording() -> None:
    clock, real = a_clock(speed=10)
    clock.run()
    sleeper = await asleep(clock, 30)
    await real.advance(2.9)
    assert not sleeper.done()
    await real.advance(0.2)
    assert sleeper.done()


async def test_a_sleeper_beyond_the_end_wakes_at_the_end() -> None:
    clock, real = a_clock()
    clock.run()
    sleeper = await asleep(clock, 300)
    await real.advance(UNTIL_S - FROM_S + 1)
    assert sleeper.done()
    sleeper = await asleep(clock, 1)
    await real.advance(10)
    assert not sleeper.done()
    clock.move_to(FROM_S)
    await real.advance(0)
    assert sleeper.done()


async def test_a_pause_does_not_count_as_sleep() -> None:
    clock, real = a_clock()
    clock.run()
    sleeper = await asleep(clock, 5)
    await real.advance(3)
    clock.pause()
    await real.advance(100)
    assert not sleeper.done()
    clock.run()
    await real.advance(1.9)
    assert not sleeper.done()
    await real.advance(0.2)
    assert sleeper.done()


async def test_another_speed_changes_the_rest_of_a_sleep() -> None:
    clock, real = a_clock()
    clock.run()
    sleeper = await asleep(clock, 50)
    await real.advance(10)
    clock.run_at(20)
    await real.advance(1.9)
    assert not sleeper.done()
    await real.advance(0.2)
    assert sleeper.done()


async def test_a_jump_wakes_a_sleeper() -> None:
    clock, real = a_clock()
    sleeper = await asleep(clock, 50)
    clock.move_to(FROM_S + 1)
    await real.advance(0)
    assert sleeper.done()


async def test_the_clock_runs_on_from_where_it_is_held() -> None:
    clock, real = a_clock(speed=100)
    clock.run()
    await real.advance(0.5)
    clock.hold_at(FROM_S + 20)
    await real.advance(0.1)
    assert clock.monotonic() == pytest.approx(FROM_S + 30)


def test_the_speed_is_limited_to_a_range() -> None:
    clock, _ = a_clock()
    clock.run_at(0)
    assert clock.speed == SLOWEST
    clock.run_at(1e9)
    assert clock.speed == FASTEST


def test_wall_time_follows_the_last_set_value() -> None:
    clock, _ = a_clock()
    clock.set_wall(FIRST_MOMENT.replace(hour=3), FROM_S)
    assert clock.now() == FIRST_MOMENT.replace(hour=3)
