"""The time of a simulation: virtual, or the machine's own made faster."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta

FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
"""When a simulation begins unless told otherwise: the same in every run."""


_TURNS = 20
"""Turns of the event loop in which those who were woken get back to sleep, or finish."""


class VirtualClock:
    """Time that passes when it is told to, waking those who sleep as it goes.

    Args:
        start: the wall time at which it stands at first, aware.
        leaping: whether it leaps to the next sleeper's moment by itself as soon as everybody
            sleeps; otherwise only `advance` and `pass_time` move it.
    """

    def __init__(self, start: datetime = FIRST_MOMENT, *, leaping: bool = False) -> None:
        self._start = start
        self._seconds = 0.0
        self._leaping = leaping
        self._leaper: asyncio.Task[None] | None = None
        self._number = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` of this clock pass."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        until = self._seconds + max(0.0, seconds)
        heapq.heappush(self._sleepers, (until, next(self._number), woken))
        if self._leaping and (self._leaper is None or self._leaper.done()):
            self._leaper = asyncio.create_task(self._leap())
        await woken

    def pass_time(self, seconds: float) -> None:
        """Let time pass with nobody asleep: for code that is not a coroutine."""
        self._seconds += seconds

    async def advance(self, seconds: float) -> None:
        """Let time pass, and wake each sleeper at its own moment, in order."""
        until = self._seconds + seconds
        await _settled()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._wake_next()
            await _settled()
        self._seconds = max(self._seconds, until)

    async def _leap(self) -> None:
        while True:
            await _settled()
            if not self._sleepers:
                return
            self._wake_next()

    def _wake_next(self) -> None:
        at, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():  # one who gave up waiting moves no time
            self._seconds = max(self._seconds, at)
            woken.set_result(None)


async def _settled() -> None:
    """Let what was woken run on until it sleeps again."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class ScaledClock:
    """The machine's time from now on, `speed` times as fast."""

    def __init__(self, speed: float, start: datetime | None = None) -> None:
        self.speed = speed
        self._began = time.monotonic()
        self._start = datetime.now(UTC) if start is None else start

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Seconds since the start."""
        return (time.monotonic() - self._began) * self.speed

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` of this clock pass."""
        await asyncio.sleep(seconds / self.speed)
