"""The clock of a replay: it can be paused, run faster or slower, and be moved."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from ktui.cluster.clock import Clock, SystemClock, wait_for_first

SLOWEST, FASTEST = 0.1, 1_000.0
_NOTHING_S = 1e-6


class ReplayClock:
    """A clock that stands at the beginning of a recording until `run`.

    Args:
        at: the wall time at which the recording begins, aware.
        from_s: the monotonic second at that time.
        until_s: the monotonic second at which the recording ends; the clock stops there.
        speed: the recording's seconds per real second.
        real: the clock of real time.
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
        """The recording's seconds per real second."""
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
        """Return the recording's wall time, aware, in UTC."""
        at, at_s = self._wall
        return at + timedelta(seconds=self.monotonic() - at_s)

    def monotonic(self) -> float:
        """Return the recording's monotonic seconds; they go back when the clock is moved back."""
        at_s, real_s = self._anchor
        if self._running:
            at_s += (self._real.monotonic() - real_s) * self._speed
        return min(self._until_s, at_s)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of the recording, or for the rest of it; a pause makes it longer.

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
        """Change the speed from now on, clamped to SLOWEST and FASTEST."""
        self._set_anchor(self.monotonic())
        self._speed = min(max(speed, SLOWEST), FASTEST)
        self._wake()

    def move_to(self, at_s: float) -> None:
        """Go to a monotonic second, clamped to the recording."""
        self._set_anchor(min(max(at_s, self._from_s), self._until_s))
        self._jumps += 1
        self._wake()

    def hold_at(self, at_s: float) -> None:
        """Set the clock back to the second that the player has reached; sleepers stay asleep."""
        self._set_anchor(at_s)

    def set_wall(self, at: datetime, at_s: float) -> None:
        """Set the wall time of a monotonic second, for the recorded clock may have been set."""
        self._wall = (at, at_s)

    def _set_anchor(self, at_s: float) -> None:
        self._anchor = (at_s, self._real.monotonic())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
