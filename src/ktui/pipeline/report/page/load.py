"""Load the facts of a report from the lake: few samples are read, all others are only counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow.compute as pc

from ktui.execution.run import events
from ktui.pipeline.lake.records import (
    InFlightCounts,
    InflowRecord,
    Interval,
    LimitsSince,
    Mark,
    MoveRecord,
    PartitionRow,
    PollRecord,
    RateRecord,
    ReportFacts,
    RunRecord,
    Sample,
    Span,
    WhatIf,
    by_key,
)
from ktui.pipeline.report.data.lake import Subject, Tables, counts_by_poll, records
from ktui.pipeline.report.data.marks import (
    NEEDED,
    Happened,
    RunEventRecord,
    broker_marks,
    decoded,
    idle_spans,
    recording_gaps,
    run_marks,
)
from ktui.pipeline.report.data.measures import (
    MINUTE_MS,
    bin_ms,
    inflow,
    judged_stalls,
    run_forecasts,
)
from ktui.pipeline.report.figures.lanes import length
from ktui.pipeline.report.figures.sizes import MOST as MOST_CURVES

_POINTS = 400  # the approximate number of samples to read for a move


def load_facts(tables: Tables, subject: Subject) -> ReportFacts:
    """Read all facts of a report."""
    moves = records(tables, "moves", MoveRecord, subject.where())
    seen = records(tables, "states", Interval, subject.where())
    runs = records(tables, "runs", RunRecord, subject.where())
    rates = records(tables, "rates", RateRecord, subject.where()) if subject.run else []
    noted = subject.where() & pc.field("kind").isin(NEEDED)
    happened = decoded(records(tables, "run_events", RunEventRecord, noted))
    facts = ReportFacts(
        cluster_id=subject.cluster_id,
        runs=(subject.run,) if subject.run else tuple(sorted(runs, key=_begin)),
        of_run=subject.run is not None,
        moves=tuple(moves),
        intervals=tuple(without_overlaps(seen)),
        limits=tuple(_limits(happened)) if subject.run else (),
        rates=tuple(sorted(rates, key=lambda row: row.entry)),
        guesses=tuple(run_forecasts(tables, subject)),
        what_ifs=tuple(records(tables, "what_if", WhatIf, subject.where())),
    )
    return _with_samples(_with_polls(facts, happened, tables, subject), tables, subject)


def _with_polls(
    facts: ReportFacts, happened: Sequence[Happened], tables: Tables, subject: Subject
) -> ReportFacts:
    visible = _visible(facts, subject)
    polls = sorted(records(tables, "polls", PollRecord, visible), key=lambda poll: poll.t)
    ours = {move.key for move in facts.moves} if facts.of_run else None
    counts = {t: InFlightCounts(t, *of) for t, *of in counts_by_poll(tables, visible, ours)}
    times = sorted(counts.keys() | {poll.t for poll in polls})
    began, end = facts.span
    found = [*_marks(happened, end, named=not facts.of_run), *broker_marks(polls, end)]
    found.sort(key=lambda mark: (mark.t, mark.kind, mark.says))
    marks = [mark for mark in found if began <= mark.t <= end]
    return msgspec.structs.replace(
        facts,
        gaps=tuple(recording_gaps(times, facts.span)),
        idle=tuple(idle_spans(_active(facts, marks), facts.span)),
        marks=tuple(marks),
        in_flight=tuple(counts.get(t, InFlightCounts(t, 0, 0)) for t in times),
    )


def _with_samples(facts: ReportFacts, tables: Tables, subject: Subject) -> ReportFacts:
    began, ended = facts.span
    cluster, visible = subject.where(of_run=False), _visible(facts, subject)
    minutes = [
        minute
        for minute in records(tables, "brokers", InflowRecord, cluster)
        if began - MINUTE_MS < minute.began <= ended
    ]
    bins = bin_ms(facts.active_ms)
    polls = sum(1 for seen in facts.in_flight if seen.partitions)
    everywhere = cluster & ~pc.field("shadowed")
    return msgspec.structs.replace(
        facts,
        inflow=tuple(inflow(tables, minutes, visible, facts.gaps, bins)),
        inflow_ms=bins,
        slowest=tuple(_slowest(facts, tables, visible, polls / facts.active_ms)),
        stalls=tuple(judged_stalls(tables, facts.intervals, everywhere)),
    )


def _visible(facts: ReportFacts, subject: Subject) -> pc.Expression:
    t, (began, ended) = pc.field("t"), facts.span
    return subject.where(of_run=False) & ~pc.field("shadowed") & (t >= began) & (t <= ended)


def _active(facts: ReportFacts, marks: Iterable[Mark]) -> Iterable[Span]:
    end = facts.span[1]
    yield from ((move.began, move.began + length(move, end)) for move in facts.moves)
    yield from ((mark.t, mark.t) for mark in marks)
    yield from ((t, t) for run in facts.runs for t in (run.began, run.ended) if t is not None)


def without_overlaps(intervals: Iterable[Interval]) -> Iterable[Interval]:
    """End each state of a partition where the next one begins."""
    for known in by_key(intervals, lambda one: one.key).values():
        known.sort(key=lambda one: (one.began, one.ended))
        for one, after in zip(known, [*known[1:], None], strict=True):
            if after is not None and after.began < one.ended:
                yield msgspec.structs.replace(one, ended=after.began)
            else:
                yield one


def _begin(run: RunRecord) -> tuple[bool, int, str]:
    return (run.began is None, run.began or 0, run.run_id)


def _marks(happened: Sequence[Happened], end: int, *, named: bool) -> Iterable[Mark]:
    for events_ in by_key(happened, lambda each: each[0].run_id).values():
        yield from run_marks(events_, end, named=named)


def _limits(happened: Sequence[Happened]) -> Iterable[LimitsSince]:
    for row, event in happened:
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
    return sorted(within, key=lambda s: (times[s.key][0] - times[s.key][1], s.key, s.t))


def _among(rows: Sequence[PartitionRow]) -> pc.Expression:
    topics, numbers = {row.topic for row in rows}, {row.partition for row in rows}
    return pc.field("topic").isin(sorted(topics)) & pc.field("partition").isin(sorted(numbers))
