"""The clock of a replay: it can be paused, run faster or slower, and be moved."""

from __future__ import annotations

from datetime import datetime

from ktui.cluster.pausable_clock import SLOWEST, SPEEDS, PausableClock

__all__ = ["FASTEST", "SLOWEST", "ReplayClock"]

FASTEST = SPEEDS[-1]


class ReplayClock(PausableClock):
    """A clock that stands at the beginning of a recording until `run`, and stops at its end."""

    def move_to(self, at_s: float) -> None:
        """Go to a monotonic second, clamped to the recording; every sleep ends."""
        self._set_anchor(min(max(at_s, self._from_s), self._until_s))
        self._jumps += 1
        self._wake()

    def hold_at(self, at_s: float) -> None:
        """Set the clock back to the second that the player has reached; sleepers stay asleep."""
        self._set_anchor(at_s)

    def set_wall(self, at: datetime, at_s: float) -> None:
        """Set the wall time of a monotonic second, for the recorded clock may have been set."""
        self._wall = (at, at_s)
