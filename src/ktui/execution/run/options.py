"""What an operator chose for a run beside its limits; it holds from start to end."""

from __future__ import annotations

import enum

import msgspec

from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates


class OnStall(enum.StrEnum):
    """What to do with a step whose added broker has been offline for too long."""

    WAIT = "wait"
    """Nothing: it keeps its place, and goes on when the broker is back."""
    CANCEL = "cancel"
    """Cancel the step, and free its place."""


class OnForeignChange(enum.StrEnum):
    """What to do with a waiting partition that someone else gave other replicas."""

    SKIP = "skip"
    REPLAN = "replan"
    """Carry it to its target from where it is now."""


class OnForeignThrottle(enum.StrEnum):
    """What to do when somebody else sets another rate on a broker that the run throttles."""

    HOLD = "hold"
    """Add nothing more to that broker until their rate is gone, or the run's is set again."""
    GO_ON = "go-on"
    """Go on under their rate."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run behaves when things go otherwise."""

    on_stall: OnStall = OnStall.WAIT
    stall_timeout_s: float = 300.0
    on_foreign_change: OnForeignChange = OnForeignChange.SKIP
    stop_on_failure: bool = False
    """Begin nothing more once a partition has failed."""
    most_under_min_isr: int | None = None
    """Take no step while more partitions outside the run are under min ISR; None asks nothing."""
    most_offline: int | None = None
    """Take no step while more partitions outside the run are offline; None asks nothing."""
    throttle: ThrottleRates = NO_THROTTLE
    """The rates that the run begins with; they may change, unlike all else here."""
    throttle_leaders: bool = False
    """Throttle what leaders send to replicas out of the ISR, too, beside what followers take."""
    on_foreign_throttle: OnForeignThrottle = OnForeignThrottle.HOLD
    poll_s: float = 1.0
    """Seconds between two looks at the cluster."""
    record: bool = True
    """Record what is seen of the cluster, beside the journal."""

    @property
    def gated(self) -> bool:
        """Whether the health of the rest of the cluster is asked for."""
        return self.most_under_min_isr is not None or self.most_offline is not None
