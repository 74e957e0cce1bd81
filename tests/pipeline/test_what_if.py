"""Forecasts against the truth, and what-if: runs driven, throttled and tested."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.insights import RateCurve, insights_in
from ktui.pipeline.forecast.model import HeldOutTests, Model
from ktui.pipeline.forecast.what_if import (
    Models,
    _tested,
    down_at_times,
    held_out_tests,
    what_if,
)
from ktui.pipeline.lake import tables
from ktui.pipeline.lake.tables import RATES, RUNS, WHAT_IF
from support.pipeline.lake_rows import lake_table
from support.pipeline.report_lake import SIZES, DrainedLake, records_of
from support.recordings.drained_recordings import MB

DRIVEN = "driven@1"


@pytest.fixture(scope="module")
def rates(drained_lake: DrainedLake) -> list[Row]:
    found = records_of(drained_lake.first, RATES, run_id=DRIVEN)
    return sorted(found, key=lambda row: row.entry)


def test_the_run_has_its_promises_and_how_it_kept_them(drained_lake: DrainedLake) -> None:
    (run,) = records_of(drained_lake.first, RUNS, run_id=DRIVEN)

    assert run.objective == "load<8"
    assert (run.windows, run.kept) == (3, 3)
    assert run.late_ms == run.ended_t - run.by_t < 0


def test_changes_of_the_rate_are_counted_as_its_rates_are_listed(
    drained_lake: DrainedLake, rates: list[Row]
) -> None:
    (run,) = records_of(drained_lake.first, RUNS, run_id=DRIVEN)
    in_force = [(row.bytes_s, row.brokers) for row in rates]

    assert run.rate_changes == sum(one != other for one, other in pairwise(in_force)) > 1


def test_each_rate_has_the_promise_that_chose_it(rates: list[Row]) -> None:
    assert {row.chosen_by for row in rates} == {"objective", "by"}
    figures = [row.figure for row in rates if row.kind == "rate_held"]
    assert figures == [1.0, 2.0]
    assert [row.late for row in rates if row.kind == "rate_chosen"][:2] == [True, False]


def test_the_run_as_it_was_is_predicted_with_the_rates_that_it_had(
    drained_lake: DrainedLake,
) -> None:
    rows = records_of(drained_lake.first, WHAT_IF, run_id=DRIVEN)
    (own,) = (row for row in rows if row.own)

    assert own.driven_by == "by, objective"
    assert own.predicted_s == pytest.approx(own.actual_s, rel=0.15)
    assert own.by_s == pytest.approx(60, abs=2)
    assert {row.throttle for row in rows if not row.own} == {"none", "10MB", "3MB"}


_ROWS = "cluster_id string, own boolean, error_held_out double"


def test_each_cluster_has_the_errors_of_its_own_runs_in_its_ranges(spark: SparkSession) -> None:
    rows = [("a", True, 0.25), ("a", True, -0.5), ("a", False, 9.0), ("a", True, None)]
    rows += [("b", True, -1.0), ("b", True, None)]
    rows += [("c", True, n / 10) for n in range(11)]

    found = _tested(spark.createDataFrame(rows, _ROWS)).collect()

    tests = {row.cluster_id: held_out_tests(row.asDict()) for row in found}
    assert len(found) == len(rows)
    assert {cluster: astuple(each) for cluster, each in tests.items()} == {
        "a": pytest.approx((2, 0.8, 2.0)),
        "b": astuple(HeldOutTests()),
        "c": pytest.approx((11, 1 / 1.9, 1 / 1.1)),
    }


def test_a_broker_was_down_in_a_run_if_some_polls_saw_it_alive_and_others_did_not(
    spark: SparkSession,
) -> None:
    """Broker 3 leaves and returns; 4 never answers, 5 joins late, and some polls read nothing."""
    alive = {0: [1, 2, 3], 10: [1, 2, 3], 20: [1, 2], 30: [], 40: [1, 2, 3], 50: [1, 2, 3, 5]}
    polls = [(cluster, t, of, False) for cluster in ("a", "b") for t, of in alive.items()]
    polls += [("a", 12, [1], True)]
    runs = [("a", "lost@1", 10, 20), ("a", "well@1", 30, 40), ("a", "open@1", 40, None)]

    found = down_at_times(
        spark.createDataFrame(
            polls, "cluster_id string, t bigint, alive array<int>, shadowed boolean"
        ),
        spark.createDataFrame(
            runs, "cluster_id string, run_id string, began_t bigint, ended_t bigint"
        ),
    )

    assert {row.run_id: row.down for row in found.collect()} == {
        "lost@1": [3],
        "well@1": [],
        "open@1": [5],
    }


def test_a_run_with_a_broker_down_is_compared_with_its_time_as_it_was_started(
    drained_lake: DrainedLake, spark: SparkSession
) -> None:
    """In recordings of two drains, broker 7 is gone for one poll of the second."""
    needed = (tables.RUN_EVENTS, RUNS, tables.BATCHES, RATES, tables.POLLS)
    written = {
        each.name: spark.createDataFrame(lake_table(drained_lake.first, each)).where(
            "cluster_id = 'a'"
        )
        for each in needed
    }
    (second,) = records_of(drained_lake.first, RUNS, run_id="three@1")
    gone = F.col("t").between(second.began_t + 4_000, second.began_t + 5_000)
    alive = F.when(gone, F.array_remove("alive", F.lit(7))).otherwise(F.col("alive"))
    written["polls"] = written["polls"].withColumn("alive", alive)
    model = Model(RateCurve(most_bytes_s=60.0 * MB, half_at=1.0, most_at_once=4), 1, 1)

    rows = what_if(written, models=Models({"a": model}, {}), cells=()).collect()

    assert {row.run_id: row.disturbed for row in rows} == {
        "two@1": [],
        "three@1": ["broker 7 was down"],
    }


def test_a_run_whose_throttle_was_changed_says_so(drained_lake: DrainedLake) -> None:
    (own,) = (
        row for row in records_of(drained_lake.first, WHAT_IF, run_id="throttled@1") if row.own
    )

    assert own.disturbed == ["its throttle was changed"]
    assert own.error_held_out is None


@pytest.fixture(scope="module")
def played(drained_lake: DrainedLake) -> dict[str, Row]:
    """How the run is foretold with four partitions at once, by throttle."""
    rows = records_of(drained_lake.first, WHAT_IF, run_id="throttled@1")
    return {row.throttle: row for row in rows if '"partitions":4' in row.limits and not row.own}


def test_an_unthrottled_what_if_uses_the_default_rate_after_only_throttled_runs(
    played: dict[str, Row],
) -> None:
    free, throttled = played["none"], played["3MB"]
    assert free.broker_bytes_s == pytest.approx(50 * MB * 4 / 3)  # two copies at once
    assert free.predicted_s < throttled.predicted_s / 2


def test_a_throttled_what_if_predicts_the_rate_that_the_throttle_allows(
    played: dict[str, Row],
) -> None:
    assert played["3MB"].broker_bytes_s == pytest.approx(3 * MB, rel=0.1)


def test_insights_relate_copies_to_each_throttle_while_it_was_in_force(
    drained_lake: DrainedLake,
) -> None:
    derived = insights_in(drained_lake.first).of("c")
    assert derived is not None
    assert derived.prior is not None
    assert derived.prior.curve.throttled == pytest.approx(1.0, abs=0.05)


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


def test_a_run_without_simulations_keeps_what_an_earlier_one_has_simulated(
    drained_lake: DrainedLake,
) -> None:
    before, after = insights_in(drained_lake.first).of("a"), drained_lake.made_again.of("a")
    assert before is not None
    assert after is not None
    assert after.withheld == before.withheld != ()


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
