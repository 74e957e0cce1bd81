"""A summary of a plan on a cluster, in figures."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules, at_target, moves_leader
from ktui.planning.plan import Plan


class FactorChange(msgspec.Struct, frozen=True):
    """The number of partitions that change from one replication factor to another."""

    before: int = msgspec.field(name="from")
    after: int = msgspec.field(name="to")
    partitions: int


class PlanSummary(msgspec.Struct, frozen=True):
    """The plan in figures. Partitions that others are moving count as before their move."""

    partitions: int
    unknown: int
    """Partitions that the cluster does not have or does not show; excluded from the rest."""
    at_target: int
    replica_movements: int
    """Replicas to copy to a broker."""
    leader_movements: int
    """Partitions with a leader that are to be led by another broker."""
    replication_factor_changes: tuple[FactorChange, ...]


def summarise(plan: Plan, cluster: ClusterSnapshot) -> PlanSummary:
    """Summarise a plan on a cluster."""
    rules = PlanRules(cluster)
    pairs = [(target, rules.state(target.tp)) for target in plan.partitions]
    known = [(target, state) for target, state in pairs if state is not None]
    gained = (b for target, state in known for b in target.replicas if b not in state.original)
    factors = Counter((len(state.original), len(target.replicas)) for target, state in known)
    return PlanSummary(
        partitions=len(pairs),
        unknown=len(pairs) - len(known),
        at_target=sum(at_target(target, state) for target, state in known),
        replica_movements=sum(1 for _ in gained),
        leader_movements=sum(moves_leader(target, state) for target, state in known),
        replication_factor_changes=tuple(
            FactorChange(before, after, count)
            for (before, after), count in sorted(factors.items())
            if before != after
        ),
    )
