"""The port to what a claim is made of: consumer groups with one static member.

A group's fixed member (KIP-345) is one at a time: whoever joins under its instance id replaces the
one before, which every later request of that one is told. Members are forgotten when their session
times out. kafka/ and simulated/ implement this; `group_claim.py` builds a claim of it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

import msgspec

KIND = "ktui"
"""The protocol type of these groups: brokers refuse any other kind of member beside one of it."""
INSTANCE = "owner"
"""The one group.instance.id."""
STORE = "__consumer_offsets"
"""Kafka's own topic in which brokers keep groups."""


class Member(NamedTuple):
    """What a member proves by that it is still the one."""

    id: str
    generation: int


class HeartbeatAnswer(enum.Enum):
    """What a member is told at a heartbeat."""

    STAYS = "stays"
    """It is the group's member."""
    REJOIN = "rejoin"
    """It is a member and has to join again: something has stirred the group up."""
    GONE = "gone"
    """It is no member: replaced, removed, or silent for longer than its session."""


class SeenMember(msgspec.Struct, frozen=True):
    """A member as anybody sees it."""

    id: str
    instance: str | None
    note: bytes
    """What it says about itself."""


class SeenGroup(msgspec.Struct, frozen=True):
    """A group as anybody sees it; one that does not exist has no members."""

    kind: str
    settled: bool
    """False while somebody is joining, when brokers show no notes."""
    members: tuple[SeenMember, ...]
    permitted: bool | None = None
    """Whether the one who looks may join; None where brokers do not tell."""


class GroupMembership(Protocol):
    """Consumer groups with one static member. Every method may raise a `ClusterError`."""

    async def describe(self, group: str) -> SeenGroup:
        """The group as it is. Creates nothing. Needs Describe on the group."""
        ...

    async def join(
        self, group: str, note: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        """Join as the group's one member; None where another has done so meanwhile.

        Without a member id whoever is there is replaced, without being asked; with one's own id
        only oneself is. Needs Read on the group.

        Raises:
            Refused: with the code INVALID_SESSION_TIMEOUT where brokers want another `session_s`.
        """
        ...

    async def heartbeat(self, group: str, member: Member) -> HeartbeatAnswer:
        """Begin the member's session anew. Needs Read on the group."""
        ...

    async def leave(self, group: str, member: Member) -> None:
        """Leave at once; one that is no member any more changes nothing. Needs Read."""
        ...

    async def stores_groups(self) -> bool | None:
        """Whether `STORE` exists; None where this principal is not told. Creates nothing."""
        ...

    async def aclose(self) -> None:
        """Close every connection and thread; memberships stay. Idempotent."""
        ...
