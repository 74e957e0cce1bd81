"""Clocks for a simulation, virtual or faster than real, and its calls in order of time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ktui.cluster.clock import SPEEDS, Clock, PausableClock, SystemClock

FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


_MAX_TURNS = 1_000  # most event loop turns granted to woken tasks. A poll takes about thirty


class VirtualClock:
    """A clock that moves on request; a `leaping` one also moves by itself once all tasks sleep."""

    def __init__(self, start: datetime = FIRST_MOMENT, *, leaping: bool = False) -> None:
        self._start = start
        self._seconds = 0.0
        self._leaping = leaping
        self._leaper: asyncio.Task[None] | None = None
        self._number = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        until = self._seconds + max(0.0, seconds)
        heapq.heappush(self._sleepers, (until, next(self._number), woken))
        if self._leaping and (self._leaper is None or self._leaper.done()):
            self._leaper = asyncio.create_task(self._leap())
        await woken

    def pass_time(self, seconds: float) -> None:
        """Move the clock without waking anyone: for code that is not a coroutine."""
        self._seconds += seconds

    async def advance(self, seconds: float) -> None:
        until = self._seconds + seconds
        await _run_until_idle()
        while self._next_s <= until:
            self._wake_next()
            await _run_until_idle()
        self._seconds = max(self._seconds, until)

    async def _leap(self) -> None:
        await _run_until_idle()
        while self._next_s < math.inf:
            self._wake_next()
            await _run_until_idle()

    @property
    def _next_s(self) -> float:
        """When the next sleeper wakes. A cancelled sleeper is skipped and moves no time."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else math.inf

    def _wake_next(self) -> None:
        at, _, woken = heapq.heappop(self._sleepers)
        self._seconds = max(self._seconds, at)
        woken.set_result(None)


async def _run_until_idle() -> None:
    """Let woken tasks run until the event loop has nothing ready.

    Its ready queue is private; a safe number of `sleep(0)` would take most of a simulation.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # noqa: SLF001
    for _ in range(_MAX_TURNS):
        if not ready:
            return
        await asyncio.sleep(0)


class ScaledClock(PausableClock):
    """A clock that runs `speed` times as fast as real time from now on, and can be paused.

    `at` is its first wall time; `real` stands by default while the machine sleeps.
    """

    def __init__(
        self,
        speed: float,
        at: datetime | None = None,
        from_s: float = 0.0,
        *,
        fastest: float = SPEEDS[-1],
        real: Clock | None = None,
    ) -> None:
        real = real or _AwakeClock()
        super().__init__(at or real.now(), from_s, speed=speed, fastest=fastest, real=real)
        self.run()

    async def leap(self, seconds: float) -> None:
        """Advance by so many seconds at once; sleepers wake in order, each at its own time."""
        real, leaped = self._real, VirtualClock()
        self._go_by(leaped)
        await leaped.advance(seconds / self.speed)
        self._go_by(real)

    def _go_by(self, real: Clock) -> None:
        at_s, self._real = self.monotonic(), real
        self._set_anchor(at_s)
        self._wake()


class _AwakeClock(SystemClock):
    """The machine's clock, whose monotonic seconds leave out the time that it sleeps."""

    def monotonic(self) -> float:
        return time.monotonic()


ScheduledCall = Callable[[], object]


class CallSchedule:
    """Calls ordered by time in seconds; calls of the same time in the order they were entered."""

    def __init__(self) -> None:
        self._number = itertools.count()
        self._entries: list[tuple[float, int, ScheduledCall]] = []

    def enter(self, at_s: float, action: ScheduledCall) -> None:
        heapq.heappush(self._entries, (at_s, next(self._number), action))

    @property
    def next_s(self) -> float:
        return self._entries[0][0] if self._entries else math.inf

    def pop_next(self) -> ScheduledCall:
        return heapq.heappop(self._entries)[2]
