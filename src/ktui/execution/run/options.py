"""The options of a run beside its limits; they hold from start to end."""

from __future__ import annotations

import enum

import msgspec

from ktui.execution.run.schedule import NO_SCHEDULE, Schedule
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.objective import Objective, canary_topic, not_measured_by_canary
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.preview.facts import Terms

USUAL_POLL_S = 1.0


class OnStall(enum.StrEnum):
    """What to do with a step whose added broker has been offline for too long."""

    WAIT = "wait"
    """Do nothing: the step keeps its place, and goes on when the broker is back."""
    CANCEL = "cancel"
    """Cancel the step, and free its place."""


class OnForeignChange(enum.StrEnum):
    """What to do with a waiting partition whose replicas someone else has changed."""

    SKIP = "skip"
    REPLAN = "replan"
    """Move the partition to its target from its present replicas."""


class OnForeignThrottle(enum.StrEnum):
    """What to do when somebody else sets another rate on a broker that the run throttles."""

    HOLD = "hold"
    """Add nothing more to that broker until the other rate is gone, or the run's is set again."""
    GO_ON = "go-on"
    """Go on under the other rate."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run deals with trouble, its throttle, and how it polls and records."""

    on_stall: OnStall = OnStall.WAIT
    stall_timeout_s: float = 300.0
    on_foreign_change: OnForeignChange = OnForeignChange.SKIP
    stop_on_failure: bool = False
    """Begin nothing more once a partition has failed."""
    most_under_min_isr: int | None = None
    """Begin no step while more partitions outside the run are under min ISR; None: no check."""
    most_offline: int | None = None
    """Begin no step while more partitions outside the run are offline; None: no check."""
    urgent_first: bool = False
    """Let partitions with too few replicas in sync go before all others, with room of their own."""
    throttle: ThrottleRates = NO_THROTTLE
    """The rates that the run begins with; unlike the other options, they may change."""
    throttle_leaders: bool = False
    """Also throttle the leaders' traffic to replicas out of the ISR, beside the followers' side."""
    on_foreign_throttle: OnForeignThrottle = OnForeignThrottle.HOLD
    schedule: Schedule = NO_SCHEDULE
    """When the steps of the run may begin, to begin with; unlike other options, it may change."""
    sli_command: str = ""
    """The command that prints the figure of an objective; empty for none."""
    sli_prometheus: tuple[str, ...] = ()
    """The URL of a Prometheus and the query that returns the figure; empty for none."""
    canary: bool = False
    """Measure the figure by a producer and a topic of ktui's own."""
    poll_s: float = USUAL_POLL_S
    """Seconds between two polls of the cluster."""
    record: bool = True
    """Record observations of the cluster, beside the journal."""
    on_event: str | None = None
    """The command that gets the notices of the run; empty for none, None for the context's."""
    metrics_file: str = ""
    """The path of the file that has the run's metrics for Prometheus; empty for none."""

    @property
    def throttles(self) -> bool:
        """Whether the run may set throttles: rates are named, or --by chooses one."""
        return bool(self.throttle) or self.schedule.by is not None

    def figure_problem(self, objective: Objective | None) -> str | None:
        """Return why an objective has no figure, with the fix; None where there is no problem."""
        if objective is None:
            return None
        if not (self.sli_command or self.sli_prometheus or self.canary):
            return (
                f"nothing measures the figure of {objective}. Use the canary (--canary), or start "
                "the run with --sli-command CMD or --sli-prometheus URL QUERY"
            )
        if self.canary and objective.percent is None:
            return not_measured_by_canary(objective)
        return None

    def canary_of(self, run: str, rates: ThrottleRates) -> str:
        """Return the topic by which a run measures the objective of rates; empty for none."""
        return canary_topic(run) if self.canary and rates.objective is not None else ""

    def terms(self, limits: Limits, allowed: Allowances, run: str) -> Terms:
        """Return the terms on which a preview of the plan of a run depends.

        Args:
            limits: the limits of the run.
            allowed: what its plan may do.
            run: the name of the run, after which its canary is called.
        """
        return Terms(
            limits=limits,
            throttle=self.throttle,
            throttle_leaders=self.throttle_leaders,
            allowed=allowed,
            canary=self.canary_of(run, self.throttle),
            chooses_rates=self.schedule.by is not None,
        )

    @property
    def gated(self) -> bool:
        """Whether steps depend on the health of the rest of the cluster."""
        return self.most_under_min_isr is not None or self.most_offline is not None
