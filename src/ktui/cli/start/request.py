"""A run that is wanted: the plan, the cluster as it was found, and what the options say."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.cli.context.target import Target
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.first_events import first_events
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot, Finding
from ktui.planning.plan import Plan
from ktui.planning.preflight.preflight import Preflight, PreflightBase
from ktui.planning.simulate.schedule import OnDecision


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run begins with."""

    name: str
    source: str
    """What the plan's file is called, fit to be shown."""
    plan_name: str
    plan: Plan
    target: Target
    cluster_id: str
    seen: ClusterSnapshot
    findings: tuple[Finding, ...]
    """Of the plan, held against the cluster."""
    limits: Limits
    options: RunOptions
    until: datetime | None
    now: datetime

    def preflight(self, told: OnDecision | None = None) -> Preflight:
        """Work out what it would do; `told` hears of each decision."""
        return PreflightBase(self.plan, self.seen).under(
            self.limits,
            told,
            self.options.throttle,
            throttle_leaders=self.options.throttle_leaders,
        )

    def first_events(self) -> list[AnyRunEvent]:
        """Give what the run's journal begins with."""
        return first_events(
            self.plan,
            self.seen,
            self.limits,
            self.options,
            cluster_id=self.cluster_id,
            plan_name=self.plan_name,
            connection=self.target.names,
        )
