"""The deadline for sending a request: its grounds go stale while a connection is opened."""

from __future__ import annotations

import math
from typing import Self

import msgspec

from ktui.cluster.clock import SystemClock

_CLOCK = SystemClock()


class SendDeadline(msgspec.Struct, frozen=True):
    """The time after which a request is no longer sent."""

    by_s: float = math.inf
    """In seconds, on a clock that runs on while the machine sleeps."""

    @classmethod
    def within(cls, seconds: float | None) -> Self:
        """Return the deadline `seconds` from now; no deadline for None."""
        return cls() if seconds is None else cls(_CLOCK.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return _CLOCK.monotonic() > self.by_s


ANY_TIME = SendDeadline()
