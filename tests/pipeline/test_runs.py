"""The table `runs`: a run as of its last recorded event."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.execution.run.events import CancelAsked, Ended, LimitsChanged
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.pipeline.lake.tables import RUNS
from ktui.pipeline.tables.runs import run_folds, runs
from support.pipeline.lake_rows import assert_documented
from support.pipeline.sampled import (
    LIMITS,
    ScriptedRun,
    moment,
    ms,
    now,
    over,
    planned,
    started,
    step,
    tp,
)

history = ScriptedRun()

Rows = dict[str, Any]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return runs(run_folds(history.run_events(spark))).persist()


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
history.ran(*WHOLE, run_id="whole", run="drain-3")
history.ran(*WHOLE[:6], run_id="under-way")
again = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(tp("a"),))
history.ran(*WHOLE, (20, again), run_id="taken-up-again")
history.ran((5, over("a")), (6, step("a", 9)), run_id="headless")
history.recorded(0, 1, '{"event":"of-a-newer-ktui"}', run_id="unreadable")


def test_a_run_counts_its_steps_and_the_outcomes_of_its_partitions(rows: Rows) -> None:
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


def test_an_unfinished_run_has_no_end_and_counts_its_partitions_by_state(rows: Rows) -> None:
    row = rows["under-way"]
    assert (row["ended"], row["ended_t"]) == (None, None)
    assert row["outcomes"] == {"done": 1, "adding": 1, "queued": 1}


def test_a_run_resumed_by_an_operator_after_its_end_has_not_ended(rows: Rows) -> None:
    row = rows["taken-up-again"]
    assert row["ended"] is None
    assert row["outcomes"] == {"rolling_back": 1, "done": 1, "failed": 1}


def test_a_run_with_an_unrecorded_beginning_reports_what_it_can(rows: Rows) -> None:
    row = rows["headless"]
    assert (row["began"], row["plan"], row["version"]) == (None, None, None)
    assert (row["steps"], row["batches"], row["partitions"], row["outcomes"]) == (1, 1, 0, {})


def test_a_run_without_readable_events_still_has_a_row(rows: Rows) -> None:
    row = rows["unreadable"]
    assert (row["steps"], row["partitions"], row["began"]) == (0, 0, None)


def test_the_table_has_its_documented_schema(table: DataFrame) -> None:
    assert_documented(table, RUNS)
