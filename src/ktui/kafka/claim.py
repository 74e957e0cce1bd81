"""Consumer groups with one static member on a real cluster, over kafka-python's raw requests.

See docs/owning.md for what brokers do with them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ktui.cluster.errors import ClusterError, Refused, TimedOut, Unreachable
from ktui.cluster.membership import GroupDescription, HeartbeatAnswer, Member
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests import groups as requests
from ktui.kafka.requests.groups import coordinator_request
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.client import Build, Wire
from ktui.kafka.transport.translate_errors import Purpose

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
        raise error_codes.refusal(
            code, message, attempted=purpose.attempted, where="", needs=purpose.needs
        )


def _passes(error: ClusterError) -> bool:
    """Whether another attempt may succeed."""
    return not isinstance(error, Refused) or error.code in _NOT_NOW


_STORE = Purpose("asking whether brokers keep groups")
_LOOK = Purpose("asking who owns the cluster", needs='Describe on the groups "ktui-" (prefixed)')
_JOIN = Purpose("taking ownership of the cluster", needs='Read on the groups "ktui-" (prefixed)')
_BEAT = Purpose("asking whether we own the cluster", needs='Read on the groups "ktui-" (prefixed)')
_LEAVE = Purpose("releasing the cluster", needs='Read on the groups "ktui-" (prefixed)')

_QUICK_S = 3.0
"""What looking and heartbeats get: an engine waits for them at each turn."""
_GONE = frozenset({"FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"})
"""Answers to one that is no member, or no longer as it was when it joined."""
_STIRRED = frozenset({"REBALANCE_IN_PROGRESS"})
_NO_COORDINATOR = "COORDINATOR_NOT_AVAILABLE"
_NO_STORE_FIX = (
    "Brokers could not create the topic __consumer_offsets, in which they keep groups: see whether "
    "offsets.topic.replication.factor is more than there are brokers"
)


class KafkaGroups:
    """A `GroupMembership` on a real cluster. Connects at the first call.

    It has connections of its own: brokers answer the requests of a connection one after the other,
    and joining may have to wait.
    """

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, wire: Wire | None = None
    ) -> None:
        self._wire = wire or Wire(connection, timeout_s=timeout_s)
        self._limit_s = self._wire.timeout_s
        self._quick_s = min(_QUICK_S, self._limit_s)
        self._coordinators = Coordinators(self._wire, _LOOK)

    async def describe(self, group: str) -> GroupDescription:
        """The group as it is. Creates nothing."""
        if not self._coordinators.knows(group) and await self.stores_groups() is False:
            return GroupDescription("", settled=True, members=())
        request = partial(requests.describe_request, group)
        return await self._coordinators.ask(_LOOK, group, request, _described, self._quick_s)

    async def join(
        self, group: str, note: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        """Join as the group's one member; None where another has done so meanwhile."""
        try:
            joining = partial(requests.join_request, group, note, session_s, member_id)
            told = await self._coordinators.ask(_JOIN, group, joining, _whole, self._limit_s)
            member = Member(told.member_id, told.generation_id)
            syncing = partial(requests.sync_request, group, member)
            await self._coordinators.ask(_JOIN, group, syncing, _whole, self._limit_s)
        except Refused as refused:
            if refused.code in _GONE | _STIRRED:
                return None
            if refused.code == _NO_COORDINATOR and await self.stores_groups() is False:
                refused.fix = _NO_STORE_FIX
            raise
        return member

    async def heartbeat(self, group: str, member: Member) -> HeartbeatAnswer:
        """Begin the member's session anew."""
        request = partial(requests.heartbeat_request, group, member)
        try:
            await self._coordinators.ask(_BEAT, group, request, _whole, self._quick_s)
        except Refused as refused:
            if refused.code in _GONE:
                return HeartbeatAnswer.GONE
            if refused.code in _STIRRED:
                return HeartbeatAnswer.REJOIN
            raise
        return HeartbeatAnswer.STAYS

    async def leave(self, group: str, member: Member) -> None:
        """Leave at once; one that is no member any more changes nothing."""
        request = partial(requests.leave_request, group, member)
        await self._coordinators.ask(_LEAVE, group, request, _left, self._quick_s)

    async def stores_groups(self) -> bool | None:
        """Whether the topic of the groups exists; None where this principal is not told."""
        answer = await self._wire.ask(_STORE, requests.store_request, limit_s=self._quick_s)
        return requests.stores_groups(answer)

    async def aclose(self) -> None:
        """Close every connection and thread; memberships stay. Idempotent."""
        await self._wire.aclose()


def _whole(answer: Any) -> Any:
    """Take an answer as it is: its error code has been looked at."""
    return answer


def _described(answer: Any) -> GroupDescription:
    told = answer.groups[0]
    check(_LOOK, told.error_code, None)
    return requests.seen(answer)


def _left(answer: Any) -> None:
    for told in answer.members:
        code = told.error_code
        if code and error_codes.name_of(code) not in _GONE:
            check(_LEAVE, code, None)
