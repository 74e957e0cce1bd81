"""The tables of a run whose rates were chosen by an objective and by the time of --by."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pyspark.sql import Row

from ktui.pipeline.lake.tables import RATES, RUNS, WHAT_IF
from support.pipeline.report_lake import DrainedLake, records_of

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
