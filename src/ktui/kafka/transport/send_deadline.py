"""Until when a request may leave: what it rests on grows old while a connection is made."""

from __future__ import annotations

import math
from typing import Self

import msgspec

from ktui.cluster.clock import SystemClock

_CLOCK = SystemClock()


class SendDeadline(msgspec.Struct, frozen=True):
    """A moment after which a request does not leave any more."""

    by_s: float = math.inf
    """In seconds of a clock that goes on while the machine sleeps."""

    @classmethod
    def within(cls, seconds: float | None) -> Self:
        """Return the moment so many seconds from now; None for no limit."""
        return cls() if seconds is None else cls(_CLOCK.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        """Whether the moment has passed."""
        return _CLOCK.monotonic() > self.by_s


ANY_TIME = SendDeadline()
