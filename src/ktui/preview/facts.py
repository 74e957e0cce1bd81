"""What a preview rests on: the cluster, read once; and the terms of the run, which may change."""

from __future__ import annotations

import msgspec

from ktui.cluster.permissions import CanaryObstacles, Permissions
from ktui.insights.prior import Prior
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances, ClusterSnapshot, Finding
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates

NOTHING_ALLOWED = Allowances()


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as a plan concerns it, whatever the terms."""

    seen: ClusterSnapshot
    cluster: str = ""
    """The name of the cluster, cleaned for the terminal."""
    cluster_id: str = ""
    permitted: Permissions | None = None
    """What the principal may do; None where nobody asked, or brokers do not tell."""
    obstacles: CanaryObstacles | None = None
    """What keeps a canary from its topic; None where nobody asked."""
    standing: tuple[Finding, ...] = ()
    """What stands against any plan now: a shut gate, another owner, other runs."""
    prior: Prior | None = None
    """What earlier runs on the cluster have shown; None for nothing."""
    throttled_by: str = ""
    """Why no other run may have a throttle, with the run that has one; empty where none has."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms under which a plan is carried out, as far as a preview depends on them."""

    limits: Limits
    throttle: ThrottleRates = NO_THROTTLE
    """The run's own rates."""
    throttle_leaders: bool = False
    allowed: Allowances = NOTHING_ALLOWED
    canary: str = ""
    """The topic of the run's canary; empty for none."""
    chooses_rates: bool = False
    """Whether the run may also choose rates by itself, for --by."""

    @property
    def throttles(self) -> bool:
        """Whether the run may set throttles."""
        return bool(self.throttle) or self.chooses_rates
