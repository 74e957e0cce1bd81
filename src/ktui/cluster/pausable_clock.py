"""A clock that can be paused, and run faster or slower than real time."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta

from ktui.cluster.clock import Clock, SystemClock, wait_for_first

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
"""The speeds that `faster` and `slower` step through."""
SLOWEST = SPEEDS[0]
_NOTHING_S = 1e-6


class PausableClock:
    """A clock whose seconds pass at a speed, or not at all; it stands until `run`.

    Args:
        at: the wall time at the second `from_s`, aware.
        from_s: the first monotonic second.
        until_s: the monotonic second at which the clock stops.
        speed: seconds of this clock per real second.
        fastest: the highest speed.
        real: the clock of real time.
    """

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
        self._jumps = 0
        """How often a subclass has moved the clock, which ends every sleep."""
        self._changed = asyncio.Event()

    @property
    def speed(self) -> float:
        """Seconds of this clock per real second, while it runs."""
        return self._speed

    @property
    def running(self) -> bool:
        """Whether time passes: neither paused nor at the end."""
        return self._running and self.monotonic() < self._until_s

    @property
    def paused(self) -> bool:
        """Whether the clock is paused."""
        return not self._running

    def now(self) -> datetime:
        """Return the clock's wall time, aware."""
        at, at_s = self._wall
        return at + timedelta(seconds=self.monotonic() - at_s)

    def monotonic(self) -> float:
        """Return the clock's monotonic seconds."""
        at_s, real_s = self._anchor
        if self._running:
            at_s += (self._real.monotonic() - real_s) * self._speed
        return min(self._until_s, at_s)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of this clock, or for the rest of it; a pause makes it longer.

        Returns at once when the clock is moved.
        """
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
        """Start the clock."""
        self._set_anchor(self.monotonic())
        self._running = True
        self._wake()

    def pause(self) -> None:
        """Stop the clock."""
        self._set_anchor(self.monotonic())
        self._running = False
        self._wake()

    def run_at(self, speed: float) -> None:
        """Change the speed from now on, clamped to the slowest and the fastest."""
        self._set_anchor(self.monotonic())
        self._speed = min(max(speed, SLOWEST), self._fastest)
        self._wake()

    def faster(self) -> None:
        """Change to the next higher speed of `SPEEDS`."""
        self.run_at(SPEEDS[min(len(SPEEDS) - 1, bisect_right(SPEEDS, self._speed))])

    def slower(self) -> None:
        """Change to the next lower speed of `SPEEDS`."""
        self.run_at(SPEEDS[max(0, bisect_left(SPEEDS, self._speed) - 1)])

    def _set_anchor(self, at_s: float) -> None:
        self._anchor = (at_s, self._real.monotonic())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
