"""The rows of the lake that a report is made of. Times are milliseconds since 1970, UTC."""

from __future__ import annotations

from functools import cached_property

import msgspec


class Partition(msgspec.Struct, frozen=True, gc=False, order=True):
    """Which partition; a topic that was made anew is another one."""

    topic: str
    partition: int
    topic_id: str = ""


class OfPartition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What every row about a partition says."""

    topic: str
    partition: int
    topic_id: str | None = None

    @property
    def key(self) -> Partition:
        """The partition."""
        return Partition(self.topic, self.partition, self.topic_id or "")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `runs`."""

    cluster_id: str
    run: str
    run_id: str
    began: int = msgspec.field(name="began_t")
    ended: int | None = msgspec.field(name="ended_t", default=None)
    partitions: int
    plan: str
    version: str
    batches: int
    limit_changes: int


class MoveRecord(OfPartition, frozen=True, gc=False, kw_only=True):
    """A row of `moves`: one partition's move."""

    run: str | None = None
    began: int = msgspec.field(name="began_t")
    ended: int | None = msgspec.field(name="ended_t", default=None)
    """None while it has not."""
    outcome: str
    steps: int
    batch: int | None = None
    original: tuple[int, ...] | None = None
    target: tuple[int, ...] | None = None
    bytes: int | None = None
    rate_bytes_p50: float | None = None
    stalls: int = 0
    stalled_ms: int = 0


class Interval(OfPartition, frozen=True, gc=False, kw_only=True):
    """A row of `states`: a partition was in a state from `began` to `ended`."""

    state: str
    began: int = msgspec.field(name="began_t")
    ended: int = msgspec.field(name="ended_t")
    open: bool = False
    """Whether it had not ended when the recording did."""


class Minute(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A row of `brokers`: what one broker took in and gave in a minute."""

    broker: int
    minute: int
    bytes_in: float | None = None
    follower_throttle: int | None = None


class LogEndRecord(msgspec.Struct, frozen=True, gc=False):
    """The log end offset of one replica."""

    broker: int
    end: int


class ThrottleRecord(msgspec.Struct, frozen=True, gc=False):
    """The throttles of one broker, in bytes a second; None where it has none."""

    broker: int
    follower: int | None = None
    leader: int | None = None


class Sample(OfPartition, frozen=True, gc=False, kw_only=True):
    """A row of `samples`: one partition as one poll saw it."""

    t: int
    leader: int | None = None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    described: bool = True
    ends: tuple[LogEndRecord, ...] = ()
    rates: tuple[ThrottleRecord, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas that are being added and are not in sync."""
        return tuple(broker for broker in self.adding if broker not in self.isr)

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """The replicas that are to stay and are not in sync."""
        aside = (*self.isr, *self.adding, *self.removing)
        return tuple(broker for broker in self.replicas if broker not in aside)


class InFlight(msgspec.Struct, frozen=True, gc=False):
    """How much one poll saw under way."""

    t: int
    partitions: int
    replicas: int


class Guess(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A row of `eta_backtest`: the time left as it was told, and as it came to be. Seconds."""

    run_id: str | None = None
    t: int
    share: float | None = None
    left_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    truth_s: float | None = None
    linear_s: float | None = None
    recent_s: float | None = None


class WhatIf(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A row of `what_if`: how long the run would have taken under other limits. Seconds."""

    run_id: str
    limits: str
    """JSON."""
    throttle: str
    """As `--throttle` takes it."""
    own: bool = False
    """Whether the run was carried out so."""
    predicted_s: float
    low_s: float
    high_s: float
    actual_s: float | None = None
    error_held_out: float | None = None
    recommended: bool = False
    reason: str | None = None
    beyond: tuple[str, ...] | None = None
    """Why it is not recommended: what would have to be recorded."""

    @property
    def foretold(self) -> bool:
        """Whether its time is told: it is within what was recorded, or the run really had it."""
        return self.own or not self.beyond


class LimitsFrom(msgspec.Struct, frozen=True):
    """Limits that were in force from a moment on; None is no limit."""

    t: int
    partitions: int | None
    replica_movements: int | None


class ReportFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that a report tells of."""

    cluster_id: str
    runs: tuple[RunRecord, ...]
    """The one that the report is about, or all of the cluster."""
    of_run: bool
    moves: tuple[MoveRecord, ...] = ()
    intervals: tuple[Interval, ...] = ()
    """Of the moves' partitions, each partition in one state at a time."""
    minutes: tuple[Minute, ...] = ()
    in_flight: tuple[InFlight, ...] = ()
    limits: tuple[LimitsFrom, ...] = ()
    slowest: tuple[Sample, ...] = ()
    """Of the moves that took longest."""
    stalled: tuple[Sample, ...] = ()
    """Within the stalls that lasted longest."""
    guesses: tuple[Guess, ...] = ()
    what_ifs: tuple[WhatIf, ...] = ()

    @cached_property
    def span(self) -> tuple[int, int]:
        """From when to when something moved."""
        times = [move.began for move in self.moves]
        times += [interval.ended for interval in self.intervals]
        times += [move.ended for move in self.moves if move.ended is not None]
        times += [t for run in self.runs for t in (run.began, run.ended or run.began)]
        return (min(times), max(times)) if times else (0, 0)
