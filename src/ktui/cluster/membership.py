"""The port to the consumer groups with one static member that a claim is made of.

A group has one static member (KIP-345) at a time. A client that joins with the same instance id
replaces that member. Brokers report this to the replaced member at each of its later requests. They
drop members whose session times out. kafka/ and simulated/ implement this port, and
`group_claim.py` builds a claim on it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

import msgspec

from ktui.cluster.internal_topics import GROUPS_TOPIC

KIND = "ktui"
"""The protocol type of these groups: brokers refuse members of any other type beside it."""
INSTANCE = "owner"
"""The only group.instance.id of these groups."""
STORE = GROUPS_TOPIC
"""Kafka's internal topic in which brokers store groups."""


class Member(NamedTuple):
    """The credentials with which a member proves that it is still the group's member."""

    id: str
    generation: int


class HeartbeatAnswer(enum.Enum):
    """The answer to a member's heartbeat."""

    STAYS = "stays"
    """The sender is the group's member."""
    REJOIN = "rejoin"
    """The sender is a member and has to join again: the group is rebalancing."""
    GONE = "gone"
    """The sender is not a member: replaced, removed, or silent for longer than its session."""


class MemberDescription(msgspec.Struct, frozen=True):
    """A member of a group, as anybody sees it."""

    id: str
    instance: str | None
    note: bytes
    """The member's description of itself."""


class GroupDescription(msgspec.Struct, frozen=True):
    """A consumer group, as anybody sees it. A group that does not exist has no members."""

    kind: str
    settled: bool
    """False while a member is joining; brokers show no notes then."""
    members: tuple[MemberDescription, ...]
    permitted: bool | None = None
    """Whether the reader may join the group; None where brokers do not report it."""

    @property
    def static_member(self) -> MemberDescription | None:
        """The member that a claim is made of, if the group has one."""
        return next((member for member in self.members if member.instance == INSTANCE), None)


class GroupMembership(Protocol):
    """Consumer groups with one static member. Every method may raise a `ClusterError`."""

    async def describe(self, group: str) -> GroupDescription:
        """Describe a group, without creating anything. Needs Describe on the group."""
        ...

    async def join(
        self, group: str, note: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        """Join as the group's only member; return None if another member joined meanwhile.

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

    async def aclose(self) -> None:
        """Close every connection and thread; memberships stay. Idempotent."""
        ...
