"""Consumer groups with one static member on a real cluster (docs/owning.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ktui.cluster.errors import (
    ClusterError,
    KafkaError,
    Means,
    Refused,
    TimedOut,
    Unreachable,
    means,
)
from ktui.cluster.ownership import GroupDescription, HeartbeatAnswer, Member
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests import groups as requests
from ktui.kafka.requests.groups import coordinator_request
from ktui.kafka.transport.client import RequestFactory, Wire
from ktui.kafka.transport.translate_errors import Purpose

T = TypeVar("T")

_PAUSE_S = 0.1
_STORE = Purpose("asking whether brokers keep groups")
_DESCRIBE = Purpose(
    "asking who owns the cluster", needs='Describe on the groups "ktui-" (prefixed)'
)
_JOIN = Purpose("taking ownership of the cluster", needs='Read on the groups "ktui-" (prefixed)')
_HEARTBEAT = Purpose(
    "asking whether we own the cluster", needs='Read on the groups "ktui-" (prefixed)'
)
_LEAVE = Purpose("releasing the cluster", needs='Read on the groups "ktui-" (prefixed)')
_SHORT_S = 3.0  # the limit of a describe or a heartbeat: an engine waits for these in each turn
_NOBODY, _NO_GENERATION = "nobody", -1
_NO_STORE_FIX = (
    "Brokers could not create the topic __consumer_offsets, in which they keep groups. Check that "
    "offsets.topic.replication.factor is not more than the number of brokers"
)


class Coordinators:
    """A cache of group coordinators, filled as groups are asked about."""

    def __init__(self, wire: Wire, find: Purpose) -> None:
        self._wire = wire
        self._find = find
        self._known: dict[str, int] = {}

    def knows(self, group: str) -> bool:
        return group in self._known

    async def ask(
        self,
        purpose: Purpose,
        group: str,
        build: RequestFactory,
        read: Callable[[Any], T],
        limit_s: float,
    ) -> T:
        until_s = time.monotonic() + limit_s
        while True:
            try:
                broker = await self.find(group, until_s - time.monotonic())
                left_s = until_s - time.monotonic()
                return read(await self._wire.ask(purpose, build, broker=broker, limit_s=left_s))
            except (Refused, Unreachable, TimedOut) as error:
                self._known.pop(group, None)
                final = isinstance(error, Refused) and not means(error.code, Means.NO_COORDINATOR)
                if final or time.monotonic() + _PAUSE_S >= until_s:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def find(self, group: str, limit_s: float) -> int:
        """Return a group's coordinator; a lookup makes brokers create __consumer_offsets."""
        if group not in self._known:
            request = partial(coordinator_request, group)
            answer = await self._wire.ask(self._find, request, limit_s=limit_s)
            coordinator = answer.coordinators[0]
            raise_refusal(self._find, coordinator.error_code, coordinator.error_message)
            self._known[group] = int(coordinator.node_id)
        return self._known[group]


def raise_refusal(purpose: Purpose, code: int, message: str | None) -> None:
    """Raise the refusal for a part of an answer that has an error code."""
    if code:
        raise purpose.refusal(code, message)


class KafkaGroups:
    """A `GroupMembership` on a real cluster. Connects at the first call.

    Args:
        wire: the connections of a reader, for groups that are only described; closed by the reader.
            By default it has connections of its own: brokers answer the requests of one connection
            in order, and a join may have to wait.
    """

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, wire: Wire | None = None
    ) -> None:
        self._wire, self._owns_wire = wire or Wire(connection, timeout_s=timeout_s), wire is None
        self._limit_s = self._wire.timeout_s
        self._short_s = min(_SHORT_S, self._limit_s)
        self._coordinators = Coordinators(self._wire, _DESCRIBE)

    async def describe(self, group: str) -> GroupDescription:
        if not self._coordinators.knows(group) and await self.stores_groups() is False:
            return GroupDescription("", settled=True, members=())
        request = partial(requests.describe_request, group)
        return await self._ask(_DESCRIBE, group, request, _described, self._short_s)

    async def join(
        self, group: str, metadata: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        try:
            joining = partial(requests.join_request, group, metadata, session_s, member_id)
            answer = await self._ask(_JOIN, group, joining, _unchanged, self._limit_s)
            member = Member(answer.member_id, answer.generation_id)
            syncing = partial(requests.sync_request, group, member)
            await self._ask(_JOIN, group, syncing, _unchanged, self._limit_s)
        except Refused as refused:
            if means(refused.code, Means.NOT_MEMBER) or _rebalances(refused):
                return None
            raise
        return member

    async def heartbeat(self, group: str, member: Member) -> HeartbeatAnswer:
        request = partial(requests.heartbeat_request, group, member)
        try:
            await self._ask(_HEARTBEAT, group, request, _unchanged, self._short_s)
        except Refused as refused:
            if means(refused.code, Means.NOT_MEMBER):
                return HeartbeatAnswer.GONE
            if _rebalances(refused):
                return HeartbeatAnswer.REJOIN
            raise
        return HeartbeatAnswer.STAYS

    async def is_current(self, group: str, description: GroupDescription) -> bool:
        """A heartbeat of an impossible generation tells, and it renews no session."""
        if not self._coordinators.knows(group) and await self.stores_groups() is False:
            return True
        shown = description.static_member
        member = Member(shown.id if shown else _NOBODY, _NO_GENERATION)
        request = partial(requests.heartbeat_request, group, member)
        try:
            await self._ask(_HEARTBEAT, group, request, _unchanged, self._short_s)
        except Refused as refused:
            if not means(refused.code, Means.NOT_MEMBER):
                raise
            return refused.code == (
                KafkaError.ILLEGAL_GENERATION if shown else KafkaError.UNKNOWN_MEMBER_ID
            )
        return False  # while a coordinator loads its groups it says yes to everybody

    async def leave(self, group: str, member: Member) -> None:
        request = partial(requests.leave_request, group, member)
        await self._ask(_LEAVE, group, request, _left, self._short_s)

    async def stores_groups(self) -> bool | None:
        answer = await self._wire.ask(_STORE, requests.store_request, limit_s=self._short_s)
        return requests.stores_groups(answer)

    async def _ask(
        self,
        purpose: Purpose,
        group: str,
        build: RequestFactory,
        read: Callable[[Any], T],
        limit_s: float,
    ) -> T:
        try:
            return await self._coordinators.ask(purpose, group, build, read, limit_s)
        except Refused as refused:
            if refused.code == KafkaError.COORDINATOR_NOT_AVAILABLE:
                await self._explain(refused, group)
            raise

    async def _explain(self, refused: Refused, group: str) -> None:
        try:
            answer = await self._wire.ask(_STORE, requests.store_request, limit_s=self._short_s)
        except ClusterError:
            return
        if requests.stores_groups(answer) is False:
            refused.fix = _NO_STORE_FIX
        elif offline := requests.offline_store(answer, group):
            refused.answer += f": {offline.tp}, which keeps the consumer group {group}, is offline"
            brokers = ", ".join(map(str, offline.down))
            one = len(offline.down) == 1
            named = f"broker {brokers}, which has" if one else f"brokers {brokers}, which have"
            refused.fix = f"Start {named} its replicas" if brokers else ""

    async def aclose(self) -> None:
        if self._owns_wire:
            await self._wire.aclose()


def _rebalances(refused: Refused) -> bool:
    return refused.code == KafkaError.REBALANCE_IN_PROGRESS


def _unchanged(answer: Any) -> Any:
    return answer  # the wire has already checked its error code


def _described(answer: Any) -> GroupDescription:
    raise_refusal(_DESCRIBE, answer.groups[0].error_code, None)
    return requests.read_group(answer)


def _left(answer: Any) -> None:
    for member in answer.members:
        code = member.error_code
        if code and not means(code, Means.NOT_MEMBER):
            raise_refusal(_LEAVE, code, None)
