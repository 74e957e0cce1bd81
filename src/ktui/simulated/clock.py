"""The time of a simulation: virtual, or the machine's own made faster."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from datetime import UTC, datetime, timedelta

FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
"""When a simulation begins unless told otherwise: the same in every run."""


_MOST_TURNS = 1_000
"""Turns of the event loop for those who were woken: far more than a poll takes (some thirty)."""


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
        while self._next_s <= until:
            self._wake_next()
            await _settled()
        self._seconds = max(self._seconds, until)

    async def _leap(self) -> None:
        await _settled()
        while self._next_s < math.inf:
            self._wake_next()
            await _settled()

    @property
    def _next_s(self) -> float:
        """When the next sleeper wakes; one who gave up waiting is none, and moves no time."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else math.inf

    def _wake_next(self) -> None:
        at, _, woken = heapq.heappop(self._sleepers)
        self._seconds = max(self._seconds, at)
        woken.set_result(None)


async def _settled() -> None:
    """Let what was woken run on until all wait again: the event loop has nothing ready to run.

    Only asyncio's own loops tell that, by a private name; `sleep(0)` so many times for certain
    would take most of the time of a simulation.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # noqa: SLF001
    for _ in range(_MOST_TURNS):
        if not ready:
            return
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
