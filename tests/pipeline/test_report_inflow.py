"""The bytes copied into each broker, in bars of some seconds, from the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.dataset import Dataset, dataset

from ktui.pipeline.lake.records import InflowRecord, Span
from ktui.pipeline.report.data.measures import bin_ms, binned, inflow
from support.pipeline.report_facts import MINUTE
from support.pipeline.report_lake import copying, dataset_of

ALL = pc.scalar(value=True)


class _Samples:
    """A lake of samples alone."""

    def __init__(self, samples: Dataset) -> None:
        self._samples = samples

    def dataset(self, table: str) -> Dataset | None:
        return self._samples if table == "samples" else None


def _received(
    samples: Iterable[Mapping[str, Any]], gaps: Sequence[Span] = ()
) -> dict[tuple[int, int], float]:
    """Return the bytes by broker and bar, in seconds, of bars of 5 s."""
    found = binned(dataset_of("samples", samples), ALL, gaps, 5_000)
    return {(one.broker, one.began // 1_000): one.bytes_in for one in found if one.bytes_in}


def test_bytes_are_spread_over_the_time_between_two_readings() -> None:
    assert _received([copying(4_000, 100), copying(8_000, 140)]) == {(4, 0): 30, (4, 5): 90}


def test_only_what_a_replica_grew_while_it_was_added_is_copied() -> None:
    already_there = copying(3_000, 50, adding=[], removing=[3])
    not_yet_again = copying(3_000, 50, adding=[], removing=[])

    assert _received([copying(1_000, 10), copying(2_000, 11), copying(3_000, 50)]) == {(4, 0): 120}
    for between in (already_there, not_yet_again):
        samples = [copying(1_000, 10), copying(2_000, 11), between, copying(4_000, 90)]
        assert _received([*samples, copying(4_500, 91)]) == {(4, 0): 6}


def test_what_was_truncated_skipped_or_read_long_ago_is_no_copy() -> None:
    assert _received([copying(1_000, 10), copying(2_000, 9)]) == {}
    assert _received([copying(1_000, 10), copying(2_000, 70, log_start=60)]) == {}
    assert _received([copying(1_000, 10), copying(61_001, 70)]) == {}
    assert _received([copying(1_000, 10), copying(2_000, 70, leader=None)]) == {}


def test_what_grew_across_a_gap_in_the_recording_is_left_out() -> None:
    samples = [copying(1_000, 10), copying(2_000, 11), copying(32_000, 90), copying(33_000, 91)]

    assert _received(samples, [(2_000, 32_000)]) == {(4, 0): 3, (4, 30): 3}


def test_partitions_and_topics_of_the_same_name_are_told_apart() -> None:
    samples = [
        copying(t, t + n, topic_id=topic_id, partition=n)
        for t in (1_000, 2_000)
        for n, topic_id in enumerate(("a", "b", None))
    ]

    assert _received(samples) == {(4, 0): 3 * 1_000 * 3}


def test_a_bar_has_the_highest_throttle_that_was_seen_in_it() -> None:
    rates = ((1_000, 7, 70), (2_000, 7, 90), (6_000, 7, 80), (6_000, 8, None))
    samples = [
        copying(t, 0, adding=[], rates=[{"broker": broker, "follower": rate, "leader": 1}])
        for t, broker, rate in rates
    ]

    assert binned(dataset_of("samples", samples), ALL, (), 5_000) == [
        InflowRecord(broker=7, began=0, follower_throttle=90),
        InflowRecord(broker=7, began=5_000, follower_throttle=80),
    ]


def test_a_run_of_two_minutes_has_bars_of_seconds_however_much_moves() -> None:
    one = dataset_of("samples", [copying(t, t) for t in range(0, 2 * MINUTE, 1_000)]).to_table()
    place = one.schema.get_field_index("partition")
    many = pa.concat_tables(
        one.set_column(place, "partition", pa.array([n] * len(one), pa.int32()))
        for n in range(1_000)
    )
    minutes = [InflowRecord(broker=4, began=t, bytes_in=1.0) for t in (0, MINUTE)]
    bins = bin_ms(2 * MINUTE)

    found = inflow(_Samples(dataset(many)), minutes, ALL, (), bins)

    assert bins == 5_000
    assert [bar.began for bar in found] == list(range(0, 2 * MINUTE, 5_000))
    assert sum(bar.bytes_in or 0 for bar in found) == pytest.approx(1_000 * 119_000 * 3)
