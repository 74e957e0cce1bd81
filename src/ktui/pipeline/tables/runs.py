"""The story of each run by its events, and the tables that follow; see docs/pipeline-tables.md."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.cluster.partition import TopicPartition
from ktui.execution.run import events
from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import FLOOR, ThrottleLedger
from ktui.pipeline.lake.engine import schema_on
from ktui.pipeline.lake.records import BETWEEN, RateRecord
from ktui.pipeline.lake.schema import (
    TEXT,
    column,
    columns_of,
    fit_to_table,
    require_columns,
    struct_of,
)
from ktui.pipeline.lake.tables import BATCHES, RATES, RUN_EVENTS, RUNS
from ktui.pipeline.tables.listings import PARTITION, as_timestamp, left_join_null_safe
from ktui.planning.throttle_rates import BrokerRate
from ktui.recording.segments import from_wall_ms, wall_ms

_SETS_RATES = (
    events.Started,
    events.ThrottleChanged,
    events.ScheduleChanged,
    events.BudgetShared,
    events.RateChosen,
    events.RateHeld,
)


class RateChooser(enum.StrEnum):
    """The person or the promise whose rate is in force."""

    OPERATOR = "operator"
    BUDGET = "budget"
    BY = "by"
    OBJECTIVE = "objective"


class RunRates:
    """Collects the rates of one run. Without the run's start, nothing is known of them."""

    def __init__(self) -> None:
        self.rows: list[RateRecord] = []
        self.changes = 0
        """How often the rates in force have changed since the run's start."""
        self._last_t = 0

    def pass_time(self, run: Run, t: int) -> None:
        """Count the time until the next event, before the run applies it."""
        if self.rows and run.in_flight:
            self.rows[-1].in_flight_ms += max(0, t - self._last_t)
        self._last_t = max(self._last_t, t)

    def note(self, run: Run, entry: events.JournalEntry, t: int) -> None:
        event, ledger = entry.event, run.throttled
        if run.started is None or not isinstance(event, _SETS_RATES):
            return
        row = RateRecord(
            entry=entry.seq,
            t=t,
            kind=str(event.__struct_config__.tag),
            bytes_s=ledger.in_force.every,
            brokers=ledger.in_force.brokers,
            chosen_by=rate_chooser(ledger),
            objective=None if ledger.rates.objective is None else str(ledger.rates.objective),
        )
        if isinstance(event, events.RateHeld):
            row.figure, row.windows, row.kept = event.figure, event.windows, event.kept
            row.reason = event.reason if event.figure is None else None
        elif isinstance(event, events.RateChosen):
            row.ends_at_t, row.late = wall_ms(event.ends_at), event.late
        if self.rows and _rates(self.rows[-1]) != _rates(row):
            self.changes += 1
        self.rows.append(row)


def _rates(row: RateRecord) -> tuple[int | None, tuple[BrokerRate, ...]]:
    return row.bytes_s, row.brokers


def rate_chooser(ledger: ThrottleLedger) -> RateChooser | None:
    """Return whose rate is the lowest; single brokers' only where there is no other; or None."""
    wanted, chosen, held = ledger.rates, ledger.chosen, ledger.held_at
    budget, allowed = wanted.budget, FLOOR if held is None else held.rate
    rates = {
        RateChooser.OPERATOR: wanted.every,
        RateChooser.BUDGET: budget and min(ledger.shares.values(), default=budget),
        RateChooser.BY: None if chosen is None else chosen.rate,
        RateChooser.OBJECTIVE: None if wanted.objective is None else allowed,
    }
    known = {source: rate for source, rate in rates.items() if rate is not None}
    if not known and any(each.bytes_s is not None for each in wanted.brokers):
        return RateChooser.OPERATOR
    return min(known, key=lambda source: known[source], default=None)


QUEUED = "queued"
ELECTING = "electing"
UNKNOWN = "unknown"  # the outcome of a partition whose plan was not recorded


class StepSpan(msgspec.Struct):
    """A step of a partition, from its intent to its end; times in ms."""

    batch: int
    alters: bool
    elects: bool
    t: int
    over_t: int | None = None


class Wait(msgspec.Struct, frozen=True):
    """A span in which a partition was queued, electing, or between steps; times in ms."""

    state: str
    began_t: int
    ended_t: int
    open: bool = False  # whether it was not over at the run's last event


class PartitionFacts(msgspec.Struct):
    """One partition of a run. Where the plan was not recorded, it has no replicas."""

    topic: str
    partition: int
    topic_id: str | None = None
    outcome: str = UNKNOWN
    original: Sequence[int] | None = None
    target: Sequence[int] | None = None
    limits: str | None = None  # the limits in force at the partition's first step, as JSON
    ended_t: int | None = None  # of its last step, or of the work after that step
    steps: list[StepSpan] = []
    waits: list[Wait] = []


class RunFacts(msgspec.Struct):
    """One run. Facts that its recorded events do not contain are None."""

    run: str
    began_t: int | None
    ended_t: int | None
    plan: str | None
    version: str | None
    limit_changes: int
    objective: str | None
    windows: int | None  # those with copies; `kept`: those with a figure that kept it
    kept: int | None
    by_t: int | None
    rate_changes: int | None
    outcomes: dict[str, int]
    partitions: list[PartitionFacts]
    rates: list[RateRecord]


class RunStory:
    """Builds the story of one run: feed the events in order to `take`, then call `facts`."""

    def __init__(self, name: str) -> None:
        self._run = Run(name)
        self._of: dict[TopicPartition, PartitionFacts] = {}
        self._waiting: dict[TopicPartition, dict[str, int]] = {}
        self._unfolded: set[TopicPartition] = set()
        """Partitions of plans that the fold does not have yet."""
        self._planned: set[TopicPartition] = set()
        self._limits_known = False
        self._limit_changes = 0
        self._rates = RunRates()
        self._began_t: int | None = None
        self._ended_t: int | None = None
        self._last_t = 0

    def take(self, entry: events.JournalEntry, t: int) -> None:
        """Add the next event; one about a partition without a recorded plan is not folded."""
        event, self._last_t = entry.event, t
        tps = _partitions_of(event)
        self._rates.pass_time(self._run, t)
        if all(tp in self._run.tracks for tp in tps):
            self._run.apply(entry)
            self._rates.note(self._run, entry, t)
        elif isinstance(event, events.CancelAsked | events.Joined):
            return
        self._note_run(event, t)
        self._note_partitions(event, t)
        for tp in tps:
            self._settle(tp, t)

    def _note_run(self, event: events.AnyRunEvent, t: int) -> None:
        match event:
            case events.Started():
                self._began_t, self._limits_known = t, True
            case events.LimitsChanged():
                self._limit_changes += 1
                self._limits_known = True
            case events.PlannedPart():
                self._queue_planned(event, t)
            case events.Ended():
                self._ended_t = t
                for tp in self._waiting:
                    self._end_wait(tp, QUEUED, t)

    def _note_partitions(self, event: events.AnyRunEvent, t: int) -> None:
        match event:
            case events.StepBegun():
                self._begin_step(event, t)
            case events.Elect():
                self._wait(event.tp, ELECTING, t)
            case events.StepOver():
                self._end_wait(event.tp, ELECTING, t)
                self._end_steps(event.tp, t)
                self._wait(event.tp, BETWEEN, t)
            case events.StateEntered():
                self._end_wait(event.tp, ELECTING, t)
                if event.state.ended:
                    self._end_steps(event.tp, t)
                    self._end_waits(event.tp, t)
            case events.Joined():
                for tp in event.partitions:
                    self._forget_between(tp)
                    self._wait(tp, QUEUED, t)

    def _queue_planned(self, event: events.PlannedPart, t: int) -> None:
        """Queue the planned partitions that the fold has by now (of an extra plan, all at once)."""
        self._unfolded.update(planned.tp for planned in event.partitions)
        folded = self._unfolded & self._run.tracks.keys()
        self._unfolded -= folded
        for tp in folded - self._planned:
            self._wait(tp, QUEUED, t)
        self._planned |= folded

    def _begin_step(self, event: events.StepBegun, t: int) -> None:
        facts = self._facts(event.tp)
        if not facts.steps and self._limits_known:
            limits = msgspec.json.encode(self._run.limits, order="deterministic")
            facts.limits = limits.decode()
        facts.steps.append(StepSpan(event.batch, event.alters, event.elect is not None, t))
        facts.ended_t = None
        self._end_wait(event.tp, QUEUED, t)
        self._end_wait(event.tp, BETWEEN, t)

    def _end_steps(self, tp: TopicPartition, t: int) -> None:
        facts = self._facts(tp)
        facts.ended_t = t
        for step in reversed(facts.steps):
            if step.over_t is not None:
                break
            step.over_t = t

    def _settle(self, tp: TopicPartition, t: int) -> None:
        track = self._run.tracks.get(tp)
        if track is not None and track.state.ended:
            self._end_waits(tp, t)

    def _end_waits(self, tp: TopicPartition, t: int) -> None:
        self._end_wait(tp, QUEUED, t)
        self._forget_between(tp)

    def _facts(self, tp: TopicPartition) -> PartitionFacts:
        return self._of.setdefault(tp, PartitionFacts(tp.topic, tp.partition))

    def _wait(self, tp: TopicPartition, state: str, t: int) -> None:
        self._waiting.setdefault(tp, {}).setdefault(state, t)

    def _forget_between(self, tp: TopicPartition) -> None:
        self._waiting.get(tp, {}).pop(BETWEEN, None)

    def _end_wait(self, tp: TopicPartition, state: str, t: int, *, is_open: bool = False) -> None:
        began_t = self._waiting.get(tp, {}).pop(state, None)
        if began_t is not None:
            wait = Wait(state, began_t, max(began_t, t), is_open)
            self._facts(tp).waits.append(wait)

    def facts(self) -> RunFacts:
        for tp in self._waiting:
            self._end_wait(tp, QUEUED, self._last_t, is_open=True)
            self._end_wait(tp, ELECTING, self._last_t, is_open=True)
        run, started = self._run, self._run.started
        objective, held = run.throttled.rates.objective, run.throttled.held_at
        by = run.schedule.by
        return RunFacts(
            run=run.name,
            began_t=self._began_t,
            ended_t=self._ended_t if run.ended else None,
            plan=started.plan if started else None,
            version=started.version if started else None,
            limit_changes=self._limit_changes,
            objective=None if objective is None else str(objective),
            windows=None if objective is None or held is None else held.windows,
            kept=None if objective is None or held is None else held.kept,
            by_t=None if by is None else wall_ms(by),
            rate_changes=None if started is None else self._rates.changes,
            outcomes={state.value: count for state, count in run.counts.items() if count},
            partitions=list(self._partitions()),
            rates=self._rates.rows,
        )

    def _partitions(self) -> Iterable[PartitionFacts]:
        for tp in {**self._run.tracks, **self._of}:
            facts, track = self._facts(tp), self._run.tracks.get(tp)
            if track is not None:
                facts.topic_id = track.planned.topic_id
                facts.outcome = track.state.value
                facts.original = track.planned.original
                facts.target = track.planned.target
                facts.ended_t = facts.ended_t if track.state.ended else None
            yield facts


def _partitions_of(event: events.AnyRunEvent) -> Sequence[TopicPartition]:
    if isinstance(event, events.CancelAsked | events.Joined):
        return event.partitions
    tp = getattr(event, "tp", None)
    return () if tp is None else (tp,)


FOLDS = struct_of(column("cluster_id", TEXT), column("run_id", TEXT), *columns_of(RunFacts))
"""The rows of `run_folds`: a `RunFacts` per run, with its cluster and run id."""

_NEEDED = ("cluster_id", "run_id", "run", "entry", "t", "event")


def run_folds(run_events: DataFrame) -> DataFrame:
    """Fold the events of each run, in the executors and with ktui's own code, into `FOLDS`."""
    events = require_columns(run_events, RUN_EVENTS, _NEEDED).select(*_NEEDED)
    return events.groupBy("cluster_id", "run_id").applyInArrow(_folded(), schema_on(events, FOLDS))


def _folded() -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    schema = to_arrow_schema(FOLDS)

    def folded(key: tuple[pa.Scalar, ...], events: pa.Table) -> pa.Table:
        cluster_id, run_id = (part.as_py() for part in key)
        facts = fold(events.sort_by("entry").to_pylist())
        row = {"cluster_id": cluster_id, "run_id": run_id, **msgspec.to_builtins(facts)}
        with suppress(pa.ArrowException, OverflowError):  # figures that no real cluster has
            return pa.Table.from_pylist([row], schema)
        return schema.empty_table()

    return folded


def fold(rows: Sequence[Mapping[str, Any]]) -> RunFacts:
    """Fold one run's rows of `run_events`, without those that are unreadable or do not fit."""
    story = RunStory(rows[0]["run"])
    for row in rows:
        with suppress(Exception):  # recordings are untrusted; one bad run must not stop the others
            event = decode(row["event"].encode())
            story.take(JournalEntry(row["entry"], from_wall_ms(row["t"]), event), row["t"])
    return story.facts()


def partitions(folds: DataFrame) -> DataFrame:
    """Select the partitions of all runs: `cluster_id`, `run`, `run_id`, and the facts of each."""
    return folds.select("cluster_id", "run", "run_id", F.inline("partitions"))


def steps(folds: DataFrame) -> DataFrame:
    """Select the steps of all runs: `PARTITION`, `run`, `run_id`, and the facts of each."""
    return partitions(folds).select(*PARTITION, "run", "run_id", F.inline("steps"))


def with_run(rows: DataFrame, folds: DataFrame, t: str) -> DataFrame:
    """Add `run` and `run_id` of the step begun last at the time `t` (ms); null without one."""
    began = F.struct((-F.col("t")).alias("minus_t"), "run_id", "run", "t", "over_t")
    of_partition = steps(folds).groupBy(*PARTITION).agg(F.collect_list(began).alias("began"))
    under_way = F.filter(
        "began",
        lambda step: (step.t <= F.col(t)) & F.coalesce(step.over_t >= F.col(t), F.lit(col=True)),
    )
    latest = F.array_min(under_way)
    return (
        left_join_null_safe(rows, of_partition, PARTITION)
        .withColumns({"run": latest.run, "run_id": latest.run_id})
        .drop("began")
    )


def batches(folds: DataFrame) -> DataFrame:
    """Sum up the steps of each decision."""
    all_over = F.bool_and(F.col("over_t").isNotNull())
    rows = (
        steps(folds)
        .groupBy("cluster_id", "run", "run_id", "batch")
        .agg(
            F.min("t").alias("began_t"),
            F.when(all_over, F.max("over_t")).alias("ended_t"),
            F.count_distinct("topic", "partition").alias("partitions"),
            F.count("*").alias("steps"),
            F.count_if("alters").alias("alters"),
            F.count_if("elects").alias("elections"),
        )
    )
    return fit_to_table(
        rows.withColumns({"began": as_timestamp("began_t"), "ended": as_timestamp("ended_t")}),
        BATCHES,
    )


def runs(folds: DataFrame) -> DataFrame:
    """Sum up each run as of its last recorded event."""
    steps = F.flatten("partitions.steps")
    planned = F.aggregate(
        F.map_values("outcomes"), F.lit(0).cast("long"), lambda sum_, count: sum_ + count
    )
    rows = folds.withColumns(
        {
            "began": as_timestamp("began_t"),
            "ended": as_timestamp("ended_t"),
            "by": as_timestamp("by_t"),
            "late_ms": F.col("ended_t") - F.col("by_t"),
            "batches": F.size(F.array_distinct(F.transform(steps, lambda step: step.batch))),
            "steps": F.size(steps),
            "partitions": planned,
        }
    )
    return fit_to_table(rows, RUNS)


def rates(folds: DataFrame) -> DataFrame:
    """List the rates of each run over time."""
    rows = folds.select("cluster_id", "run", "run_id", F.inline("rates"))
    return fit_to_table(
        rows.withColumns({"at": as_timestamp("t"), "ends_at": as_timestamp("ends_at_t")}), RATES
    )
