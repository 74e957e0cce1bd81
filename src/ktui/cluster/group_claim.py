"""A claim made of two consumer groups: one shows the owner, one shows that its engine is alive.

The member of the first group owns the cluster. That member's session is as long as brokers allow.
So the owner can still be read half an hour after its engine died. The session of the second group's
member is short: that member is present only while an engine is alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.clock import Clock, wait_at_most
from ktui.cluster.errors import ClusterError, KafkaError, NotAuthorized, Refused
from ktui.cluster.ownership import (
    KIND,
    STORE,
    ClaimPreview,
    ClaimStatus,
    ClusterOwner,
    GroupDescription,
    GroupMembership,
    HeartbeatAnswer,
    Member,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    Unowned,
    subscription,
    user_data,
)
from ktui.cluster.text import clean

_SETTLE_TRIES = 20
_SETTLE_WAIT_S = 0.1
_HEARTBEATS_PER_SESSION = 4
_SIGN_S = 1.0  # seconds to wait for a sign of life: ownership does not depend on it
_LONGEST_NAME = 255


class Sessions(NamedTuple):
    """Session timeouts in seconds, in the order in which they are requested."""

    claim_s: tuple[float, ...] = (1_800.0, 300.0, 45.0)  # group.max.session.timeout.ms or less
    engine_s: tuple[float, ...] = (20.0, 60.0, 300.0)  # group.min.session.timeout.ms or more


SESSIONS = Sessions()


class _Unsettled(Exception):
    """A group stays in a rebalance: members keep joining."""


class GroupClaim:
    """A `ClusterClaim` made of consumer groups.

    The engine that joined last heartbeats; the directory's others watch it, and replace it.
    """

    def __init__(
        self,
        groups: GroupMembership,
        cluster_id: str,
        me: ClusterOwner,
        clock: Clock,
        sessions: Sessions = SESSIONS,
    ) -> None:
        self._groups = groups
        self._group = f"ktui-{cluster_id}"
        self._engine_group = f"{self._group}-engine"
        self._me = me
        self._clock = clock
        self._sessions = sessions
        self._member: Member | None = None
        self._engine: Member | None = None
        self._heartbeat_due_s = 0.0
        self._held = False
        self._turn = asyncio.Lock()  # serialises joins: two at once would replace each other
        self._signing: asyncio.Task[None] | None = None

    async def preview(self) -> ClaimPreview:
        stored: bool | None = None
        permitted: bool | None = None
        try:
            stored = await self._groups.stores_groups()
            permitted = (await self._groups.describe(self._group)).permitted
        except NotAuthorized:
            permitted = False
        except ClusterError:
            permitted = None
        return ClaimPreview(
            groups=(self._group, self._engine_group),
            topic=STORE,
            makes_topic=None if stored is None else not stored,
            permission='Read on the groups with the prefix "ktui-"',
            permitted=permitted,
        )

    async def read(self) -> ClaimStatus:
        try:
            return await self._read_owner()
        except (ClusterError, _Unsettled) as error:
            return _unknown(error)

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        try:
            async with self._turn:
                return await self._claimed(take_over=take_over)
        except (ClusterError, _Unsettled) as error:
            return _unknown(error)

    async def check(self) -> ClaimStatus:
        try:
            async with self._turn:
                standing = await self._checked()
                due = self._clock.monotonic() >= self._heartbeat_due_s
                if due and isinstance(standing, OwnedHere) and self._member is not None:
                    await self._sign(self._heartbeat())
                return standing
        except (ClusterError, _Unsettled) as error:
            return _unknown(error)

    async def release(self) -> str | None:
        async with self._turn:
            self._end_sign()
            if self._engine is not None:
                with suppress(ClusterError):  # the member times out within seconds
                    await self._groups.leave(self._engine_group, self._engine)
                self._engine = None
            try:
                if self._member is not None:
                    await self._groups.leave(self._group, self._member)
            except ClusterError as error:
                return str(error)
            self._member = None
            return None

    async def aclose(self) -> None:
        self._end_sign()
        await self._groups.aclose()

    async def _read_owner(self) -> ClaimStatus:
        claim, engine = await asyncio.gather(
            self._read_newest(self._group),
            self._read_newest(self._engine_group),
            return_exceptions=True,
        )
        if isinstance(claim, BaseException):
            raise claim
        if not claim.members:
            return Unowned()
        if claim.kind != KIND:
            kind = clean(claim.kind) or "no protocol type"
            return OwnerUnknown(
                f"the consumer group {self._group} is used by something else ({kind})"
            )
        owner = _owner(claim)
        lives = _is_alive(owner, engine)
        if owner is not None and owner.state_dir == self._me.state_dir:
            return OwnedHere(owner, lives)
        return OwnedByOthers(owner, lives)

    async def _read_newest(self, group: str) -> GroupDescription:
        for _ in range(_SETTLE_TRIES):
            seen = await self._read_settled(group)
            if seen.permitted is False or await self._is_current(group, seen):
                return seen
            await self._clock.sleep(_SETTLE_WAIT_S)
        raise _Unsettled(f"brokers do not show the newest member of the consumer group {group} yet")

    async def _is_current(self, group: str, seen: GroupDescription) -> bool:
        try:
            return await self._groups.is_current(group, seen)
        except NotAuthorized:  # a principal that may not join decides nothing by what it sees
            return True

    async def _read_settled(self, group: str) -> GroupDescription:
        for _ in range(_SETTLE_TRIES):
            seen = await self._groups.describe(group)
            if seen.settled or not seen.members:
                return seen
            await self._clock.sleep(_SETTLE_WAIT_S)
        raise _Unsettled(f"members keep joining the consumer group {group}")

    async def _claimed(self, *, take_over: bool) -> ClaimStatus:
        before = await self._read_owner()
        if isinstance(before, OwnerUnknown) or (
            isinstance(before, OwnedByOthers) and not take_over
        ):
            return before
        if isinstance(before, OwnedHere):
            self._me = msgspec.structs.replace(self._me, since=before.owner.since)
        joined = await self._join(self._group, self._sessions.claim_s)
        if joined is None:
            return await self._read_owner()
        self._member = joined
        self._held = True
        after = await self._read_owner()  # another engine may have joined just after
        if not isinstance(after, OwnedHere):
            self._member = None
            return after
        await self._sign(self._announce())
        return OwnedHere(after.owner, lives=True)

    async def _join(
        self, group: str, sessions_s: tuple[float, ...], member_id: str = ""
    ) -> Member | None:
        metadata = subscription(msgspec.json.encode(self._me))
        for session_s in sessions_s[:-1]:
            try:
                return await self._groups.join(group, metadata, session_s, member_id)
            except Refused as refused:
                if refused.code != KafkaError.INVALID_SESSION_TIMEOUT:
                    raise
        return await self._groups.join(group, metadata, sessions_s[-1], member_id)

    async def _checked(self) -> ClaimStatus:
        if self._member is None:
            return await self._check_as_reader()
        answer = await self._groups.heartbeat(self._group, self._member)
        if answer is HeartbeatAnswer.REJOIN:
            self._member = await self._join(self._group, self._sessions.claim_s, self._member.id)
        elif answer is HeartbeatAnswer.GONE:
            self._member = None
        return await self._check_as_reader() if self._member is None else OwnedHere(self._me)

    async def _check_as_reader(self) -> ClaimStatus:
        """Read the owner, and take over the heartbeats from an engine that fell silent."""
        standing = await self._read_owner()
        if isinstance(standing, OwnedHere):
            self._held = True
            silent = standing.lives is False
            return await self._claimed(take_over=False) if silent else standing
        if isinstance(standing, Unowned) and not self._held:
            return await self._claimed(take_over=False)
        return standing

    async def _sign(self, sign: Coroutine[Any, Any, None]) -> None:
        """Give a sign of life; wait only a moment, for its coordinator may be down."""
        if self._signing is not None and not self._signing.done():
            sign.close()
            return
        self._signing = signing = asyncio.ensure_future(sign)
        await wait_at_most(_SIGN_S, signing, self._clock)
        if signing.done() and not signing.cancelled():
            signing.result()

    def _end_sign(self) -> None:
        if self._signing is not None:
            self._signing.cancel()

    async def _heartbeat(self) -> None:
        self._heartbeat_due_s = (
            self._clock.monotonic() + self._sessions.engine_s[0] / _HEARTBEATS_PER_SESSION
        )
        answer = HeartbeatAnswer.GONE
        try:
            if self._engine is not None:
                answer = await self._groups.heartbeat(self._engine_group, self._engine)
        except ClusterError:
            return  # a late sign of life is harmless: ownership is what counts
        if answer is not HeartbeatAnswer.STAYS:
            await self._announce()

    async def _announce(self) -> None:
        """Join the engines' group. An engine that cannot counts as dead, but still owns."""
        try:
            self._engine = await self._join(self._engine_group, self._sessions.engine_s)
        except ClusterError:
            self._engine = None
        self._heartbeat_due_s = (
            self._clock.monotonic() + self._sessions.engine_s[0] / _HEARTBEATS_PER_SESSION
        )


def _owner(group: GroupDescription) -> ClusterOwner | None:
    member = group.static_member
    note = user_data(member.metadata) if member else b""
    try:
        claimed = msgspec.json.decode(note, type=ClusterOwner)
    except msgspec.DecodeError:
        return None
    if claimed.since.tzinfo is None:
        return None
    return ClusterOwner(
        state_dir=claimed.state_dir,
        user=clean(claimed.user[:_LONGEST_NAME]),
        host=clean(claimed.host[:_LONGEST_NAME]),
        run=clean(claimed.run[:_LONGEST_NAME]),
        since=claimed.since,
    )


def _is_alive(owner: ClusterOwner | None, engine: GroupDescription | BaseException) -> bool | None:
    if isinstance(engine, ClusterError | _Unsettled) or owner is None:
        return None
    if isinstance(engine, BaseException):
        raise engine
    living = _owner(engine)
    return living is not None and living.state_dir == owner.state_dir


def _unknown(error: ClusterError | _Unsettled) -> OwnerUnknown:
    return OwnerUnknown(str(error), denied=isinstance(error, NotAuthorized))
