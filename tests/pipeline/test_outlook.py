"""Tables derived in a lake: forecasts against the truth, other limits, insights."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import Row

from ktui.insights.insights import insights_in
from ktui.pipeline.lake import tables
from support.pipeline.report_lake import SIZES, DrainedLake, records_of


def test_the_backtest_compares_the_forecasts_of_a_run_with_its_end(
    drained_lake: DrainedLake,
) -> None:
    ended = {row.run_id: row.ended_t for row in records_of(drained_lake.first, tables.RUNS)}
    of_runs = records_of(drained_lake.first, tables.ETA_BACKTEST, scope="run")
    all_runs = {"two@1", "three@1", "alone@1", "throttled@1", "driven@1"}
    assert {row.run_id for row in of_runs} == all_runs
    for row in of_runs:
        assert row.t + round(row.truth_s * 1000) == ended[row.run_id]
    forecasts = [row for row in of_runs if row.left_s is not None]
    assert {row.run_id for row in forecasts} >= {"two@1", "three@1"}
    assert all(row.low_s <= row.left_s <= row.high_s for row in forecasts)


def test_each_run_and_partition_has_at_most_one_moment_in_five_seconds(
    drained_lake: DrainedLake,
) -> None:
    rows = records_of(drained_lake.first, tables.ETA_BACKTEST)
    places = [(row.cluster_id, row.run_id, row.topic, row.partition, row.t // 5000) for row in rows]
    assert len(set(places)) == len(places)
    partitions = {row.topic for row in rows if row.cluster_id == "a" and row.scope == "partition"}
    assert partitions == {f"t{n}" for n in range(len(SIZES))}


def of_each_run(lake: Path) -> dict[str, list[Row]]:
    """Return how each run of clusters a and b was simulated."""
    rows = [row for row in records_of(lake, tables.WHAT_IF) if row.cluster_id in ("a", "b")]
    ordered = sorted(rows, key=lambda row: row.run_id)
    return {run_id: list(of) for run_id, of in groupby(ordered, key=lambda row: row.run_id)}


def test_a_run_is_simulated_under_its_own_limits_and_all_others(drained_lake: DrainedLake) -> None:
    runs = of_each_run(drained_lake.first)
    assert {run_id: len(of) for run_id, of in runs.items()} == {
        "two@1": 5,
        "three@1": 5,
        "alone@1": 5,
    }
    for of in runs.values():
        (own,) = (row for row in of if row.own)
        assert own.predicted_s == pytest.approx(own.actual_s, rel=0.2)
        assert all(row.actual_s is None for row in of if not row.own)
        slow = {row.throttle: row.predicted_s for row in of if '"partitions":4' in row.limits}
        assert slow["10MB"] > 1.5 * slow["none"]


def test_the_model_is_tested_on_runs_it_was_not_fitted_on(drained_lake: DrainedLake) -> None:
    runs = of_each_run(drained_lake.first)
    for run_id in ("two@1", "three@1"):
        assert {len(row.calibrated_on) for row in runs[run_id]} == {2}
        (error,) = {row.error_held_out for row in runs[run_id]}
        assert abs(error) < 0.3
    assert {row.error_held_out for row in runs["alone@1"]} == {None}


def test_nothing_is_recommended_that_gains_nothing_over_the_run_and_the_reason_says_so(
    drained_lake: DrainedLake,
) -> None:
    runs = of_each_run(drained_lake.first)
    alone = runs.pop("alone@1")
    for of in runs.values():
        assert not any(row.recommended for row in of)
        (told,) = (row for row in of if row.reason)
        assert told.own
        assert told.reason.startswith("nothing that was recorded is faster than the run")
    assert not any(row.recommended for row in alone)
    (told,) = (row for row in alone if row.reason)
    assert told.reason.startswith("2 runs have to be recorded, and there is 1")
    assert told.record in told.reason


def test_the_range_of_a_time_has_the_error_for_other_runs_in_it(drained_lake: DrainedLake) -> None:
    runs = of_each_run(drained_lake.first)
    times = [1 / (1 + runs[run_id][0].error_held_out) for run_id in ("two@1", "three@1")]
    for row in (*runs["two@1"], *runs["three@1"]):
        assert row.low_s <= row.predicted_s * min(times) * 1.001
        assert row.high_s >= row.predicted_s * max(times) * 0.999


def test_insights_of_every_cluster_are_in_the_lake(drained_lake: DrainedLake) -> None:
    found = insights_in(drained_lake.first)
    assert found == drained_lake.outcome.insights
    assert [each.cluster_id for each in found.clusters] == ["a", "b", "c", "d"]
    a = found.of("a")
    assert a is not None
    assert (a.runs, a.moves) == (2, 2 * len(SIZES))
    assert a.prior is not None
    assert 10e6 < a.prior.replica_bytes_s.p50 < 41e6
    assert {(pair.leader, pair.adding) for pair in a.pairs} == {(1, 7), (2, 8), (3, 9)}
    assert not a.advice
    assert {each.run for each in a.withheld} == {"two", "three"}
    b = found.of("b")
    assert b is not None
    assert not b.advice
    assert [each.run for each in b.withheld] == ["alone"]
    assert {each.scope for each in a.eta} == {"run", "partition"}
    assert not a.stalls


def test_a_lost_insights_file_is_rebuilt(drained_lake: DrainedLake) -> None:
    assert not drained_lake.nothing_new.read
    assert drained_lake.made_again.of("a") is not None


def test_runs_are_simulated_again_for_another_window_without_new_recordings(
    drained_lake: DrainedLake,
) -> None:
    forecasts = drained_lake.later
    assert forecasts.clusters == ("b",)
    runs = of_each_run(drained_lake.lake)
    for run_id in ("two@1", "three@1"):
        (advised,) = (row for row in runs[run_id] if row.recommended)
        assert advised.reason.startswith("the fewest at once of the ")
        assert '"partitions":1,' in advised.limits
    assert insights_in(drained_lake.lake) == forecasts.insights


def test_forecasts_outlast_the_recordings(drained_lake: DrainedLake) -> None:
    assert _forecasts(drained_lake.lake, "alone@1") == _forecasts(drained_lake.first, "alone@1")
    assert _forecasts(drained_lake.lake, "alone@1")
    assert _forecasts(drained_lake.lake, "later@1")
    b = insights_in(drained_lake.lake).of("b")
    assert b is not None
    assert b.runs == 2
    assert insights_in(drained_lake.lake).of("a") is not None


def _forecasts(lake: Path, run_id: str) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in records_of(lake, tables.FORECASTS, run_id=run_id)]
    return sorted(rows, key=msgspec.json.encode)
