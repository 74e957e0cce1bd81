"""What a lake tells beyond what was seen: forecasts against the truth, other limits, insights."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from ktui.insights.file import NAME, insights_in
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.lake import tables
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, run
from ktui.pipeline.what_if.grid import GridCell
from ktui.planning.throttle_rates import parse_throttle_rates
from support.recordings.drained_recordings import MB, drained

SIZES = [300 * MB, 500 * MB, 400 * MB, 200 * MB, 600 * MB, 350 * MB]
CELLS = (
    GridCell(Limits(partitions=1, replicas=1)),
    GridCell(Limits(partitions=4, replicas=1)),
    GridCell(Limits(partitions=4, replicas=1), parse_throttle_rates("10MB")),
)


class Told:
    """A lake of two drains of one cluster, an hour apart, and one of another cluster."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.recordings, self.lake = spark, folder / "recordings", folder / "lake"
        self.drain("two", Limits(replicas=1, partitions=2))
        self.drain("three", Limits(replicas=1, partitions=3), hours=1)
        drained(
            self.recordings, sizes=SIZES[:2], limits=Limits(replicas=1), name="alone", cluster="b"
        )
        self.outcome = self.run()

    def drain(self, name: str, limits: Limits, hours: float = 0.0) -> None:
        drained(self.recordings, sizes=SIZES, limits=limits, name=name, cluster="a", hours=hours)

    def run(self, asked: DerivedOptions | None = None) -> PipelineOutcome:
        wanted = PipelineRequest(
            (str(self.recordings),), str(self.lake), asked=asked or DerivedOptions(CELLS)
        )
        return run(self.spark, wanted)

    def rows(self, table: Table) -> list[Row]:
        return Lake.open(self.spark, str(self.lake)).table(table).collect()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(spark, tmp_path_factory.mktemp("outlook"))


def test_what_was_told_of_a_run_is_held_against_its_end(lake: Told) -> None:
    ended = {row.run_id: row.ended_t for row in lake.rows(tables.RUNS)}
    of_runs = [row for row in lake.rows(tables.ETA_BACKTEST) if row.scope == "run"]
    assert {row.run_id for row in of_runs} == {"two@1", "three@1", "alone@1"}
    for row in of_runs:
        assert row.t + round(row.truth_s * 1000) == ended[row.run_id]
    told = [row for row in of_runs if row.left_s is not None]
    assert {row.run_id for row in told} >= {"two@1", "three@1"}
    assert all(row.low_s <= row.left_s <= row.high_s for row in told)


def test_each_run_and_partition_has_a_moment_in_five_seconds_at_most(lake: Told) -> None:
    rows = lake.rows(tables.ETA_BACKTEST)
    places = [(row.cluster_id, row.run_id, row.topic, row.partition, row.t // 5000) for row in rows]
    assert len(set(places)) == len(places)
    partitions = {row.topic for row in rows if row.cluster_id == "a" and row.scope == "partition"}
    assert partitions == {f"t{n}" for n in range(len(SIZES))}


def of_each_run(rows: list[Row]) -> dict[str, list[Row]]:
    ordered = sorted(rows, key=lambda row: row.run_id)
    return {run_id: list(of) for run_id, of in groupby(ordered, key=lambda row: row.run_id)}


def test_a_run_is_played_under_its_own_limits_and_all_others(lake: Told) -> None:
    runs = of_each_run(lake.rows(tables.WHAT_IF))
    assert {run_id: len(of) for run_id, of in runs.items()} == {
        "two@1": 4,
        "three@1": 4,
        "alone@1": 4,
    }
    for of in runs.values():
        (own,) = (row for row in of if row.own)
        assert own.predicted_s == pytest.approx(own.actual_s, rel=0.2)
        assert all(row.actual_s is None for row in of if not row.own)
        slow = {row.throttle: row.predicted_s for row in of if '"partitions":4' in row.limits}
        assert slow["10MB"] > 1.5 * slow["none"]


def test_the_model_is_held_against_runs_that_it_was_not_fitted_on(lake: Told) -> None:
    runs = of_each_run(lake.rows(tables.WHAT_IF))
    for run_id in ("two@1", "three@1"):
        assert {len(row.calibrated_on) for row in runs[run_id]} == {2}
        (error,) = {row.error_held_out for row in runs[run_id]}
        assert abs(error) < 0.3
    assert {row.error_held_out for row in runs["alone@1"]} == {None}


def test_one_way_is_recommended_for_each_run_and_why(lake: Told) -> None:
    runs = of_each_run(lake.rows(tables.WHAT_IF))
    alone = runs.pop("alone@1")
    for of in runs.values():
        (advised,) = (row for row in of if row.recommended)
        assert advised.reason.startswith("the gentlest of the fastest")
        assert [row.reason for row in of if not row.recommended] == [None] * 3
        assert [row for row in of if row.recommended and row.beyond] == []
    assert not any(row.recommended for row in alone)
    (reason,) = (row.reason for row in alone if row.reason)
    assert reason.startswith("2 runs have to be recorded, and there is 1")


def test_insights_of_every_cluster_are_in_the_lake(lake: Told) -> None:
    found = insights_in(lake.lake)
    assert found == lake.outcome.insights
    assert [each.cluster_id for each in found.clusters] == ["a", "b"]
    a = found.of("a")
    assert a is not None
    assert (a.runs, a.moves) == (2, 2 * len(SIZES))
    assert a.prior is not None
    assert 10e6 < a.prior.replica_bytes_s.p50 < 41e6
    assert {(pair.leader, pair.adding) for pair in a.pairs} == {(1, 7), (2, 8), (3, 9)}
    assert {each.run for each in a.advice} == {"two", "three"}
    assert not a.withheld
    b = found.of("b")
    assert b is not None
    assert not b.advice
    assert [each.run for each in b.withheld] == ["alone"]
    assert {each.scope for each in a.eta} == {"run", "partition"}
    assert not a.stalls


def test_a_lost_file_of_insights_is_made_again(lake: Told) -> None:
    (lake.lake / NAME).unlink()
    assert not lake.run().read
    assert insights_in(lake.lake).of("a") is not None


def test_runs_are_played_anew_for_another_window_though_nothing_is_new(lake: Told) -> None:
    told = lake.run(DerivedOptions(CELLS, window_s=3600.0, anew=True))
    assert not told.read
    runs = of_each_run(lake.rows(tables.WHAT_IF))
    for run_id in ("two@1", "three@1"):
        (advised,) = (row for row in runs[run_id] if row.recommended)
        assert advised.reason.startswith("the fewest at once of the ")
        assert '"partitions":1,' in advised.limits
    assert insights_in(lake.lake) == told.insights


def test_what_was_foretold_outlasts_the_recordings(lake: Told) -> None:
    before = _forecasts(lake, "two@1")
    for segment in (lake.recordings / "two").rglob("*.gz"):
        segment.unlink()
    lake.drain("later", Limits(replicas=1, partitions=2), hours=2)
    lake.run()
    assert _forecasts(lake, "two@1") == before
    assert _forecasts(lake, "later@1")
    a = insights_in(lake.lake).of("a")
    assert a is not None
    assert a.runs == 3
    assert insights_in(lake.lake).of("b") is not None


def _forecasts(lake: Told, run_id: str) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in lake.rows(tables.FORECASTS) if row.run_id == run_id]
    return sorted(rows, key=msgspec.json.encode)
