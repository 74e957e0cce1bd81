"""The causes of all stalls, from one reading of the samples."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ktui.pipeline.lake.records import Interval, JudgedStall, Partition, Sample
from ktui.pipeline.report.data.lake import Tables, partition_names, stream_records
from ktui.pipeline.tables.stall_cause import cause_in, cause_of, cause_window, stalls

_Stalls = Mapping[Partition, Sequence[Interval]]


def judged_stalls(
    tables: Tables, intervals: Iterable[Interval], samples: pc.Expression
) -> list[JudgedStall]:
    """Return all stalls with their causes, the longest first.

    Args:
        tables: the lake.
        intervals: the states of partitions, without overlaps.
        samples: the filter of the samples that may be read.
    """
    found = sorted(stalls(intervals), key=lambda one: (one.began, one.key))
    if not found:
        return []
    by_partition: defaultdict[Partition, list[Interval]] = defaultdict(list)
    for stall in found:
        by_partition[stall.key].append(stall)
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
    """Return one sample for each cause that the samples of a stall show, by the stall's start."""
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
    """Return the stall of a partition whose cause a sample at this time shows."""
    place = bisect_right(stalls_, t, key=lambda one: one.began) - 1
    if place < 0:
        return None
    first, end = cause_window(stalls_[place])
    return stalls_[place] if first <= t < end else None
