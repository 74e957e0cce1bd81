"""Clocks, passed in wherever time matters: the real one, and one that pauses or runs faster."""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

_RUNS_IN_SLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that keeps running while the machine sleeps. Linux's CLOCK_MONOTONIC does not."""


class Clock(Protocol):
    """Wall time for people, monotonic time for durations."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards and keep counting while the machine sleeps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_RUNS_IN_SLEEP)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


T = TypeVar("T")


async def read_until(
    read: Callable[[], Awaitable[T]],
    done: Callable[[T], bool],
    clock: Clock,
    within_s: float,
    *,
    every_s: float = 0.2,
    lost: tuple[type[Exception], ...],
) -> T | None:
    """Read until `done`, for some seconds; return the last read. `lost` errors are repeated."""
    until_s, now = clock.monotonic() + within_s, None
    while True:
        with suppress(*lost):
            now = await read()
            if done(now):
                return now
        if clock.monotonic() >= until_s:
            return now
        await clock.sleep(every_s)


async def wait_at_most(seconds: float, task: asyncio.Future[Any], clock: Clock) -> None:
    """Wait until a task is done, or until so many seconds have passed; the task goes on."""
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()


async def wait_for_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of several coroutines has finished, and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
SLOWEST = SPEEDS[0]
_NOTHING_S = 1e-6


class PausableClock:
    """A clock whose seconds pass at a speed, or not at all; it stands until `run`."""

    def __init__(
        self,
        at: datetime,
        from_s: float = 0.0,
        until_s: float = math.inf,
        *,
        speed: float = 1.0,
        fastest: float = SPEEDS[-1],
        real: Clock | None = None,
    ) -> None:
        self._real = real or SystemClock()
        self._wall = (at, from_s)
        self._from_s, self._until_s = from_s, until_s
        self._speed, self._fastest = speed, fastest
        self._running = False
        self._anchor = (from_s, self._real.monotonic())
        self._jumps = 0  # how often a subclass has moved the clock, which ends every sleep
        self._changed = asyncio.Event()

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def running(self) -> bool:
        return self._running and self.monotonic() < self._until_s

    @property
    def paused(self) -> bool:
        return not self._running

    def now(self) -> datetime:
        at, at_s = self._wall
        return at + timedelta(seconds=self.monotonic() - at_s)

    def monotonic(self) -> float:
        at_s, real_s = self._anchor
        if self._running:
            at_s += (self._real.monotonic() - real_s) * self._speed
        return min(self._until_s, at_s)

    async def sleep(self, seconds: float) -> None:
        """A pause makes the wait longer; it returns at once when the clock is moved."""
        now_s, jumps = self.monotonic(), self._jumps
        until_s = now_s + seconds
        if now_s < self._until_s:
            until_s = min(until_s, self._until_s)
        while self._jumps == jumps and (left_s := until_s - self.monotonic()) > _NOTHING_S:
            changed = self._changed.wait()
            if self.running:
                await wait_for_first(self._real.sleep(left_s / self._speed), changed)
            else:
                await changed

    def run(self) -> None:
        self._set_anchor(self.monotonic())
        self._running = True
        self._wake()

    def pause(self) -> None:
        self._set_anchor(self.monotonic())
        self._running = False
        self._wake()

    def run_at(self, speed: float) -> None:
        self._set_anchor(self.monotonic())
        self._speed = min(max(speed, SLOWEST), self._fastest)
        self._wake()

    def faster(self) -> None:
        self.run_at(SPEEDS[min(len(SPEEDS) - 1, bisect_right(SPEEDS, self._speed))])

    def slower(self) -> None:
        self.run_at(SPEEDS[max(0, bisect_left(SPEEDS, self._speed) - 1)])

    def _set_anchor(self, at_s: float) -> None:
        self._anchor = (at_s, self._real.monotonic())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
