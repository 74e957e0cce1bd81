"""What the table `brokers` tells of each broker, minute by minute."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE
from ktui.pipeline.tables.brokers import brokers
from ktui.pipeline.tables.listings import listed_samples
from support.pipeline.sampled import Row, Told, moment, ms, resting, sample

told = Told()

Rows = dict[tuple[int, int], Row]
"""By broker and minute, from 0."""


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    samples = told.samples(spark)
    return brokers(samples, listed_samples(samples)).persist()


@pytest.fixture(scope="module")
def rows(table: DataFrame) -> Rows:
    minutes = {moment(ms(60 * n)).replace(tzinfo=None): n for n in range(-1, 5)}
    return {(row.broker, minutes[row.minute]): row.asDict() for row in table.collect()}


SIZES = {1: 2_000}  # of 800 messages: 2.5 bytes each

told.seen(
    sample(0, ends={1: 1_000, 4: 200}, sizes=SIZES, log_start=200),
    sample(40, ends={1: 1_000, 4: 301}, sizes=SIZES, log_start=200, throttles={1: 50, 4: 70}),
    sample(61, ends={1: 1_000, 4: 401}, sizes=SIZES, log_start=200, throttles={4: 60}, read=59.999),
    sample(62, ends={1: 1_000, 4: 405}, sizes=SIZES, log_start=200, throttles={4: 65}),
)
told.seen(
    sample(0, ends={4: 10}, adding=(4, 5)),
    sample(40, ends={4: 17}, adding=(5,)),
    sample(45, adding=(4, 5)),
)
told.seen(resting(130, throttles={7: 10}), resting(140, throttles={7: 30}))
told.seen(
    sample(190, ends={8: 0}, adding=(8,), shadowed=True, throttles={8: 1}),
    sample(191, ends={8: 9}, adding=(8,), shadowed=True, throttles={8: 1}),
)
told.seen(
    sample(190, ends={9: 0}, adding=(9,), leader=None, throttles={}),
    sample(191, ends={9: 6}, adding=(9,), leader=None, throttles={}),
)


def test_what_an_added_replica_grew_by_went_to_its_broker_in_the_minute_of_the_reading(
    rows: Rows,
) -> None:
    assert rows[4, 0]["messages_in"] == (301 - 200) + (401 - 301)
    assert rows[4, 1]["messages_in"] == 405 - 401


def test_bytes_are_messages_of_the_leaders_mean_size_made_whole_pair_by_pair(rows: Rows) -> None:
    assert rows[4, 0]["bytes_in"] == 253 + 250  # 252.5 and 250
    assert rows[4, 1]["bytes_in"] == 10


def test_it_came_from_the_leaders_broker(rows: Rows) -> None:
    assert (rows[1, 0]["messages_out"], rows[1, 0]["bytes_out"]) == (201, 503)
    assert (rows[1, 0]["messages_in"], rows[1, 0]["bytes_in"]) == (None, None)
    assert rows[4, 0]["messages_out"] is None


def test_bytes_are_not_told_where_the_size_of_messages_is_not_known(rows: Rows) -> None:
    assert (rows[9, 3]["messages_in"], rows[9, 3]["bytes_in"]) == (6, None)


def test_the_follower_throttle_is_the_highest_that_was_seen(rows: Rows) -> None:
    assert rows[4, 0]["follower_throttle"] == 70
    assert rows[4, 1]["follower_throttle"] == 65
    assert rows[9, 3]["follower_throttle"] is None


def test_a_broker_that_is_only_throttled_has_a_row(rows: Rows) -> None:
    row = rows[7, 2]
    assert (row["follower_throttle"], row["adding"], row["messages_in"]) == (30, 0, None)


def test_adding_is_the_most_partitions_that_one_look_saw_adding_there(rows: Rows) -> None:
    assert rows[4, 0]["adding"] == 2
    assert rows[5, 0]["adding"] == 1
    assert rows[4, 1]["adding"] == 1


def test_shadowed_samples_count_for_nothing(rows: Rows) -> None:
    assert {key for key in rows if key[1] == 3} == {(9, 3)}


def test_the_table_has_the_columns_types_and_nulls_that_it_says(table: DataFrame) -> None:
    assert table.schema == BROKERS_BY_MINUTE.schema
