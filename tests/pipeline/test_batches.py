"""The table `batches`: the decisions of a run."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.execution.run.states import State
from ktui.pipeline.lake.tables import BATCHES
from ktui.pipeline.tables.runs import batches, run_folds
from support.pipeline.lake_rows import assert_documented
from support.pipeline.sampled import ScriptedRun, moment, ms, now, over, planned, started, step

history = ScriptedRun()

Rows = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return batches(run_folds(history.run_events(spark))).persist()


@pytest.fixture(scope="module")
def rows(table: DataFrame) -> Rows:
    return {(row.run_id, row.batch): row.asDict() for row in table.collect()}


history.ran(
    (0, started(3)), (1, planned("a", "b", "c")),
    (2, step("a", 1)), (3, step("b", 1, elect=4)), (5, over("a")),
    (6, step("c", 2, alters=False, elect=4)), (7, step("a", 2)),
    (8, now("b", State.TOPIC_GONE)), (9, over("c")), run_id="one",
)  # fmt: skip
history.ran((0, started()), (1, planned("a")), (2, step("a", 1)), run_id="another")


def test_a_batch_lasts_from_its_first_step_to_the_end_of_its_last(rows: Rows) -> None:
    row = rows["one", 1]
    assert (row["began_t"], row["ended_t"]) == (ms(2), ms(8))
    assert row["began"] == moment(ms(2)).replace(tzinfo=None)
    assert row["ended"] == moment(ms(8)).replace(tzinfo=None)


def test_a_batch_with_an_open_step_has_not_ended(rows: Rows) -> None:
    row = rows["one", 2]
    assert (row["began_t"], row["ended"], row["ended_t"]) == (ms(6), None, None)


def test_a_batch_counts_its_partitions_steps_alters_and_elections(rows: Rows) -> None:
    first, second = rows["one", 1], rows["one", 2]
    names = ("partitions", "steps", "alters", "elections")
    assert [first[name] for name in names] == [2, 2, 2, 1]
    assert [second[name] for name in names] == [2, 2, 1, 1]


def test_batches_of_two_runs_are_kept_apart(rows: Rows) -> None:
    assert rows["another", 1]["steps"] == 1
    assert {key for key in rows if key[0] == "another"} == {("another", 1)}


def test_the_table_has_its_documented_schema(table: DataFrame) -> None:
    assert_documented(table, BATCHES)
