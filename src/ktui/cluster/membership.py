"""The port to the consumer groups with one static member that a claim is made of.

A group has one static member (KIP-345) at a time. A client that joins with the same instance id
replaces that member. Brokers report this to the replaced member at each of its later requests. They
drop members whose session times out. kafka/ and simulated/ implement this port, and
`group_claim.py` builds a claim on it.

Lag exporters and clients read the members of every group as consumers, whatever the group's
protocol type is. So a member gives what a consumer without topics gives: a subscription when it
joins, and an assignment when it syncs (ConsumerProtocolSubscription.json and
ConsumerProtocolAssignment.json of Kafka, version 0). What ktui has to say is the user data.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, Protocol

import msgspec

from ktui.cluster.internal_topics import GROUPS_TOPIC

KIND = "ktui"
"""The protocol type of these groups: brokers refuse members of any other type beside it."""
INSTANCE = "owner"
"""The only group.instance.id of these groups."""
STORE = GROUPS_TOPIC
"""Kafka's internal topic in which brokers store groups."""

_NO_TOPICS = struct.Struct(">hii")
"""Version, number of topics, and bytes of user data that follow."""
EMPTY_ASSIGNMENT = _NO_TOPICS.pack(0, 0, 0)
"""The assignment of a consumer without partitions and without user data."""


def subscription(user_data: bytes) -> bytes:
    """Return the subscription to no topic with this user data, as a consumer sends it."""
    return _NO_TOPICS.pack(0, 0, len(user_data)) + user_data


def user_data(metadata: bytes) -> bytes:
    """Return the user data of a subscription to no topic; empty if these bytes are none.

    A ktui that sent no subscription sent its JSON object instead, which is returned as it is.
    """
    if metadata.startswith(b"{"):
        return metadata
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
    metadata: bytes
    """What the member gave when it joined."""
    assignment: bytes = EMPTY_ASSIGNMENT
    """What the member was given when it synced."""


class GroupDescription(msgspec.Struct, frozen=True):
    """A consumer group, as anybody sees it. A group that does not exist has no members."""

    kind: str
    settled: bool
    """False while a member is joining; brokers show no metadata then."""
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

    async def aclose(self) -> None:
        """Close every connection and thread; memberships stay. Idempotent."""
        ...
