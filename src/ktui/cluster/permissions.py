"""What the principal of ktui may do on a cluster, as its brokers report it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class Grant(NamedTuple):
    """A permission that ktui uses, in Kafka's words, and its purpose."""

    resource: str
    operation: str
    purpose: str  # the actions that need the permission, as words that follow "cannot"
    writes: bool = False
    vital: bool = False


GRANTS = (
    Grant(
        "cluster",
        "Describe",
        "list reassignments, see sizes on disk, or tell whether metadata is fresh",
        vital=True,
    ),
    Grant("cluster", "DescribeConfigs", "read broker settings: throttles, rebalancing"),
    Grant("cluster", "Alter", "start and cancel reassignments, elect leaders", writes=True),
    Grant("cluster", "AlterConfigs", "set the brokers' throttle rates", writes=True),
    Grant("topic", "Describe", "see replicas, in-sync replicas and replica lag"),
    Grant("topic", "DescribeConfigs", "read min.insync.replicas and throttled replicas"),
    Grant("topic", "AlterConfigs", "set the topics' throttled replicas", writes=True),
)


class Permissions(msgspec.Struct, frozen=True):
    """The operations that this principal may do (KIP-430); all of them without an authorizer.

    Without Describe on the cluster, Kafka reports no other operation on the cluster either.
    """

    cluster: frozenset[str]
    topics: Mapping[str, frozenset[str]]  # the others look as if they did not exist

    @property
    def none(self) -> bool:
        return not self.cluster and not self.topics

    def missing(self) -> dict[Grant, tuple[str, ...]]:
        """Return the missing grants with the topics they lack, none for the whole cluster."""
        found: dict[Grant, tuple[str, ...]] = {}
        for grant in GRANTS:
            if grant.resource == "cluster" or self.none:
                if grant.operation not in self.cluster:
                    found[grant] = ()
            elif lacking := [t for t, may in self.topics.items() if grant.operation not in may]:
                found[grant] = tuple(sorted(lacking))
        return found


class CanaryObstacles(msgspec.Struct, frozen=True):
    """What keeps a canary from measuring; empty for nothing."""

    denied: tuple[str, ...] = ()
    refusal: str = ""
