"""State directories that claim a cluster, for tests of its ownership."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from ktui.cluster.clock import Clock
from ktui.cluster.group_claim import SESSIONS, GroupClaim, Sessions
from ktui.cluster.ownership import (
    ClaimPreview,
    ClaimStatus,
    ClusterOwner,
    GroupMembership,
    Member,
    OwnedHere,
)

SINCE = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)


def owner(user: str, *, run: str = "orders", since: datetime = SINCE) -> ClusterOwner:
    """Return the state directory of a user as the owner of a cluster."""
    return ClusterOwner(
        state_dir=f"directory-of-{user}", user=user, host="ops1", run=run, since=since
    )


class GoodClaim:
    """A claim on a cluster that nobody else ever claims."""

    def __init__(self, me: ClusterOwner) -> None:
        self._me = me

    async def preview(self) -> ClaimPreview:
        return ClaimPreview(
            ("ktui-id",), "__consumer_offsets", makes_topic=False, permission="Read", permitted=True
        )

    async def read(self) -> ClaimStatus:
        return OwnedHere(self._me)

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        del take_over
        return OwnedHere(self._me)

    async def check(self) -> ClaimStatus:
        return OwnedHere(self._me)

    async def release(self) -> str | None:
        return None

    async def aclose(self) -> None:
        pass


class Owners:
    """Makes claims on one cluster, and closes them all."""

    def __init__(
        self, memberships: Callable[[], GroupMembership], clock: Clock, cluster_id: str
    ) -> None:
        self._memberships = memberships
        self._clock = clock
        self._cluster_id = cluster_id
        self._made: list[GroupClaim] = []

    def claim_of(
        self, me: ClusterOwner, sessions: Sessions = SESSIONS, *, cluster_id: str = ""
    ) -> GroupClaim:
        """Return the claim of another engine of a state directory."""
        name = cluster_id or self._cluster_id
        claim = GroupClaim(self._memberships(), name, me, self._clock, sessions)
        self._made.append(claim)
        return claim

    async def aclose(self) -> None:
        for claim in self._made:
            await claim.aclose()


async def release(groups: GroupMembership, cluster_id: str) -> None:
    """Free a cluster of its owner, as an operator does by hand: remove its groups' members."""
    anyone = Member("", -1)
    if await groups.stores_groups():
        for group in (f"ktui-{cluster_id}", f"ktui-{cluster_id}-engine"):
            await groups.leave(group, anyone)
