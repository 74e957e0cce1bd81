"""What plans are made from while an operator types."""

from __future__ import annotations

import time

from ktui.planning.intents.layout import LayoutAnswer
from ktui.tui.run_view.launchers import EngineLauncher

_OLD_S = 30.0
"""The age, in seconds, from which it is read again."""


class RecentLayout:
    """Reads the layout of the cluster, though not for every key: that asks all brokers."""

    def __init__(self, engines: EngineLauncher) -> None:
        self._engines = engines
        self._answer: LayoutAnswer | None = None
        self._read_at_s = 0.0

    async def read(self) -> LayoutAnswer:
        """Return the layout, read again once it is old.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        if self._answer is None or time.monotonic() - self._read_at_s > _OLD_S:
            self._answer = await self._engines.read_layout()
            self._read_at_s = time.monotonic()
        return self._answer
