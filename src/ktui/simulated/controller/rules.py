"""What Kafka's versions decide differently about partitions."""

from __future__ import annotations

import msgspec

from ktui.simulated.layout import VERSIONS


class VersionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one version, on a cluster that was formatted with it."""

    completes_without_kept: bool
    """Whether a reassignment that does not shrink waits for those it adds alone, and no longer
    for every replica of its target to be in the ISR (from 4.3)."""
    eligible_leader_replicas: bool
    """Whether there is an ELR (KIP-966): eligible.leader.replicas.version is 1 from 4.1."""
    starting_leaves_out: bool
    """Whether a broker that registers anew is left out of the ISRs that it is still in, and others
    are elected (from 4.0)."""
    guards_replication_factor: bool
    """Whether brokers heed allow_replication_factor_change (KIP-860, from 4.1)."""
    tells_fenced_brokers: bool
    """Whether DescribeCluster can name fenced brokers (KIP-1073, from 4.1)."""


def rules_of(version: str) -> VersionRules:
    """Give the rules of one of `VERSIONS`."""
    since_4_1 = VERSIONS.index(version) >= VERSIONS.index("4.1")
    return VersionRules(
        completes_without_kept=VERSIONS.index(version) >= VERSIONS.index("4.3"),
        eligible_leader_replicas=since_4_1,
        starting_leaves_out=VERSIONS.index(version) >= VERSIONS.index("4.0"),
        guards_replication_factor=since_4_1,
        tells_fenced_brokers=since_4_1,
    )
