"""The bytes copied into each broker, in bins of time that suit the length of the report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow.compute as pc

from ktui.pipeline.lake.records import Inflow, Partition, PartitionRow, Span, ThrottleRecord
from ktui.pipeline.report.data.lake import Tables, count_rows, records

MINUTE_MS = 60_000
_SECONDS = (5, 10, 15, 30)
_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
_BINS_MS = (*(1_000 * s for s in _SECONDS), *(MINUTE_MS * m for m in _MINUTES))
_MOST_BINS = 90
_MOST_SAMPLES = 100_000
"""The most samples that are read for bins shorter than a minute."""
_NEAR_MS = 60_000
"""Readings of a log end that are further apart say nothing about a rate."""

_Key = tuple[int, int]
"""A broker and the start of a bin."""


class EndRead(msgspec.Struct, frozen=True, gc=False):
    """The log end offset of one replica, and when it was read."""

    broker: int
    end: int
    read_t: int


class DiskSize(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one replica on its disk."""

    broker: int
    bytes: int


class CopySample(PartitionRow, frozen=True, gc=False, kw_only=True):
    """A row of `samples`, with what shows how much was copied."""

    t: int
    leader: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    ends: tuple[EndRead, ...] = ()
    log_start: int | None = None
    sizes: tuple[DiskSize, ...] = ()
    rates: tuple[ThrottleRecord, ...] = ()

    @property
    def message_bytes(self) -> float | None:
        """The mean size of the messages that the leader holds; None where it is not known."""
        end = next((each.end for each in self.ends if each.broker == self.leader), None)
        size = next((each.bytes for each in self.sizes if each.broker == self.leader), None)
        if end is None or size is None or self.log_start is None or end <= self.log_start:
            return None
        return size / (end - self.log_start)


def bin_ms(length_ms: int) -> int:
    """Return the length of the bins for a report of some length: at most about 90 of them."""
    return next((each for each in _BINS_MS if each * _MOST_BINS >= length_ms), _BINS_MS[-1])


def inflow(
    tables: Tables,
    minutes: Sequence[Inflow],
    samples: pc.Expression,
    gaps: Sequence[Span],
    bins: int,
) -> tuple[int, list[Inflow]]:
    """Return the length of the bins in ms, and what was copied into each broker in each.

    Bins shorter than a minute come from the samples, where these are not too many.

    Args:
        tables: the lake.
        minutes: the rows of `brokers`.
        samples: the filter of the samples.
        gaps: the times that no poll shows.
        bins: the length that the bins should have, ms.
    """
    if bins < MINUTE_MS and count_rows(tables, "samples", samples) <= _MOST_SAMPLES:
        return bins, binned(records(tables, "samples", CopySample, samples), gaps, bins)
    bins = max(bins, MINUTE_MS)
    return bins, merged(minutes, bins)


def merged(minutes: Iterable[Inflow], bins: int) -> list[Inflow]:
    """Sum up minutes by bins of this length, in ms."""
    copied: defaultdict[_Key, float] = defaultdict(float)
    throttles: dict[_Key, int] = {}
    for minute in minutes:
        key = (minute.broker, minute.began - minute.began % bins)
        copied[key] += minute.bytes_in or 0
        _keep_highest(throttles, key, minute.follower_throttle)
    return _rows(copied, throttles)


def binned(samples: Iterable[CopySample], gaps: Sequence[Span], bins: int) -> list[Inflow]:
    """Sum up the growth of the replicas being added, by bins of this length, in ms.

    The rules are those of the table `brokers`; growth is spread evenly over the time between two
    readings. What grew across a gap is left out.
    """
    copied: defaultdict[_Key, float] = defaultdict(float)
    throttles: dict[_Key, int] = {}
    last: defaultdict[Partition, dict[int, tuple[EndRead, bool]]] = defaultdict(dict)
    for sample in sorted(samples, key=lambda one: (one.t, one.key)):
        for rate in sample.rates:
            _keep_highest(throttles, (rate.broker, sample.t - sample.t % bins), rate.follower)
        if not (sample.adding or sample.removing):
            last.pop(sample.key, None)
            continue
        for broker, span, bytes_ in _growth(sample, last[sample.key]):
            if not any(began < span[1] and span[0] < ended for began, ended in gaps):
                for began, share in _shares(span, bins):
                    copied[broker, began] += bytes_ * share
    return _rows(copied, throttles)


def _growth(
    sample: CopySample, last: dict[int, tuple[EndRead, bool]]
) -> Iterator[tuple[int, Span, float]]:
    """Yield how much each replica grew since it was read last, and note this reading in `last`."""
    each_bytes = sample.message_bytes
    for now in sample.ends:
        before, was_adding = last.get(now.broker, (now, False))
        is_adding = now.broker in sample.adding
        last[now.broker] = (now, is_adding)
        grew, ms = now.end - before.end, now.read_t - before.read_t
        jumped = sample.log_start is not None and before.end < sample.log_start
        is_copy = was_adding and is_adding and not jumped and grew > 0 and 0 < ms <= _NEAR_MS
        if is_copy and each_bytes is not None:
            copied = math.floor(grew * each_bytes + 0.5)
            yield now.broker, (before.read_t, now.read_t), copied


def _shares(span: Span, bins: int) -> Iterator[tuple[int, float]]:
    """Yield the bins that a time lies in, and its share in each."""
    began, ended = span
    for start in range(began - began % bins, ended, bins):
        within = min(ended, start + bins) - max(began, start)
        yield start, within / (ended - began)


def _keep_highest(throttles: dict[_Key, int], key: _Key, rate: int | None) -> None:
    if rate is not None:
        throttles[key] = max(rate, throttles.get(key, 0))


def _rows(copied: Mapping[_Key, float], throttles: Mapping[_Key, int]) -> list[Inflow]:
    return [
        Inflow(
            broker=broker,
            began=began,
            bytes_in=copied.get((broker, began)),
            follower_throttle=throttles.get((broker, began)),
        )
        for broker, began in sorted({*copied, *throttles}, key=lambda key: (key[1], key[0]))
    ]
