"""The rows of the lake that make up a report, and why moves stood still; no Spark. Times in ms."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import msgspec

from ktui.cluster.settings import FETCH_BYTES
from ktui.planning.throttle_rates import BrokerRate
from ktui.progress.memory import STALLED_AFTER_S
from ktui.progress.timeline import Cause

Span = tuple[int, int]  # the beginning and the end of a time, ms since 1970
MINUTE_MS = 60_000
GAP_MS = 60_000  # samples further apart say nothing about the time between them
MOST_CURVES = 8  # lines of a drawing that colours and dashes keep apart
R = TypeVar("R")
K = TypeVar("K")


_LEAST_GAP_MS = 10_000
_MISSED_POLLS = 5  # a gap is at least so many times the usual time between two readings


def usual_ms(times: Iterable[Sequence[int]]) -> float:
    """Return the median time between two readings, of one or several series of them."""
    steps = [after - t for each in times for t, after in pairwise(each)]
    return statistics.median(steps) if steps else 0


def unread(times: Sequence[int], usual: float) -> list[Span]:
    """Return the times without a reading: 10 s and five usual intervals, or a minute and two."""
    least = max(_LEAST_GAP_MS, min(_MISSED_POLLS * usual, max(GAP_MS, 2 * usual)))
    return [(t, after) for t, after in pairwise(times) if after - t > least]


def by_key(rows: Iterable[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    """Group rows by a key; both stay in the order of the rows."""
    found: dict[K, list[R]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


class Partition(msgspec.Struct, frozen=True, gc=False, order=True):
    """The key of a partition; a topic that was deleted and recreated is a different one."""

    topic: str
    partition: int
    topic_id: str = ""


class PartitionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The base of every row about a partition."""

    topic: str
    partition: int
    topic_id: str | None = None

    @property
    def key(self) -> Partition:
        return Partition(self.topic, self.partition, self.topic_id or "")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `runs`; its beginning, plan and version are None where it was not recorded."""

    cluster_id: str
    run: str
    run_id: str
    began: int | None = msgspec.field(name="began_t", default=None)
    ended: int | None = msgspec.field(name="ended_t", default=None)
    partitions: int
    plan: str | None = None
    version: str | None = None
    batches: int
    limit_changes: int
    objective: str | None = None
    windows: int | None = None
    kept: int | None = None
    by: int | None = msgspec.field(name="by_t", default=None)
    late_ms: int | None = None  # from `by` to the run's end; negative if it ended before
    rate_changes: int | None = None


class RateRecord(msgspec.Struct, kw_only=True):
    """A row of `rates`: the rates in force from one event on; times in ms."""

    entry: int
    t: int
    kind: str
    bytes_s: int | None = None  # into each broker that is not in `brokers`; None for no throttle
    brokers: tuple[BrokerRate, ...] = ()
    chosen_by: str | None = None
    in_flight_ms: int = 0
    objective: str | None = None
    figure: float | None = None  # of the last window, of `rate_held`; None without
    reason: str | None = None  # why an event `rate_held` has no figure
    windows: int | None = None
    kept: int | None = None
    ends_at_t: int | None = None  # the end that an event `rate_chosen` expects
    late: bool | None = None

    @property
    def highest(self) -> int | None:
        rates = (self.bytes_s, *(each.bytes_s for each in self.brokers))
        return max((rate for rate in rates if rate is not None), default=None)


class MoveRecord(PartitionRow, frozen=True, gc=False, kw_only=True):
    """A row of `moves`: one partition's move."""

    run: str | None = None
    began: int = msgspec.field(name="began_t")
    ended: int | None = msgspec.field(name="ended_t", default=None)
    outcome: str
    steps: int
    batch: int | None = None
    original: tuple[int, ...] | None = None
    target: tuple[int, ...] | None = None
    bytes: int | None = None
    rate_bytes_p50: float | None = None
    stalls: int | None = None  # None, as the next, where no poll saw it
    stalled_ms: int | None = None
    waited_ms: int = 0  # between its steps, such as for the cut; of its states, no column


def length(move: MoveRecord, end: int) -> int:
    """Return the ms from a move's first step to its end; an open move counts up to `end`."""
    return max(0, (end if move.ended is None else move.ended) - move.began)


def took(move: MoveRecord, end: int) -> int:
    """Return how long a move's steps took, in ms: not the time in which the run held it back."""
    return max(0, length(move, end) - move.waited_ms)


class Interval(PartitionRow, frozen=True, gc=False, kw_only=True):
    """A row of `states`: a partition was in a state from `began` to `ended`."""

    state: str
    began: int = msgspec.field(name="began_t")
    ended: int = msgspec.field(name="ended_t")
    open: bool = False  # whether the interval had not ended when the recording did


class InflowRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The bytes copied to a broker in a bin (a minute in `brokers`), and its throttle in B/s."""

    broker: int
    began: int = msgspec.field(name="minute")
    bytes_in: float | None = None
    follower_throttle: int | None = None


class LogEndRecord(msgspec.Struct, frozen=True, gc=False):
    """The log end offset of one replica."""

    broker: int
    end: int


class ThrottleRecord(msgspec.Struct, frozen=True, gc=False):
    """The throttles of one broker, in bytes a second; None where the broker has none."""

    broker: int
    follower: int | None = None
    leader: int | None = None


class Sample(PartitionRow, frozen=True, gc=False, kw_only=True):
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
        return tuple(broker for broker in self.adding if broker not in self.isr)

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """The replicas that stay, being neither added nor removed, and are not in sync."""
        aside = (*self.isr, *self.adding, *self.removing)
        return tuple(broker for broker in self.replicas if broker not in aside)


class PollRecord(msgspec.Struct, frozen=True, gc=False):
    """A row of `polls`."""

    t: int
    brokers: tuple[int, ...] = ()
    alive: tuple[int, ...] = ()  # the registered brokers that are not fenced


PAUSE, LIMITS, THROTTLE, BROKER, OTHER = "pause", "limits", "throttle", "broker", "run"
"""The kinds of marks."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """Something that happened to a run or a cluster, for the figures over time."""

    t: int
    kind: str
    says: str
    until: int | None = None  # when a pause or a broker's failure was over; or None


class JudgedStall(msgspec.Struct, frozen=True, gc=False):
    """A time in which a move stood still, and the cause."""

    stall: Interval
    cause: Cause
    words: str = ""  # the cause in words; empty where it is unknown


class InFlightCounts(msgspec.Struct, frozen=True, gc=False):
    """The partitions and replicas that one poll saw in flight."""

    t: int
    partitions: int
    replicas: int


class ForecastRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A row of `eta_backtest`: the time left as forecast, and as it really was. In seconds."""

    run_id: str | None = None
    t: int
    share: float | None = None
    left_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    truth_s: float | None = None
    linear_s: float | None = None
    recent_s: float | None = None


FORECASTS_WITH_TRUTH = """
SELECT cluster_id, session, run_id, scope, topic, partition, t, share, left_s, low_s, high_s,
  linear_s, recent_s, (over_t - t) / 1000 AS truth_s
FROM (
  SELECT f.*, CASE WHEN f.scope = 'run' THEN r.ended_t ELSE c.ended_t END AS over_t
  FROM forecasts AS f
  LEFT JOIN caught_up AS c ON c.cluster_id = f.cluster_id AND c.session = f.session
    AND c.topic = f.topic AND c.partition = f.partition AND c.since = f.since
  LEFT JOIN (
    SELECT cluster_id, run_id, ended_t FROM runs
    WHERE ended_t IS NOT NULL AND outcomes['done'] = partitions
  ) AS r ON r.cluster_id = f.cluster_id AND r.run_id = f.run_id
) AS ended
WHERE over_t >= t AND EXISTS (
  SELECT 1 FROM polls AS p
  WHERE NOT p.shadowed AND p.cluster_id = ended.cluster_id AND p.session = ended.session
    AND p.seq = ended.seq
)
"""
"""The one rule by which DuckDB and Spark compare forecasts with what happened.

It yields ETA_BACKTEST without `at`, and `session`, of polls that are not shadowed, and of runs and
copies that ended (a run: with every partition done).
"""


class WhatIf(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A row of `what_if`: how long the run would have taken under other limits. In seconds."""

    run_id: str
    limits: str  # as JSON
    throttle: str
    own: bool = False
    driven_by: str | None = None  # of its own row: by, objective, or both
    predicted_s: float
    low_s: float
    high_s: float
    actual_s: float | None = None
    disturbed: tuple[str, ...] | None = None  # of its own row: what the model does not have of it
    error_held_out: float | None = None
    recommended: bool = False
    reason: str | None = None
    record: str | None = None  # options of `ktui start` to record a run, to know more
    assumed: tuple[str, ...] | None = None
    beyond: tuple[str, ...] | None = None  # why not recommended: what to record first

    @property
    def has_prediction(self) -> bool:
        """Whether to show the time: recordings cover these limits, or they are the run's own."""
        return self.own or not self.beyond


class LimitsSince(msgspec.Struct, frozen=True):
    """Limits in force from time `t` on; None is no limit."""

    t: int
    partitions: int | None
    replica_movements: int | None


class ReportFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All facts of a report."""

    cluster_id: str
    runs: tuple[RunRecord, ...]  # the run that the report is about, or all runs of the cluster
    of_run: bool
    moves: tuple[MoveRecord, ...] = ()
    intervals: tuple[Interval, ...] = ()
    gaps: tuple[Span, ...] = ()  # the times within the span that no poll shows, in order
    idle: tuple[Span, ...] = ()  # the long times in which nothing moved or happened, in order
    marks: tuple[Mark, ...] = ()
    inflow: tuple[InflowRecord, ...] = ()
    inflow_ms: int = 60_000  # the length of the bins of `inflow`
    in_flight: tuple[InFlightCounts, ...] = ()
    limits: tuple[LimitsSince, ...] = ()
    rates: tuple[RateRecord, ...] = ()  # in order of time; none in a cluster's report
    slowest: tuple[Sample, ...] = ()
    stalls: tuple[JudgedStall, ...] = ()
    guesses: tuple[ForecastRecord, ...] = ()
    what_ifs: tuple[WhatIf, ...] = ()

    @cached_property
    def span(self) -> Span:
        times = [move.began for move in self.moves]
        times += [interval.ended for interval in self.intervals]
        times += [move.ended for move in self.moves if move.ended is not None]
        times += [t for run in self.runs for t in (run.began, run.ended) if t is not None]
        return (min(times), max(times)) if times else (0, 0)

    @property
    def active_ms(self) -> int:
        """The length of the span without the idle times in it, at least 1 ms."""
        began, ended = self.span
        return max(1, ended - began - sum(to - since for since, to in self.idle))


BETWEEN = "between steps"
STALLED, IN_SYNC = "stalled", "in sync"
STALLED_AFTER_MS = int(STALLED_AFTER_S * 1000)
"""Missing replicas that have not grown for so long stall their partition. A move is expected to end
within this time once all replicas that it adds are in sync."""
LOOKED_AT_MS = 60_000
"""The cause of a stall is sought in the samples from its first so many milliseconds."""

MOST_TELLING = (
    Cause.TARGET_DOWN,
    Cause.LOG_DIR_OFFLINE,
    Cause.KEPT_OUT_OF_SYNC,
    Cause.NO_LEADER,
    Cause.THROTTLED,
    Cause.NOT_FETCHING,
    Cause.UNKNOWN,
)
"""All causes, the most telling one first."""


def stalls(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the spans in which moves stood still: `stalled`, or `in sync` for over 30 seconds."""
    for one in intervals:
        is_held = one.state == IN_SYNC and one.ended - one.began > STALLED_AFTER_MS
        if one.state == STALLED or is_held:
            yield one


def cause_window(stall: Interval) -> tuple[int, int]:
    """Return the span whose samples show the cause: ms since 1970, the end exclusive."""
    return stall.began, max(min(stall.ended, stall.began + LOOKED_AT_MS), stall.began + 1)


def cause_of(samples: Iterable[Sample]) -> tuple[Cause, str]:
    """Return the most telling cause in samples of a stall's `cause_window`, and its words."""
    return min(map(cause_in, samples), key=_priority, default=(Cause.UNKNOWN, ""))


def cause_in(sample: Sample) -> tuple[Cause, str]:
    """Return the cause that one sample of a stalled partition shows, and that cause in words.

    A sample does not show whether its topic's throttled replica list lets a throttle bind. So a
    copy counts as not fetched only where no rate that could bind it is set.
    """
    down = [broker for broker in sample.missing if broker in sample.down]
    if down:
        return Cause.TARGET_DOWN, f"broker {down[0]} was down"
    offline = [broker for broker in sample.missing if broker in sample.offline]
    if offline:
        return Cause.LOG_DIR_OFFLINE, f"a log dir of broker {offline[0]} was offline"
    if not sample.described:
        return Cause.UNKNOWN, ""
    if not sample.missing:
        return _cause_of_held(sample)
    if sample.leader is None:
        return Cause.NO_LEADER, "there was no leader to copy from"
    return _cause_of_copies(sample, sample.leader)


def _priority(judged: tuple[Cause, str]) -> tuple[int, bool]:
    cause, words = judged
    return MOST_TELLING.index(cause), not words


def _cause_of_held(sample: Sample) -> tuple[Cause, str]:
    if not sample.out_of_sync:
        return Cause.UNKNOWN, "all in sync, yet not completed"
    broker = sample.out_of_sync[0]
    down = " and down" if broker in sample.down else ""
    return Cause.KEPT_OUT_OF_SYNC, f"broker {broker} was out of the ISR{down}"


def _cause_of_copies(sample: Sample, leader: int) -> tuple[Cause, str]:
    ends = {reading.broker: reading.end for reading in sample.ends}
    known = [broker for broker in sample.missing if broker in ends and leader in ends]
    behind = [broker for broker in known if ends[broker] < ends[leader]]
    if known == list(sample.missing) and not behind:
        return Cause.KEPT_OUT_OF_SYNC, f"broker {known[0]} had all, and was not in the ISR"
    rates = _rates(sample, leader)
    for broker, rate in rates:
        # one fetch at this rate takes longer than the time after which a copy counts as stalled
        if rate * STALLED_AFTER_S < FETCH_BYTES:
            return Cause.THROTTLED, f"the throttle of broker {broker} was {rate:,} B/s"
    if behind and not rates:
        return Cause.NOT_FETCHING, f"broker {behind[0]} did not fetch from {leader}"
    return Cause.UNKNOWN, ""


def _rates(sample: Sample, leader: int) -> list[tuple[int, int]]:
    found = [(r.broker, r.follower) for r in sample.rates if r.broker in sample.missing]
    found += [(r.broker, r.leader) for r in sample.rates if r.broker == leader]
    return [(broker, rate) for broker, rate in found if rate is not None]
