"""What a preview rests on: the cluster, read once; the plan in figures; the terms of the run."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.cluster.permissions import CanaryObstacles, Permissions
from ktui.insights import Prior
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances, ClusterSnapshot, Finding
from ktui.planning.check.rules import PlanRules, at_target, moves_leader
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates

NOTHING_ALLOWED = Allowances()


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as a plan concerns it, whatever the terms."""

    seen: ClusterSnapshot
    cluster: str = ""
    cluster_id: str = ""
    permitted: Permissions | None = None  # None where nobody asked, or brokers do not tell
    obstacles: CanaryObstacles | None = None  # to a canary; None where nobody asked
    standing: tuple[Finding, ...] = ()  # against any plan now: a gate, an owner, other runs
    prior: Prior | None = None
    throttled_by: str = ""  # why no other run may have a throttle; empty where one may


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms under which a plan is carried out, as far as a preview depends on them."""

    limits: Limits
    throttle: ThrottleRates = NO_THROTTLE
    throttle_leaders: bool = False
    allowed: Allowances = NOTHING_ALLOWED
    canary: str = ""  # the topic of the run's canary; empty for none
    chooses_rates: bool = False  # whether the run may also choose rates by itself, for --by

    @property
    def throttles(self) -> bool:
        return bool(self.throttle) or self.chooses_rates


class FactorChange(msgspec.Struct, frozen=True):
    """The number of partitions that change from one replication factor to another."""

    before: int = msgspec.field(name="from")
    after: int = msgspec.field(name="to")
    partitions: int


class PlanSummary(msgspec.Struct, frozen=True):
    """The plan in figures. Partitions that others are moving count as before their move."""

    partitions: int
    unknown: int  # partitions that the cluster does not show; not in the rest
    at_target: int
    replica_movements: int
    leader_movements: int  # partitions with a leader that are to be led by another broker
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


class BrokerShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has of the plan's topics. A topic counts with all its partitions."""

    broker: int
    replicas: int
    gains: int  # the replicas that the broker gains by the plan, as `loses`
    loses: int
    leaders: int
    leaders_after: int

    @property
    def replicas_after(self) -> int:
        return self.replicas + self.gains - self.loses

    @property
    def copies(self) -> bool:
        return bool(self.gains or self.loses)

    @property
    def changes(self) -> bool:
        return self.copies or self.leaders != self.leaders_after


def broker_shares(plan: Plan, snapshot: ClusterSnapshot) -> tuple[BrokerShare, ...]:
    """Count replicas and leaders per live broker, and per broker that has or gets a replica."""
    rules = PlanRules(snapshot)
    targets = {target.tp: target for target in plan.partitions}
    before, gains, loses = Counter[int](), Counter[int](), Counter[int]()
    leaders, leaders_after = Counter[int](), Counter[int]()
    for tp in snapshot.partitions:
        state = rules.state(tp)
        if state is None:
            continue
        before.update(state.original)
        led_by = () if state.leader is None else (state.leader,)
        leaders.update(led_by)
        target = targets.get(tp)
        if target is None or at_target(target, state):
            leaders_after.update(led_by)
            continue
        gains.update({*target.replicas} - {*state.original})
        loses.update({*state.original} - {*target.replicas})
        leaders_after[target.replicas[0]] += 1
    brokers = snapshot.online | before.keys() | gains.keys()
    return tuple(
        BrokerShare(
            broker=broker,
            replicas=before[broker],
            gains=gains[broker],
            loses=loses[broker],
            leaders=leaders[broker],
            leaders_after=leaders_after[broker],
        )
        for broker in sorted(brokers)
    )
