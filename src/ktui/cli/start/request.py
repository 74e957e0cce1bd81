"""The request for a new run: its plan, the cluster as found, and the options."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.cli.context.cluster import Target
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.first_events import first_events
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot, Finding
from ktui.planning.plan import Plan
from ktui.preview.preflight import Preflight, PreflightBase
from ktui.speed.capacity import Capacity
from ktui.speed.simulate import OnDecision


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a new run needs."""

    name: str
    source: str
    """The name of the plan's file, cleaned for the terminal."""
    plan_name: str
    plan: Plan
    target: Target
    cluster_id: str
    seen: ClusterSnapshot
    findings: tuple[Finding, ...]
    """The findings of the plan's check against the cluster."""
    slow: bool = False
    """Whether rates under which no copy ends are allowed."""
    limits: Limits
    options: RunOptions
    until: datetime | None
    now: datetime
    known: Capacity
    """What is known of the speed of copies."""

    def preflight(self, on_decision: OnDecision | None = None) -> Preflight:
        """Simulate the run. `on_decision` is called with each decision."""
        return PreflightBase(self.plan, self.seen, self.known).under(
            self.limits,
            on_decision,
            self.options.throttle,
            throttle_leaders=self.options.throttle_leaders,
            slow=self.slow,
        )

    def first_events(self) -> list[AnyRunEvent]:
        """Return the events that the run's journal begins with."""
        return first_events(
            self.plan,
            self.seen,
            self.limits,
            self.options,
            cluster_id=self.cluster_id,
            plan_name=self.plan_name,
            connection=self.target.names,
        )
