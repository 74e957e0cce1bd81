"""Load the facts of a report from the lake: few samples are read, all others are only counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset

from ktui.execution.run import events
from ktui.pipeline.lake.records import (
    BETWEEN,
    FORECASTS_WITH_TRUTH,
    GAP_MS,
    MINUTE_MS,
    MOST_CURVES,
    ForecastRecord,
    InFlightCounts,
    InflowRecord,
    Interval,
    JudgedStall,
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
    cause_of,
    cause_window,
    length,
    stalls,
    took,
)
from ktui.pipeline.report.lake import (
    NEEDED,
    Happened,
    RunEventRecord,
    Subject,
    Tables,
    broker_marks,
    columns_of,
    counts_by_poll,
    decoded,
    idle_spans,
    queried,
    recording_gaps,
    records,
    run_marks,
)
from ktui.progress.timeline import Cause

_SECONDS = (5, 10, 15, 30)
_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
_BINS_MS = (*(1_000 * s for s in _SECONDS), *(MINUTE_MS * m for m in _MINUTES))
_MOST_BINS = 90

_INFLOW = """
WITH seen AS (
    SELECT hash(topic, partition, topic_id) AS p, t, log_start, adding, ends,
        len(adding) + len(removing) > 0 AS is_listed,
        [e.end FOR e IN ends IF e.broker = leader][1] - log_start AS held,
        [s.bytes FOR s IN sizes IF s.broker = leader][1] AS led,
        CASE WHEN held > 0 THEN led / held END AS message_bytes
    FROM samples
), listed AS (
    SELECT *, count(*) FILTER (NOT is_listed) OVER w AS listing, lag(adding) OVER w AS were_adding
    FROM seen
    WINDOW w AS (PARTITION BY p ORDER BY t ROWS UNBOUNDED PRECEDING)
), readings AS (
    SELECT p, t, listing, log_start, adding, message_bytes,
        unnest([e FOR e IN ends IF e.broker IN adding OR e.broker IN were_adding],
            recursive := true)
    FROM listed
    WHERE is_listed
), pairs AS (
    SELECT *, broker IN adding AS is_adding,
        lag({'upto': "end", 'read_t': read_t, 'is_adding': broker IN adding}) OVER
            (PARTITION BY p, listing, broker ORDER BY t) AS last
    FROM readings
), copies AS (
    SELECT broker, last.read_t AS began, read_t AS ended,
        floor(("end" - last.upto) * message_bytes + 0.5) AS bytes
    FROM pairs
    WHERE is_adding AND last.is_adding AND "end" > last.upto AND message_bytes IS NOT NULL
        AND (log_start IS NULL OR last.upto >= log_start)
        AND read_t - last.read_t BETWEEN 1 AND $near
), grown AS (
    SELECT broker, bin,
        sum(bytes * (least(ended, bin + $bins) - greatest(began, bin)) / (ended - began)) AS bytes
    FROM (
        SELECT *, unnest(range(began - began % $bins, ended, $bins)) AS bin
        FROM copies
        WHERE len([g FOR g IN $gaps::BIGINT[][] IF g[1] < ended AND began < g[2]]) = 0
    )
    GROUP BY broker, bin
), throttled AS (
    SELECT rate.broker, t - t % $bins AS bin, max(rate.follower) AS rate
    FROM (SELECT t, unnest(rates) AS rate FROM throttles)
    WHERE rate.follower IS NOT NULL
    GROUP BY ALL
)
SELECT broker, bin AS minute, grown.bytes AS bytes_in, throttled.rate AS follower_throttle
FROM grown FULL JOIN throttled USING (broker, bin)
ORDER BY bin, broker
"""
_GROWN_FROM = (
    "topic", "partition", "topic_id", "t", "leader", "log_start", "adding", "removing", "ends",
    "sizes",
)  # fmt: skip


def bin_ms(length_ms: int) -> int:
    """Return the length of the bins for a report of some length: at most about 90 of them."""
    return next((each for each in _BINS_MS if each * _MOST_BINS >= length_ms), _BINS_MS[-1])


def inflow(
    tables: Tables,
    minutes: Sequence[InflowRecord],
    samples: pc.Expression,
    gaps: Sequence[Span],
    bins: int,
) -> list[InflowRecord]:
    """Return what was copied into each broker in each bin of so many ms."""
    if bins >= MINUTE_MS:
        return merged(minutes, bins)
    files = tables.dataset("samples")
    return [] if files is None else binned(files, samples, gaps, bins)


def merged(minutes: Iterable[InflowRecord], bins: int) -> list[InflowRecord]:
    """Sum up minutes by bins of this length, in ms."""
    of = by_key(minutes, lambda minute: (minute.began - minute.began % bins, minute.broker))
    return [
        InflowRecord(
            broker=broker,
            began=began,
            bytes_in=sum(one.bytes_in or 0 for one in some),
            follower_throttle=max(
                (each for one in some if (each := one.follower_throttle) is not None), default=None
            ),
        )
        for (began, broker), some in sorted(of.items())
    ]


def binned(
    samples: Dataset, where: pc.Expression, gaps: Sequence[Span], bins: int
) -> list[InflowRecord]:
    """Sum up the growth of replicas being added, by bins in ms; none is spread over gaps."""

    def read(*columns: str) -> pa.RecordBatchReader:
        return samples.scanner(columns=[*columns], filter=where).to_reader()

    sources = {"samples": read(*_GROWN_FROM), "throttles": read("t", "rates")}
    asked = {"bins": bins, "near": GAP_MS, "gaps": [[*gap] for gap in gaps]}
    return msgspec.convert([*queried(sources, _INFLOW, asked)], list[InflowRecord])


_COPIES = pa.schema(
    {
        **dict.fromkeys(("cluster_id", "session", "topic"), pa.string()),
        **dict.fromkeys(("partition", "since", "ended_t"), pa.int64()),
    }
)
_POLL = ["cluster_id", "session", "seq", "shadowed"]
_RUN = ["cluster_id", "run_id", "ended_t", "outcomes", "partitions"]


def run_forecasts(tables: Tables, subject: Subject) -> Sequence[ForecastRecord]:
    """Read the forecasts for the subject's runs, as the view `eta_backtest` has them, by time."""
    forecasts, polls, runs = map(tables.dataset, ("forecasts", "polls", "runs"))
    if forecasts is None or polls is None or runs is None:
        return ()
    of_cluster = subject.where(of_run=False)
    sources = {
        "forecasts": forecasts.to_table(filter=subject.where() & (pc.field("scope") == "run")),
        "polls": polls.to_table(columns=_POLL, filter=of_cluster),
        "runs": runs.to_table(columns=_RUN, filter=of_cluster),
        "caught_up": _COPIES.empty_table(),  # runs need none
    }
    found = queried(sources, f"{FORECASTS_WITH_TRUTH} ORDER BY run_id, t, session, seq")
    return msgspec.convert([*found], list[ForecastRecord])


_TELLING = """
SELECT number, samples.*
FROM samples JOIN stalls ON samples.topic = stalls.topic AND samples.partition = stalls.partition
  AND coalesce(samples.topic_id, '') = stalls.topic_id AND t >= since AND t < until
ORDER BY number, t
"""


def judged_stalls(
    tables: Tables, intervals: Iterable[Interval], samples: pc.Expression
) -> list[JudgedStall]:
    """Return all stalls with their causes, the longest first; the intervals do not overlap."""
    found = sorted(stalls(intervals), key=lambda one: (one.began, one.key))
    files = tables.dataset("samples")
    causes: dict[int, tuple[Cause, str]] = {}
    if found and files is not None:
        windows = [(number, one.key, *cause_window(one)) for number, one in enumerate(found)]
        asked = [
            {"number": number, **msgspec.structs.asdict(key), "since": since, "until": until}
            for number, key, since, until in windows
        ]
        t = pc.field("t")
        at_most = (t >= min(since for *_, since, _ in windows)) & (
            t < max(until for *_, until in windows)
        )
        read = files.scanner(columns=columns_of(files, Sample), filter=samples & at_most)
        rows = queried(
            {"samples": read.to_reader(), "stalls": pa.Table.from_pylist(asked)}, _TELLING
        )
        for number, telling in groupby(rows, itemgetter("number")):
            causes[number] = cause_of(msgspec.convert(row, Sample) for row in telling)
    judged = (
        JudgedStall(one, *causes.get(number, (Cause.UNKNOWN, "")))
        for number, one in enumerate(found)
    )
    return sorted(judged, key=lambda one: one.stall.began - one.stall.ended)


_POINTS = 400  # the approximate number of samples to read for a move


def load_facts(tables: Tables, subject: Subject) -> ReportFacts:
    """Read all facts of a report."""
    moves = records(tables, "moves", MoveRecord, subject.where())
    seen = records(tables, "states", Interval, subject.where())
    runs = records(tables, "runs", RunRecord, subject.where())
    rates = records(tables, "rates", RateRecord, subject.where()) if subject.run else []
    noted = subject.where() & pc.field("kind").isin(NEEDED)
    happened = decoded(records(tables, "run_events", RunEventRecord, noted))
    intervals = tuple(without_overlaps(seen))
    facts = ReportFacts(
        cluster_id=subject.cluster_id,
        runs=(subject.run,) if subject.run else tuple(sorted(runs, key=_begin)),
        of_run=subject.run is not None,
        moves=tuple(with_waits(moves, intervals)),
        intervals=intervals,
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


def with_waits(moves: Iterable[MoveRecord], intervals: Iterable[Interval]) -> Iterable[MoveRecord]:
    """Add to each move how long it was between steps."""
    waits = by_key((one for one in intervals if one.state == BETWEEN), lambda one: one.key)
    for move in moves:
        ended = math.inf if move.ended is None else move.ended
        own = (one for one in waits.get(move.key, ()) if move.began <= one.began < ended)
        waited = sum(min(one.ended, ended) - one.began for one in own)
        yield msgspec.structs.replace(move, waited_ms=int(waited))


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
    longest = sorted(facts.moves, key=lambda move: (-took(move, end), move.key))[:MOST_CURVES]
    if not longest:
        return []
    every = max(1, int(max(length(move, end) for move in longest) * polls_ms / _POINTS))
    seq = pc.field("seq")
    thin = seq - pc.divide(seq, every) * every == 0
    times = {move.key: (move.began, move.began + length(move, end)) for move in longest}
    found = records(tables, "samples", Sample, samples & thin & _among(longest))
    within = [s for s in found if s.key in times and times[s.key][0] <= s.t <= times[s.key][1]]
    return sorted(within, key=lambda s: (times[s.key][0] - times[s.key][1], s.key, s.t))


def _among(rows: Sequence[PartitionRow]) -> pc.Expression:
    topics, numbers = {row.topic for row in rows}, {row.partition for row in rows}
    return pc.field("topic").isin(sorted(topics)) & pc.field("partition").isin(sorted(numbers))
