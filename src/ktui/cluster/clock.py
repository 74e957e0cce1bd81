"""Time, passed in wherever it matters so that tests and simulations own it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

_AWAKE_OR_NOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that goes on while the machine sleeps: on Linux, CLOCK_MONOTONIC does not."""


class Clock(Protocol):
    """Wall time for people, monotonic time for durations."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, and go on while the machine sleeps.

        Only differences mean anything, and only between seconds of the same clock.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` of this clock pass."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go backwards, and go on while the machine sleeps."""
        return time.clock_gettime(_AWAKE_OR_NOT)

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass without holding the event loop; those asleep do not count."""
        await asyncio.sleep(seconds)


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of several is over, and give the others up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
