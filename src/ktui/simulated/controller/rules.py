"""The rules about partitions that differ between Kafka versions."""

from __future__ import annotations

import msgspec

from ktui.simulated.layout import VERSIONS


class VersionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one version, on a cluster that was formatted with that version."""

    completes_without_kept: bool
    """Whether a reassignment that does not shrink waits only for the replicas that it adds.

    Before 4.3 every reassignment waits for all replicas of its target to be in the ISR.
    """
    eligible_leader_replicas: bool
    """Whether there is an ELR (KIP-966): eligible.leader.replicas.version is 1 from 4.1."""
    starting_leaves_out: bool
    """Whether a broker that registers again is removed from the ISRs that it is still in.

    Other leaders are then elected (from 4.0).
    """
    guards_replication_factor: bool
    """Whether brokers respect allow_replication_factor_change (KIP-860, from 4.1)."""
    tells_fenced_brokers: bool
    """Whether DescribeCluster can list fenced brokers (KIP-1073, from 4.0)."""
    cordons_log_dirs: bool
    """Whether brokers know cordoned.log.dirs (KIP-1066, from 4.3)."""
    refuses_cordoned: bool
    """Whether an assignment may not name a broker whose log dirs are all cordoned (from 4.4)."""
    limits_added_partitions: bool
    """Whether more than 10,000 new partitions are refused by name (from 4.4), not in a fault."""


def rules_of(version: str) -> VersionRules:
    """Return the rules of one of `VERSIONS`."""
    since_4_0 = VERSIONS.index(version) >= VERSIONS.index("4.0")
    since_4_1 = VERSIONS.index(version) >= VERSIONS.index("4.1")
    since_4_3 = VERSIONS.index(version) >= VERSIONS.index("4.3")
    since_4_4 = VERSIONS.index(version) >= VERSIONS.index("4.4")
    return VersionRules(
        completes_without_kept=since_4_3,
        eligible_leader_replicas=since_4_1,
        starting_leaves_out=since_4_0,
        guards_replication_factor=since_4_1,
        tells_fenced_brokers=since_4_0,
        cordons_log_dirs=since_4_3,
        refuses_cordoned=since_4_4,
        limits_added_partitions=since_4_4,
    )
