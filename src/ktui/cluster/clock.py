"""Clocks, passed in wherever time matters so that tests and simulations control it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

_RUNS_IN_SLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that keeps running while the machine sleeps. Linux's CLOCK_MONOTONIC does not."""


class Clock(Protocol):
    """Wall time for people, monotonic time for durations."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards and keep counting while the machine sleeps.

        Only differences mean anything, and only between readings of the same clock.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until `seconds` of this clock have passed."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go backwards and keep counting while the machine sleeps."""
        return time.clock_gettime(_RUNS_IN_SLEEP)

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop; time while the machine sleeps does not count."""
        await asyncio.sleep(seconds)


async def wait_at_most(seconds: float, task: asyncio.Future[Any], clock: Clock) -> None:
    """Wait until a task is done, or until so many seconds have passed; the task goes on."""
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()


async def wait_for_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of several coroutines has finished, and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
