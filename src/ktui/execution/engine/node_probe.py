"""Probes of brokers that have not answered a request: whether they answer anything at all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from ktui.cluster.clock import Clock
from ktui.cluster.errors import NotAuthorized, Refused
from ktui.cluster.ports import ClusterReader


class NodeProbe:
    """Probes silent brokers, one question each at a time, and knows who has answered.

    A refusal is an answer too.
    """

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._open: dict[int, asyncio.Task[float | None]] = {}
        self._heard_s: dict[int, float] = {}

    def ask(self, brokers: Iterable[int]) -> None:
        """Send a question to each broker that has no open question."""
        for broker in brokers:
            if broker not in self._open:
                self._open[broker] = asyncio.create_task(self._answered(broker))

    def heard(self, broker: int) -> float:
        """Return when the last question was asked that the broker has answered.

        The time is in monotonic seconds. It is minus infinity if the broker has answered none.
        """
        task = self._open.get(broker)
        if task is not None and task.done():
            del self._open[broker]
            if (asked_s := task.result()) is not None:
                self._heard_s[broker] = asked_s
        return self._heard_s.get(broker, -math.inf)

    async def _answered(self, broker: int) -> float | None:
        asked_s = self._clock.monotonic()
        try:
            await self._reader.broker_config(broker)
        except (NotAuthorized, Refused):
            return asked_s
        except Exception:  # noqa: BLE001 - any failure means that the broker did not answer
            return None
        return asked_s

    async def aclose(self) -> None:
        """Cancel the open questions."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()
