"""Load the facts of a report from the lake: few samples are read, all others are only counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import pyarrow.compute as pc

from ktui.execution.run import events
from ktui.pipeline.lake.records import (
    ForecastRecord,
    InFlightCounts,
    Interval,
    LimitsSince,
    Minute,
    MoveRecord,
    Partition,
    PartitionRow,
    RateRecord,
    ReportFacts,
    RunRecord,
    Sample,
    WhatIf,
)
from ktui.pipeline.report.data.lake import Tables, counts_by_poll, records
from ktui.pipeline.report.data.subject import Subject
from ktui.pipeline.report.figures.lag import MOST as MOST_CURVES
from ktui.pipeline.report.figures.moves import length
from ktui.pipeline.report.figures.stalls import longest_stalls
from ktui.pipeline.tables.stall_cause import cause_window

_POINTS = 400
"""The approximate number of samples to read for a move."""
_MINUTE_MS = 60_000


def load_facts(tables: Tables, subject: Subject) -> ReportFacts:
    """Read all facts of a report."""
    moves = records(tables, "moves", MoveRecord, subject.where())
    seen = records(tables, "states", Interval, subject.where())
    facts = ReportFacts(
        cluster_id=subject.cluster_id,
        runs=(subject.run,) if subject.run else tuple(_runs(tables, subject)),
        of_run=subject.run is not None,
        moves=tuple(moves),
        intervals=tuple(without_overlaps(seen)),
        limits=tuple(_limits(tables, subject)),
        rates=tuple(_rates(tables, subject)),
        guesses=tuple(
            records(
                tables,
                "eta_backtest",
                ForecastRecord,
                subject.where() & (pc.field("scope") == "run"),
            )
        ),
        what_ifs=tuple(records(tables, "what_if", WhatIf, subject.where())),
    )
    return _with_samples(facts, tables, subject)


def _with_samples(facts: ReportFacts, tables: Tables, subject: Subject) -> ReportFacts:
    began, ended = facts.span
    cluster, t = subject.where(of_run=False), pc.field("t")
    minutes = records(tables, "brokers", Minute, cluster)
    samples = cluster & ~pc.field("shadowed") & (t >= began) & (t <= ended)
    ours = {move.key for move in facts.moves} if facts.of_run else None
    polls = [InFlightCounts(*counts) for counts in counts_by_poll(tables, samples, ours)]
    return msgspec.structs.replace(
        facts,
        minutes=tuple(m for m in minutes if began - _MINUTE_MS < m.minute <= ended),
        in_flight=tuple(polls),
        slowest=tuple(_slowest(facts, tables, samples, len(polls) / max(1, ended - began))),
        stalled=tuple(
            sample
            for stall in longest_stalls(facts.intervals)
            for sample in _of_stall(stall, tables, cluster & ~pc.field("shadowed"))
        ),
    )


def without_overlaps(intervals: Iterable[Interval]) -> Iterable[Interval]:
    """End each state of a partition where the next one begins."""
    of: defaultdict[Partition, list[Interval]] = defaultdict(list)
    for interval in intervals:
        of[interval.key].append(interval)
    for known in of.values():
        known.sort(key=lambda one: (one.began, one.ended))
        for one, after in zip(known, [*known[1:], None], strict=True):
            if after is not None and after.began < one.ended:
                yield msgspec.structs.replace(one, ended=after.began)
            else:
                yield one


def _runs(tables: Tables, subject: Subject) -> list[RunRecord]:
    found = records(tables, "runs", RunRecord, subject.where())
    return sorted(found, key=lambda run: run.began)


def _rates(tables: Tables, subject: Subject) -> list[RateRecord]:
    if subject.run is None:
        return []
    found = records(tables, "rates", RateRecord, subject.where())
    return sorted(found, key=lambda row: row.entry)


class _Event(msgspec.Struct, frozen=True):
    t: int
    event: str


def _limits(tables: Tables, subject: Subject) -> Iterable[LimitsSince]:
    if subject.run is None:
        return
    kinds = pc.field("kind").isin(["started", "limits"])
    found = records(tables, "run_events", _Event, subject.where() & kinds)
    for row in sorted(found, key=lambda one: one.t):
        try:
            event = events.decode(row.event.encode())
        except msgspec.DecodeError:
            continue  # an event of a newer ktui
        if isinstance(event, events.Started):
            limits = event.limits
        elif isinstance(event, events.LimitsChanged):
            limits = event.new
        else:
            continue
        yield LimitsSince(row.t, limits.partitions, limits.replica_movements)


def _slowest(
    facts: ReportFacts, tables: Tables, samples: pc.Expression, polls_ms: float
) -> Sequence[Sample]:
    """Read some samples of the moves that took longest.

    Args:
        facts: the moves.
        tables: the lake.
        samples: the filter of the samples that may be read.
        polls_ms: polls per millisecond, from which the share of samples to read follows.
    """
    end = facts.span[1]
    longest = sorted(facts.moves, key=lambda move: (-length(move, end), move.key))[:MOST_CURVES]
    if not longest:
        return []
    every = max(1, int(length(longest[0], end) * polls_ms / _POINTS))
    seq = pc.field("seq")
    thin = seq - pc.divide(seq, every) * every == 0
    times = {move.key: (move.began, move.began + length(move, end)) for move in longest}
    found = records(tables, "samples", Sample, samples & thin & _among(longest))
    within = [s for s in found if s.key in times and times[s.key][0] <= s.t <= times[s.key][1]]
    return sorted(within, key=lambda sample: (-_lasted(times, sample), sample.key, sample.t))


def _lasted(times: dict[Partition, tuple[int, int]], sample: Sample) -> int:
    began, ended = times[sample.key]
    return ended - began


def _among(rows: Sequence[PartitionRow]) -> pc.Expression:
    topics, numbers = {row.topic for row in rows}, {row.partition for row in rows}
    return pc.field("topic").isin(sorted(topics)) & pc.field("partition").isin(sorted(numbers))


def _of_stall(stall: Interval, tables: Tables, samples: pc.Expression) -> Iterable[Sample]:
    t, (first, end) = pc.field("t"), cause_window(stall)
    within = (t >= first) & (t < end)
    found = records(tables, "samples", Sample, samples & within & _among([stall]))
    return (sample for sample in found if sample.key == stall.key)
