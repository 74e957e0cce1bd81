"""How many replicas and leaders each broker has before a plan, and after it."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules, at_target
from ktui.planning.plan import Plan


class BrokerShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has of the plan's topics. A topic counts with all its partitions."""

    broker: int
    replicas: int
    gains: int
    """The replicas that the broker gains by the plan; `loses` counts those it gives up."""
    loses: int
    leaders: int
    leaders_after: int

    @property
    def replicas_after(self) -> int:
        """The number of replicas afterwards."""
        return self.replicas + self.gains - self.loses

    @property
    def copies(self) -> bool:
        """Whether the broker gains or loses replicas."""
        return bool(self.gains or self.loses)

    @property
    def changes(self) -> bool:
        """Whether the plan changes anything on the broker."""
        return self.copies or self.leaders != self.leaders_after


def broker_shares(plan: Plan, snapshot: ClusterSnapshot) -> tuple[BrokerShare, ...]:
    """Count replicas and leaders per live broker, and per broker that has or gets a replica.

    A partition that others are moving counts with its replicas from before their move.
    """
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
