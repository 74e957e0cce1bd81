"""What is foretold of a run whose every copy a throttle held up, which was changed on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from ktui.execution.journal.commands import SetThrottle
from ktui.insights.file import insights_in
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.tables import WHAT_IF
from ktui.pipeline.run.run import PipelineRequest, run
from ktui.pipeline.what_if.grid import GridCell
from ktui.planning.throttle_rates import parse_throttle_rates
from support.recordings.drained_recordings import MB, drained

LIMITS = Limits(replicas=1, partitions=4)
SIZES = [30 * MB, 50 * MB, 40 * MB, 20 * MB, 60 * MB, 35 * MB]
CHANGED = {25.0: "1MB", 80.0: "3MB"}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the lake of one drain, of which nothing was copied without a throttle."""
    folder = tmp_path_factory.mktemp("throttled")
    drained(
        folder / "recordings",
        sizes=SIZES,
        limits=LIMITS,
        throttle=parse_throttle_rates("4MB"),
        asked={at_s: SetThrottle(parse_throttle_rates(rate)) for at_s, rate in CHANGED.items()},
    )
    cells = (GridCell(LIMITS), GridCell(LIMITS, parse_throttle_rates("3MB")))
    run(
        spark,
        PipelineRequest(
            (str(folder / "recordings"),), str(folder / "lake"), asked=DerivedOptions(cells)
        ),
    )
    return folder / "lake"


@pytest.fixture(scope="module")
def played(spark: SparkSession, lake: Path) -> dict[str, Row]:
    rows = Lake.open(spark, str(lake)).table(WHAT_IF).collect()
    return {row.throttle: row for row in rows}


def test_without_a_throttle_it_is_foretold_as_fast_as_ktui_assumes_of_any_cluster(
    played: dict[str, Row],
) -> None:
    free, throttled = played["none"], played["3MB"]
    assert free.broker_bytes_s == 50 * MB
    assert free.predicted_s < throttled.predicted_s / 2


def test_under_a_throttle_it_is_foretold_to_take_in_what_the_throttle_lets_through(
    played: dict[str, Row],
) -> None:
    assert played["3MB"].broker_bytes_s == pytest.approx(3 * MB, rel=0.1)


def test_what_earlier_runs_tell_of_throttles_is_what_each_let_through_in_its_time(
    lake: Path,
) -> None:
    (told,) = insights_in(lake).clusters
    assert told.prior is not None
    assert told.prior.curve.throttled == pytest.approx(1.0, abs=0.05)
