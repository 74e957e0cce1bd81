"""A simulated cluster in place of the one that a verb is to work on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.config import Context
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import ClusterClaim, ClusterOwner, GroupMembership
from ktui.cluster.permissions import GRANTS, CanaryObstacles, Permissions
from ktui.cluster.ports import ClusterReader
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.journals.owners import GoodClaim

OF_A_CANARY = ("Create", "Write", "Delete")
EVERYTHING = frozenset(grant.operation for grant in GRANTS)


class NamedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `choose_cluster`, without a connection."""

    reader: Callable[[], ClusterReader]
    writer: Callable[[], Any] | None = None
    name: str = "prod-eu"
    context: Context = Context()
    theme: str | None = None
    bell: bool = False
    unverified: tuple[str, ...] = ()
    not_granted: frozenset[tuple[str, str]] = frozenset()
    """The operations that the principal lacks: "cluster" or a topic, and the operation."""

    canary_refusal: str = ""
    """Why the topic of a canary cannot be used; empty if it can."""

    groups: Callable[[], GroupMembership] | None = None
    """The way to the cluster's consumer groups; without one, every claim of the cluster is good."""

    def ask(self, read: Any) -> Any:
        return Cluster.ask(cast("Any", self), read)

    def ports(self) -> Any:
        return Cluster.ports(cast("Any", self))

    def claim(self, me: ClusterOwner, cluster_id: str, _over: object = None) -> ClusterClaim:
        if self.groups is None:
            return GoodClaim(me)
        return GroupClaim(self.groups(), cluster_id, me, VirtualClock(leaping=True))

    async def release(self) -> str | None:
        return None

    async def canary_obstacles(self, topic: str) -> CanaryObstacles:
        denied = (each for each in OF_A_CANARY if (topic, each) in self.not_granted)
        return CanaryObstacles(tuple(denied), self.canary_refusal)

    async def permissions(self, topics: Collection[str]) -> Permissions:
        def granted(resource: str) -> frozenset[str]:
            return EVERYTHING - {operation for on, operation in self.not_granted if on == resource}

        return Permissions(granted("cluster"), {topic: granted(topic) for topic in topics})


def as_reader(cluster: SimulatedCluster) -> Any:
    """Return the reader of a simulated cluster, in place of Kafka's."""
    return cluster.reader()
