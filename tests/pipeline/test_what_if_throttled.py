"""What is foretold of a run whose every copy a throttle held up, which was changed on the way."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from ktui.insights.file import insights_in
from ktui.pipeline.lake.tables import WHAT_IF
from support.pipeline.drained_lake import DrainedLake, records_of
from support.recordings.drained_recordings import MB


@pytest.fixture(scope="module")
def played(drained_lake: DrainedLake) -> dict[str, Row]:
    """How the run is foretold with four partitions at once, by throttle."""
    rows = records_of(drained_lake.first, WHAT_IF, run_id="throttled@1")
    return {row.throttle: row for row in rows if '"partitions":4' in row.limits and not row.own}


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
    drained_lake: DrainedLake,
) -> None:
    told = insights_in(drained_lake.first).of("c")
    assert told is not None
    assert told.prior is not None
    assert told.prior.curve.throttled == pytest.approx(1.0, abs=0.05)
