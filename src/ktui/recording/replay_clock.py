"""The time of a recording that is played: it can stand, run faster or slower, and be moved."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from ktui.cluster.clock import Clock, SystemClock, first_of

SLOWEST, FASTEST = 0.1, 1_000.0
_NOTHING_S = 1e-6


class ReplayClock:
    """Stands at the beginning until it is told to run.

    Args:
        at: the wall time at which the recording begins, aware.
        from_s: the monotonic second that goes with it.
        until_s: the monotonic second at which the recording ends; the clock goes no further.
        speed: how many of the recording's seconds pass in one of ours.
        real: our time.
    """

    def __init__(
        self,
        at: datetime,
        from_s: float,
        until_s: float,
        *,
        speed: float = 1.0,
        real: Clock | None = None,
    ) -> None:
        self._real = real or SystemClock()
        self._wall = (at, from_s)
        self._from_s, self._until_s = from_s, until_s
        self._speed = speed
        self._running = False
        self._anchor = (from_s, self._real.monotonic())
        self._jumps = 0
        self._changed = asyncio.Event()

    @property
    def speed(self) -> float:
        """How many of the recording's seconds pass in one of ours."""
        return self._speed

    @property
    def running(self) -> bool:
        """Whether time passes; it does not while paused, nor at the end."""
        return self._running and self.monotonic() < self._until_s

    @property
    def paused(self) -> bool:
        """Whether it was told to stand."""
        return not self._running

    def now(self) -> datetime:
        """Wall time in the recording, aware, in UTC."""
        at, at_s = self._wall
        return at + timedelta(seconds=self.monotonic() - at_s)

    def monotonic(self) -> float:
        """Monotonic seconds of the recording; they go backwards where it is moved so."""
        at_s, real_s = self._anchor
        if self._running:
            at_s += (self._real.monotonic() - real_s) * self._speed
        return min(self._until_s, at_s)

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` of the recording pass, or what is left of it; nothing does while it stands.

        Returns at once when the clock is moved.
        """
        now_s, jumps = self.monotonic(), self._jumps
        until_s = now_s + seconds
        if now_s < self._until_s:
            until_s = min(until_s, self._until_s)
        while self._jumps == jumps and (left_s := until_s - self.monotonic()) > _NOTHING_S:
            changed = self._changed.wait()
            if self.running:
                await first_of(self._real.sleep(left_s / self._speed), changed)
            else:
                await changed

    def run(self) -> None:
        """Let time pass."""
        self._set_anchor(self.monotonic())
        self._running = True
        self._wake()

    def pause(self) -> None:
        """Let time stand."""
        self._set_anchor(self.monotonic())
        self._running = False
        self._wake()

    def run_at(self, speed: float) -> None:
        """Let time pass at another speed from now on, within what is possible."""
        self._set_anchor(self.monotonic())
        self._speed = min(max(speed, SLOWEST), FASTEST)
        self._wake()

    def move_to(self, at_s: float) -> None:
        """Go to a monotonic second of the recording, as near as it has it."""
        self._set_anchor(min(max(at_s, self._from_s), self._until_s))
        self._jumps += 1
        self._wake()

    def hold_at(self, at_s: float) -> None:
        """Stay back at a second that what is played has come to; nobody is woken."""
        self._set_anchor(at_s)

    def set_wall(self, at: datetime, at_s: float) -> None:
        """Say which wall time goes with a monotonic second, for it may have been set."""
        self._wall = (at, at_s)

    def _set_anchor(self, at_s: float) -> None:
        self._anchor = (at_s, self._real.monotonic())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
