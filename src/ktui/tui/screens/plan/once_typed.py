"""Waits until typing pauses, and then acts on what was typed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.screen import Screen

_PAUSE_S = 0.2
"""Seconds without a change after which typing has paused."""


class OnceTyped:
    """Acts once typing pauses: one act at a time, until nothing more has been typed.

    Args:
        screen: the screen that is typed on.
        group: the group of the worker that acts.
        act: acts on what is typed.
    """

    def __init__(self, screen: Screen[Any], group: str, act: Callable[[], Awaitable[None]]) -> None:
        self._screen, self._group, self._act = screen, group, act
        self._changes = 0
        """How many times something was typed or chosen."""

    def soon(self) -> None:
        """Note that something was typed or chosen."""
        self._changes += 1
        if not self.is_busy:
            self._screen.run_worker(self._later(), group=self._group, exit_on_error=False)

    @property
    def is_busy(self) -> bool:
        """Whether something was typed that was not acted on yet."""
        return self._group in {worker.group for worker in self._screen.workers}

    async def _later(self) -> None:
        done = -1
        while done != self._changes:
            done = self._changes
            await asyncio.sleep(_PAUSE_S)
            if done == self._changes:
                await self._act()
