"""What the table `runs` tells of a run, by its last recorded event."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import CancelAsked, Ended, LimitsChanged
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.pipeline.lake.tables import RUNS
from ktui.pipeline.tables.run_folds import run_folds
from ktui.pipeline.tables.runs import runs
from support.pipeline.sampled import (
    LIMITS,
    Told,
    moment,
    ms,
    now,
    over,
    planned,
    started,
    step,
    tp,
)

told = Told()

Rows = dict[str, Any]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return runs(run_folds(told.run_events(spark))).persist()


@pytest.fixture(scope="module")
def rows(table: DataFrame) -> Rows:
    return {row.run_id: row.asDict() for row in table.collect()}


WIDER = Limits(replicas=3)
WHOLE = (
    (0, started(3, "drain.json")), (1, planned("a", "b", "c")),
    (2, step("a")), (2, step("b")), (3, over("a")), (3, now("a")),
    (4, LimitsChanged(old=LIMITS, new=WIDER, batch=1, in_flight=1)),
    (5, step("c", 2)), (6, over("b")), (6, now("b", State.FAILED)),
    (7, step("c", 3)), (8, over("c")), (8, now("c")),
    (9, Ended(counts={State.DONE: 2, State.FAILED: 1})),
)  # fmt: skip
told.ran(*WHOLE, run_id="whole", run="drain-3")
told.ran(*WHOLE[:6], run_id="under-way")
again = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(tp("a"),))
told.ran(*WHOLE, (20, again), run_id="taken-up-again")
told.ran((5, over("a")), (6, step("a", 9)), run_id="headless")
told.recorded(0, 1, '{"event":"of-a-newer-ktui"}', run_id="unreadable")


def test_a_run_is_told_by_what_it_did_and_what_became_of_its_partitions(rows: Rows) -> None:
    row = rows["whole"]
    assert (row["cluster_id"], row["run"], row["plan"]) == ("cluster", "drain-3", "drain.json")
    assert (row["partitions"], row["batches"], row["steps"]) == (3, 3, 4)
    assert row["outcomes"] == {"done": 2, "failed": 1}
    assert (row["limit_changes"], row["version"]) == (1, "1.0")


def test_a_run_lasts_from_its_start_to_its_end(rows: Rows) -> None:
    row = rows["whole"]
    assert (row["began_t"], row["ended_t"]) == (ms(0), ms(9))
    assert row["began"] == moment(ms(0)).replace(tzinfo=None)
    assert row["ended"] == moment(ms(9)).replace(tzinfo=None)


def test_a_run_under_way_has_no_end_and_counts_where_its_partitions_are(rows: Rows) -> None:
    row = rows["under-way"]
    assert (row["ended"], row["ended_t"]) == (None, None)
    assert row["outcomes"] == {"done": 1, "adding": 1, "queued": 1}


def test_a_run_that_an_operator_takes_up_again_after_its_end_has_not_ended(rows: Rows) -> None:
    row = rows["taken-up-again"]
    assert row["ended"] is None
    assert row["outcomes"] == {"rolling_back": 1, "done": 1, "failed": 1}


def test_a_run_whose_beginning_was_not_recorded_tells_what_it_can(rows: Rows) -> None:
    row = rows["headless"]
    assert (row["began"], row["plan"], row["version"]) == (None, None, None)
    assert (row["steps"], row["batches"], row["partitions"], row["outcomes"]) == (1, 1, 0, {})


def test_a_run_of_which_no_event_can_be_read_is_there(rows: Rows) -> None:
    row = rows["unreadable"]
    assert (row["steps"], row["partitions"], row["began"]) == (0, 0, None)


def test_the_table_has_the_columns_types_and_nulls_that_it_says(table: DataFrame) -> None:
    assert table.schema == RUNS.schema
