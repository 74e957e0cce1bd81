"""A claim made of two consumer groups: one for owning, one for living.

A member of the first group owns the cluster. Its session is as long as brokers allow, so that the
owner can be read for half an hour after its engine died. The session of the second group's member
is short: it is there as long as an engine lives.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, NotAuthorized, Refused
from ktui.cluster.membership import (
    INSTANCE,
    KIND,
    STORE,
    GroupMembership,
    HeartbeatAnswer,
    Member,
    SeenGroup,
)
from ktui.cluster.ownership import (
    ClaimPreview,
    ClusterOwner,
    Free,
    Others,
    OwnedHere,
    Standing,
    Unknown,
)
from ktui.cluster.text import clean

_SETTLES = 20
"""How often a group is looked at while somebody joins it."""
_SETTLING_S = 0.1
_SIGNS_A_SESSION = 4
_LONGEST = 255
"""Characters that are shown of each name: no host name has more."""


class Sessions(NamedTuple):
    """For how long a silent member is kept, in seconds: what is asked for first, and then."""

    claim_s: tuple[float, ...] = (1_800.0, 300.0, 45.0)
    """Kafka allows up to group.max.session.timeout.ms, 30 minutes unless it was changed."""
    engine_s: tuple[float, ...] = (20.0, 60.0, 300.0)
    """Kafka asks for at least group.min.session.timeout.ms, 6 seconds unless it was changed."""


SESSIONS = Sessions()


class _Unsettled(Exception):
    """Somebody is joining the group, and does not come to an end."""


class GroupClaim:
    """A `ClusterClaim` by consumer groups.

    The engine of a state directory that joined last is the group's member, and has the heartbeats.
    The other engines of the directory read whether the member is still one of theirs, and one of
    them joins when that falls silent.

    Args:
        groups: the way to the groups; closed by `aclose`.
        cluster_id: of the cluster; it names the groups.
        me: how this state directory names itself.
        clock: the time by which signs of life are due.
        sessions: for how long a silent member is kept.
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
        self._sign_due_s = 0.0
        self._held = False
        """Whether the cluster was ours before: then it is not taken again unasked."""
        self._turn = asyncio.Lock()
        """Two that join at once would replace each other."""

    async def preview(self) -> ClaimPreview:
        """What `claim` will create and needs. Changes nothing on the cluster."""
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

    async def look(self) -> Standing:
        """Who owns the cluster. Changes nothing on it."""
        try:
            return await self._seen()
        except (ClusterError, _Unsettled) as error:
            return _unknown(error)

    async def claim(self, *, take_over: bool) -> Standing:
        """Take the cluster for this state directory, and return how things stand then."""
        try:
            async with self._turn:
                return await self._claimed(take_over=take_over)
        except (ClusterError, _Unsettled) as error:
            return _unknown(error)

    async def check(self) -> Standing:
        """Whether this state directory still owns the cluster, and a sign that its engine lives."""
        try:
            async with self._turn:
                standing = await self._checked()
                if isinstance(standing, OwnedHere) and self._member is not None:
                    await self._give_sign_if_due()
                return standing
        except (ClusterError, _Unsettled) as error:
            return _unknown(error)

    async def release(self) -> str | None:
        """Let go of the cluster at once; why it stays ours, or None."""
        async with self._turn:
            if self._engine is not None:
                with suppress(ClusterError):  # it times out within seconds
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
        """Close every connection and thread; the claim stays. Idempotent."""
        await self._groups.aclose()

    async def _seen(self) -> Standing:
        """Look at both groups at once."""
        claim, engine = await asyncio.gather(
            self._settled(self._group), self._settled(self._engine_group), return_exceptions=True
        )
        if isinstance(claim, BaseException):
            raise claim
        if not claim.members:
            return Free()
        if claim.kind != KIND:
            kind = clean(claim.kind) or "no protocol type"
            return Unknown(f"the consumer group {self._group} is in other use ({kind})")
        owner = _owner(claim)
        lives = _lives(owner, engine)
        if owner is not None and owner.state_dir == self._me.state_dir:
            return OwnedHere(owner, lives)
        return Others(owner, lives)

    async def _settled(self, group: str) -> SeenGroup:
        for _ in range(_SETTLES):
            seen = await self._groups.describe(group)
            if seen.settled or not seen.members:
                return seen
            await self._clock.sleep(_SETTLING_S)
        raise _Unsettled(f"somebody is joining the consumer group {group} all the time")

    async def _claimed(self, *, take_over: bool) -> Standing:
        before = await self._seen()
        if isinstance(before, Unknown) or (isinstance(before, Others) and not take_over):
            return before
        if isinstance(before, OwnedHere):
            self._me = msgspec.structs.replace(self._me, since=before.owner.since)
        joined = await self._join(self._group, self._sessions.claim_s)
        if joined is None:
            return await self._seen()
        self._member = joined
        self._held = True
        after = await self._seen()  # another may have joined a moment later
        if not isinstance(after, OwnedHere):
            self._member = None
            return after
        await self._announce()
        return OwnedHere(after.owner, lives=True)

    async def _join(
        self, group: str, sessions_s: tuple[float, ...], member_id: str = ""
    ) -> Member | None:
        """Join with the first session that brokers allow."""
        note = msgspec.json.encode(self._me)
        for session_s in sessions_s[:-1]:
            try:
                return await self._groups.join(group, note, session_s, member_id)
            except Refused as refused:
                if refused.code != "INVALID_SESSION_TIMEOUT":
                    raise
        return await self._groups.join(group, note, sessions_s[-1], member_id)

    async def _checked(self) -> Standing:
        if self._member is None:
            return await self._checked_by_looking()
        heard = await self._groups.heartbeat(self._group, self._member)
        if heard is HeartbeatAnswer.REJOIN:
            self._member = await self._join(self._group, self._sessions.claim_s, self._member.id)
        elif heard is HeartbeatAnswer.GONE:
            self._member = None
        return await self._checked_by_looking() if self._member is None else OwnedHere(self._me)

    async def _checked_by_looking(self) -> Standing:
        """Look, and take the heartbeats over where the engine that had them fell silent."""
        standing = await self._seen()
        if isinstance(standing, OwnedHere):
            self._held = True
            silent = standing.lives is False
            return await self._claimed(take_over=False) if silent else standing
        if isinstance(standing, Free) and not self._held:
            return await self._claimed(take_over=False)
        return standing

    async def _give_sign_if_due(self) -> None:
        if self._clock.monotonic() < self._sign_due_s:
            return
        self._sign_due_s = self._clock.monotonic() + self._sessions.engine_s[0] / _SIGNS_A_SESSION
        heard = HeartbeatAnswer.GONE
        try:
            if self._engine is not None:
                heard = await self._groups.heartbeat(self._engine_group, self._engine)
        except ClusterError:
            return  # whether it lives is told late; that it owns is what counts
        if heard is not HeartbeatAnswer.STAYS:
            await self._announce()

    async def _announce(self) -> None:
        """Join the engines' group; who cannot is taken for dead, and owns all the same."""
        try:
            self._engine = await self._join(self._engine_group, self._sessions.engine_s)
        except ClusterError:
            self._engine = None
        self._sign_due_s = self._clock.monotonic() + self._sessions.engine_s[0] / _SIGNS_A_SESSION


def _owner(group: SeenGroup) -> ClusterOwner | None:
    """Read what the group's member says about itself."""
    note = next((m.note for m in group.members if m.instance == INSTANCE), b"")
    try:
        told = msgspec.json.decode(note, type=ClusterOwner)
    except msgspec.DecodeError:
        return None
    if told.since.tzinfo is None:
        return None
    return ClusterOwner(
        state_dir=told.state_dir,
        user=clean(told.user[:_LONGEST]),
        host=clean(told.host[:_LONGEST]),
        run=clean(told.run[:_LONGEST]),
        since=told.since,
    )


def _lives(owner: ClusterOwner | None, engine: SeenGroup | BaseException) -> bool | None:
    if isinstance(engine, ClusterError | _Unsettled) or owner is None:
        return None
    if isinstance(engine, BaseException):
        raise engine
    living = _owner(engine)
    return living is not None and living.state_dir == owner.state_dir


def _unknown(error: ClusterError | _Unsettled) -> Unknown:
    return Unknown(str(error), denied=isinstance(error, NotAuthorized))
