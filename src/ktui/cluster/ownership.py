"""Ownership of a cluster by one state directory: its port, and the check before each request."""

from __future__ import annotations

import asyncio
import enum
import logging
import struct
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from ktui.cluster.broker import GROUPS_TOPIC
from ktui.cluster.clock import Clock, wait_at_most


class ClusterOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A state directory, as it identifies itself on the cluster, readable by anyone with access."""

    state_dir: str  # the directory's random id: equal ids mean the same owner
    user: str
    host: str
    run: str
    since: datetime

    def __str__(self) -> str:
        since = self.since.astimezone().isoformat(" ", timespec="seconds")
        return f"{self.user} on {self.host} (run {self.run}, since {since})"


class OwnedHere(msgspec.Struct, frozen=True):
    """This state directory owns the cluster."""

    owner: ClusterOwner
    lives: bool | None = True  # an engine of the owner; None if not reported

    def __str__(self) -> str:
        return f"this state directory owns the cluster: {self.owner}"


class Unowned(msgspec.Struct, frozen=True):
    """Nobody owns the cluster."""

    def __str__(self) -> str:
        return "nobody owns the cluster"


class OwnedByOthers(msgspec.Struct, frozen=True):
    """Another state directory owns the cluster."""

    owner: ClusterOwner | None  # None where the owner's note about itself cannot be read
    lives: bool | None

    def __str__(self) -> str:
        owner = self.owner or "an unidentified state directory"
        return f"{owner} owns the cluster; {_ENGINE_STATE[self.lives]}"


GOES_ON = "What moves goes on, and cancels, rollbacks and restored throttles are still sent"
"""What an engine does while it cannot read the owner."""


class OwnerUnknown(msgspec.Struct, frozen=True):
    """The owner of the cluster cannot be determined now."""

    reason: str
    denied: bool = False  # by a missing permission, which no retry brings

    def __str__(self) -> str:
        return f"the owner of the cluster is unknown: {self.reason}"


ClaimStatus = OwnedHere | Unowned | OwnedByOthers | OwnerUnknown

_ENGINE_STATE = {
    True: "its engine is alive",
    False: "its engine is silent",
    None: "it is not known whether its engine is alive",
}


class ClaimPreview(msgspec.Struct, frozen=True):
    """The groups and topic that a claim will create, and the permission that the claim needs."""

    groups: tuple[str, ...]
    topic: str
    makes_topic: bool | None
    permission: str
    permitted: bool | None  # whether the principal has the permission


class ClusterClaim(Protocol):
    """One engine's part in a claim. No method raises a `ClusterError`: see `OwnerUnknown`."""

    async def preview(self) -> ClaimPreview:
        """Preview what `claim` creates and needs, without changing anything on the cluster."""
        ...

    async def read(self) -> ClaimStatus:
        """Read who owns the cluster, without changing the cluster. Needs Describe on the groups."""
        ...

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        """Claim the cluster for this state directory, and return the ownership afterwards.

        Another owner is replaced only with `take_over`. Otherwise `OwnedByOthers` is returned and
        nothing changes. If the directory owns the cluster already, this engine takes over its
        claim; that needs no `take_over`. Needs Read on the groups.
        """
        ...

    async def check(self) -> ClaimStatus:
        """Check that this state directory still owns the cluster, and signal a live engine.

        Costs one request of a few milliseconds. Call `check` at each turn of an engine, even with
        nothing to send. An engine that stops calling counts as dead after 20 seconds, and its claim
        lapses after 30 minutes. `Unowned` means that our claim has lapsed or was removed by hand.
        An engine that could not claim before claims here, as soon as possible.
        """
        ...

    async def release(self) -> str | None:
        """Release the cluster, by the directory's last engine; return why it is still claimed."""
        ...

    async def aclose(self) -> None: ...


KIND = "ktui"  # the protocol type: brokers refuse members of any other beside it
INSTANCE = "owner"
STORE = GROUPS_TOPIC

_NO_TOPICS = struct.Struct(">hii")  # version, number of topics, and bytes of user data that follow
EMPTY_ASSIGNMENT = _NO_TOPICS.pack(0, 0, 0)


def subscription(user_data: bytes) -> bytes:
    """Return the subscription to no topic with this user data, as a consumer sends it."""
    return _NO_TOPICS.pack(0, 0, len(user_data)) + user_data


def user_data(metadata: bytes) -> bytes:
    """Return the user data of a subscription; nothing of what another program sent."""
    if len(metadata) < _NO_TOPICS.size:
        return b""
    _, topics, size = _NO_TOPICS.unpack_from(metadata)
    said = metadata[_NO_TOPICS.size :]
    return said if topics == 0 and size == len(said) else b""


class Member(NamedTuple):
    """The credentials with which a member proves that it is still the group's member."""

    id: str
    generation: int


class HeartbeatAnswer(enum.Enum):
    """The answer to a member's heartbeat."""

    STAYS = "stays"  # the sender is the group's member
    REJOIN = "rejoin"  # the sender is a member and has to join again: the group is rebalancing
    GONE = "gone"  # not a member: replaced, removed, or silent for too long


class MemberDescription(msgspec.Struct, frozen=True):
    """A member of a group, as anybody sees it."""

    id: str
    instance: str | None
    metadata: bytes
    assignment: bytes = EMPTY_ASSIGNMENT


class GroupDescription(msgspec.Struct, frozen=True):
    """A consumer group, as anybody sees it. A group that does not exist has no members."""

    kind: str
    settled: bool  # False while a member is joining; brokers show no metadata then
    members: tuple[MemberDescription, ...]
    permitted: bool | None = None  # to join the group; None if not reported

    @property
    def static_member(self) -> MemberDescription | None:
        return next((member for member in self.members if member.instance == INSTANCE), None)


class GroupMembership(Protocol):
    """Consumer groups with one static member. Every method may raise a `ClusterError`."""

    async def describe(self, group: str) -> GroupDescription:
        """Describe a group, without creating anything. Needs Describe on the group."""
        ...

    async def join(
        self, group: str, metadata: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        """Join as the group's only member; return None if another member joined meanwhile.

        The member is assigned `EMPTY_ASSIGNMENT`.

        Without a member id, any present member is replaced without being asked. With the caller's
        own id, only the caller is. Needs Read on the group.

        Raises:
            Refused: with the code INVALID_SESSION_TIMEOUT where brokers do not allow `session_s`.
        """
        ...

    async def heartbeat(self, group: str, member: Member) -> HeartbeatAnswer:
        """Renew the member's session. Needs Read on the group."""
        ...

    async def is_current(self, group: str, description: GroupDescription) -> bool:
        """Whether the coordinator still has the member of a description, or still none.

        Brokers from 4.0 on describe a group as all replicas have it. After a failover a description
        may thus lack the last join until the replicas have caught up. This answer lacks nothing.
        Creates nothing. Needs Read on the group.
        """
        ...

    async def leave(self, group: str, member: Member) -> None:
        """Leave at once; a former member changes nothing. Needs Read on the group."""
        ...

    async def stores_groups(self) -> bool | None:
        """Whether `STORE` exists; None where this principal may not know. Creates nothing."""
        ...

    async def aclose(self) -> None: ...


log = logging.getLogger(__name__)

ANSWER_STALE_S = 5.0  # seconds for which an ownership check allows a request to leave
LATE_S = 3.0  # seconds to wait for an answer before the owner counts as unknown
_UNKNOWN_FOR_S = 2.0  # before it is checked again: each check may wait for seconds
_CHECK_EVERY_S = 4.0

T = TypeVar("T")


class SendGuard:
    """Decides by the claim whether an engine may send; without a claim, it always may.

    The first check makes the claim. An engine that has lost the cluster never sends again, even if
    its directory owns the cluster later: this run must not undo another owner's changes. `ktui
    resume` starts a new engine.
    """

    def __init__(self, claim: ClusterClaim | None, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
        self._checking: asyncio.Task[None] | None = None
        self._asked_s = 0.0
        self._unknown_until_s = 0.0
        self.standing: ClaimStatus | None = None
        self.lost: str | None = None
        """The reason why the engine no longer sends; None while it may own the cluster."""

    @property
    def unknown(self) -> str | None:
        """The reason why no new step begins; None if the owner could be read."""
        if isinstance(self.standing, OwnerUnknown):
            return f"no new step begins: {self.standing}. {GOES_ON}"
        return None

    @property
    def is_due(self) -> bool:
        """Whether the next check is due, so that others see that the engine is alive."""
        passed_s = self._clock.monotonic() - self._asked_s
        return self._claim is not None and passed_s >= _CHECK_EVERY_S

    async def ask(self) -> None:
        if self._claim is None or self.lost is not None:
            return
        now_s = self._clock.monotonic()
        if isinstance(self.standing, OwnerUnknown) and now_s < self._unknown_until_s:
            return
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._check(self._claim))
        checking = self._checking
        await wait_at_most(LATE_S, checking, self._clock)
        if not checking.done():
            before = self.standing
            late = OwnerUnknown(f"no answer within {LATE_S:.0f} s")
            self._judge(before if isinstance(before, OwnerUnknown) else late, now_s)

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        if self._claim is None:
            return await work
        asking = asyncio.ensure_future(self.ask())
        try:
            return await work
        finally:
            await asking

    def why_not(self, *, begins_step: bool) -> str | None:
        """Return why the last answer forbids sending, as a sentence; None if it is allowed.

        Only what begins a step waits for an unknown owner: what ends something is still sent.
        """
        if self._claim is None or self.lost is not None:
            return self.lost
        if isinstance(self.standing, OwnerUnknown):
            return self.unknown if begins_step else None
        age_s = self._clock.monotonic() - self._asked_s
        if self.standing is None or age_s > ANSWER_STALE_S:
            return "the owner of the cluster was last checked too long ago"
        return None

    async def _check(self, claim: ClusterClaim) -> None:
        asked_s = self._clock.monotonic()
        try:
            if self.standing is None:
                standing = await claim.claim(take_over=False)
            else:
                standing = await claim.check()
        except Exception as error:
            log.exception("the answer about the owner of the cluster cannot be read")
            standing = OwnerUnknown(f"an answer cannot be read: {type(error).__name__}: {error}")
        finally:
            self._checking = None
        self._judge(standing, asked_s)

    def _judge(self, standing: ClaimStatus, asked_s: float) -> None:
        self.standing, self._asked_s = standing, asked_s
        match standing:
            case OwnerUnknown():
                self._unknown_until_s = self._clock.monotonic() + _UNKNOWN_FOR_S
            case OwnedByOthers(owner):
                new_owner = owner or "another state directory"
                self.lost = (
                    f"{new_owner} has taken over the cluster: this engine sends nothing more"
                )
            case Unowned():
                self.lost = (
                    "the claim on the cluster has lapsed, or was removed: this engine sends "
                    "nothing more"
                )
            case OwnedHere():
                pass
