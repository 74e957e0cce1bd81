"""Predictions for a run fully throttled by rates that were changed on the way."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from ktui.insights.insights import insights_in
from ktui.pipeline.lake.tables import WHAT_IF
from support.pipeline.report_lake import DrainedLake, records_of
from support.recordings.drained_recordings import MB


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
