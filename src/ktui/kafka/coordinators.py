"""Which broker coordinates a consumer group, and requests to it wherever it moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ktui.cluster.errors import ClusterError, Refused, TimedOut, Unreachable
from ktui.kafka import codes
from ktui.kafka.errors import Purpose
from ktui.kafka.group_requests import coordinator_request
from ktui.kafka.wire import Build, Wire

T = TypeVar("T")

_NOT_NOW = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}
)
"""Answers that mean: a moment later, or elsewhere. Nothing was done."""
_PAUSE_S = 0.1


class Coordinators:
    """Knows the coordinator of each group that was asked about.

    Args:
        wire: the way to the brokers.
        find: what looking a coordinator up is for, and needs.
    """

    def __init__(self, wire: Wire, find: Purpose) -> None:
        self._wire = wire
        self._find = find
        self._known: dict[str, int] = {}

    def knows(self, group: str) -> bool:
        """Whether the group's coordinator need not be looked up."""
        return group in self._known

    async def ask(
        self,
        purpose: Purpose,
        group: str,
        build: Build,
        read: Callable[[Any], T],
        limit_s: float,
    ) -> T:
        """Ask a group's coordinator, and look it up again while it moves.

        The request may be sent more than once: it has to be one that does no more then.

        Args:
            purpose: what it is for.
            group: the group.
            build: makes the request.
            read: reads the answer; may raise the refusal that it holds.
            limit_s: seconds for all of it.

        Raises:
            ClusterError: no coordinator answered within the limit, or it refused.
        """
        until_s = time.monotonic() + limit_s
        while True:
            try:
                broker = await self.find(group, until_s - time.monotonic())
                left_s = until_s - time.monotonic()
                return read(await self._wire.ask(purpose, build, broker=broker, limit_s=left_s))
            except (Refused, Unreachable, TimedOut) as error:
                self._known.pop(group, None)
                if not _passes(error) or time.monotonic() + _PAUSE_S >= until_s:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def find(self, group: str, limit_s: float) -> int:
        """Return the id of the broker that coordinates a group.

        Brokers create the topic in which they keep groups for that, if there is none.

        Raises:
            ClusterError: none does now, or the principal may not know.
        """
        if group not in self._known:
            request = partial(coordinator_request, group)
            answer = await self._wire.ask(self._find, request, limit_s=limit_s)
            told = answer.coordinators[0]
            check(self._find, told.error_code, told.error_message)
            self._known[group] = int(told.node_id)
        return self._known[group]


def check(purpose: Purpose, code: int, message: str | None) -> None:
    """Raise the refusal that a part of an answer holds, if it does."""
    if code:
        raise codes.refusal(
            code, message, attempted=purpose.attempted, where="", needs=purpose.needs
        )


def _passes(error: ClusterError) -> bool:
    """Whether another attempt may succeed."""
    return not isinstance(error, Refused) or error.code in _NOT_NOW
