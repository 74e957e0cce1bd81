"""The bytes copied into each broker, in bins of time that suit the length of the report."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset

from ktui.pipeline.lake.records import (
    FORECASTS_WITH_TRUTH,
    ForecastRecord,
    InflowRecord,
    Interval,
    JudgedStall,
    Partition,
    Sample,
    Span,
    by_key,
)
from ktui.pipeline.report.data.lake import Subject, Tables, partition_names, queried, stream_records
from ktui.pipeline.tables.stall_cause import cause_in, cause_of, cause_window, stalls

MINUTE_MS = 60_000
_SECONDS = (5, 10, 15, 30)
_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
_BINS_MS = (*(1_000 * s for s in _SECONDS), *(MINUTE_MS * m for m in _MINUTES))
_MOST_BINS = 90
_NEAR_MS = 60_000  # readings of a log end that are further apart say nothing about a rate

_Key = tuple[int, int]
_GROWN = """
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
)
SELECT broker, bin,
    sum(bytes * (least(ended, bin + $bins) - greatest(began, bin)) / (ended - began)) AS value
FROM (
    SELECT *, unnest(range(began - began % $bins, ended, $bins)) AS bin
    FROM copies
    WHERE len([g FOR g IN $gaps::BIGINT[][] IF g[1] < ended AND began < g[2]]) = 0
)
GROUP BY broker, bin
"""
_GROWN_FROM = (
    "topic", "partition", "topic_id", "t", "leader", "log_start", "adding", "removing", "ends",
    "sizes",
)  # fmt: skip
_THROTTLED = """
SELECT rate.broker, t - t % $bins AS bin, max(rate.follower) AS value
FROM (SELECT t, unnest(rates) AS rate FROM samples)
WHERE rate.follower IS NOT NULL
GROUP BY ALL
"""


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
    copied: defaultdict[_Key, float] = defaultdict(float)
    throttles: dict[_Key, int] = {}
    for minute in minutes:
        key = (minute.broker, minute.began - minute.began % bins)
        copied[key] += minute.bytes_in or 0
        _keep_highest(throttles, key, minute.follower_throttle)
    return _rows(copied, throttles)


def binned(
    samples: Dataset, where: pc.Expression, gaps: Sequence[Span], bins: int
) -> list[InflowRecord]:
    """Sum up the growth of replicas being added, by bins in ms; none is spread over gaps."""

    def read(columns: Sequence[str]) -> pa.RecordBatchReader:
        return samples.scanner(columns=[*columns], filter=where).to_reader()

    grown = {"bins": bins, "near": _NEAR_MS, "gaps": [[*gap] for gap in gaps]}
    return _rows(
        _by_key(read(_GROWN_FROM), _GROWN, grown),
        _by_key(read(("t", "rates")), _THROTTLED, {"bins": bins}),
    )


def _by_key(samples: pa.RecordBatchReader, sql: str, of: Mapping[str, Any]) -> dict[_Key, Any]:
    found = queried({"samples": samples}, sql, of)
    return {(each["broker"], each["bin"]): each["value"] for each in found}


def _keep_highest(throttles: dict[_Key, int], key: _Key, rate: int | None) -> None:
    if rate is not None:
        throttles[key] = max(rate, throttles.get(key, 0))


def _rows(copied: Mapping[_Key, float], throttles: Mapping[_Key, int]) -> list[InflowRecord]:
    return [
        InflowRecord(
            broker=broker,
            began=began,
            bytes_in=copied.get((broker, began)),
            follower_throttle=throttles.get((broker, began)),
        )
        for broker, began in sorted({*copied, *throttles}, key=lambda key: (key[1], key[0]))
    ]


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
    return msgspec.convert(found, list[ForecastRecord])


_Stalls = Mapping[Partition, Sequence[Interval]]


def judged_stalls(
    tables: Tables, intervals: Iterable[Interval], samples: pc.Expression
) -> list[JudgedStall]:
    """Return all stalls with their causes, the longest first; the intervals do not overlap."""
    found = sorted(stalls(intervals), key=lambda one: (one.began, one.key))
    if not found:
        return []
    by_partition = by_key(found, lambda stall: stall.key)
    telling = _telling_samples(tables, by_partition, samples & _times(found))
    judged = [
        JudgedStall(stall, *cause_of(telling.get((stall.key, stall.began), ()))) for stall in found
    ]
    return sorted(judged, key=lambda one: one.stall.began - one.stall.ended)


def _times(found: Sequence[Interval]) -> pc.Expression:
    windows = [cause_window(stall) for stall in found]
    t = pc.field("t")
    return (t >= min(first for first, _ in windows)) & (t < max(end for _, end in windows))


def _telling_samples(
    tables: Tables, by_partition: _Stalls, samples: pc.Expression
) -> Mapping[tuple[Partition, int], list[Sample]]:
    keys = list(by_partition)
    names = pa.array([f"{key.topic} {key.partition} {key.topic_id}" for key in keys], pa.string())

    def within(batch: pa.RecordBatch) -> pa.Array:
        places = pc.index_in(partition_names(batch), value_set=names).to_pylist()
        times = batch["t"].to_pylist()
        shown = [
            place is not None and _stall_at(by_partition[keys[place]], t) is not None
            for place, t in zip(places, times, strict=True)
        ]
        return pa.array(shown, pa.bool_())

    found: defaultdict[tuple[Partition, int], dict[object, Sample]] = defaultdict(dict)
    for sample in stream_records(tables, "samples", Sample, samples, only=within):
        stall = _stall_at(by_partition[sample.key], sample.t)
        if stall is not None:
            found[sample.key, stall.began].setdefault(cause_in(sample), sample)
    return {key: sorted(of.values(), key=lambda sample: sample.t) for key, of in found.items()}


def _stall_at(stalls_: Sequence[Interval], t: int) -> Interval | None:
    place = bisect_right(stalls_, t, key=lambda one: one.began) - 1
    if place < 0:
        return None
    first, end = cause_window(stalls_[place])
    return stalls_[place] if first <= t < end else None
