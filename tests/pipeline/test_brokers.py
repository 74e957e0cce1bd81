"""The table `brokers`: each broker, minute by minute."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE
from ktui.pipeline.tables.listings import listed_samples, rate_pairs
from ktui.pipeline.tables.moves import brokers
from support.pipeline.lake_rows import assert_documented
from support.pipeline.sampled import Row, ScriptedRun, moment, ms, resting, sample

history = ScriptedRun()

Rows = dict[tuple[int, int], Row]
"""Rows by broker and by minute from 0."""


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    samples = history.samples(spark)
    listed = listed_samples(samples)
    return brokers(samples, listed, rate_pairs(listed)).persist()


@pytest.fixture(scope="module")
def rows(table: DataFrame) -> Rows:
    minutes = {moment(ms(60 * n)).replace(tzinfo=None): n for n in range(-1, 5)}
    return {(row.broker, minutes[row.minute]): row.asDict() for row in table.collect()}


SIZES = {1: 2_000}  # of 800 messages: 2.5 bytes each

history.seen(
    sample(0, ends={1: 1_000, 4: 200}, sizes=SIZES, log_start=200),
    sample(40, ends={1: 1_000, 4: 301}, sizes=SIZES, log_start=200, throttles={1: 50, 4: 70}),
    sample(61, ends={1: 1_000, 4: 401}, sizes=SIZES, log_start=200, throttles={4: 60}, read=59.999),
    sample(62, ends={1: 1_000, 4: 405}, sizes=SIZES, log_start=200, throttles={4: 65}),
)
history.seen(
    sample(0, ends={4: 10}, adding=(4, 5)),
    sample(40, ends={4: 17}, adding=(5,)),
    sample(45, adding=(4, 5)),
)
history.seen(resting(130, throttles={7: 10}), resting(140, throttles={7: 30}))
history.seen(
    sample(190, ends={8: 0}, adding=(8,), shadowed=True, throttles={8: 1}),
    sample(191, ends={8: 9}, adding=(8,), shadowed=True, throttles={8: 1}),
)
history.seen(
    sample(190, ends={9: 0}, adding=(9,), leader=None, throttles={}),
    sample(191, ends={9: 6}, adding=(9,), leader=None, throttles={}),
)


def test_the_growth_of_an_added_replica_counts_for_its_broker_in_the_reading_minute(
    rows: Rows,
) -> None:
    assert rows[4, 0]["messages_in"] == (301 - 200) + (401 - 301)
    assert rows[4, 1]["messages_in"] == 405 - 401


def test_bytes_are_messages_times_the_leaders_mean_size_rounded_pair_by_pair(rows: Rows) -> None:
    assert rows[4, 0]["bytes_in"] == 253 + 250  # 252.5 and 250
    assert rows[4, 1]["bytes_in"] == 10


def test_copied_messages_count_as_sent_by_the_leaders_broker(rows: Rows) -> None:
    assert (rows[1, 0]["messages_out"], rows[1, 0]["bytes_out"]) == (201, 503)
    assert (rows[1, 0]["messages_in"], rows[1, 0]["bytes_in"]) == (None, None)
    assert rows[4, 0]["messages_out"] is None


def test_bytes_are_null_when_the_message_size_is_unknown(rows: Rows) -> None:
    assert (rows[9, 3]["messages_in"], rows[9, 3]["bytes_in"]) == (6, None)


def test_the_follower_throttle_is_the_highest_seen_in_the_minute(rows: Rows) -> None:
    assert rows[4, 0]["follower_throttle"] == 70
    assert rows[4, 1]["follower_throttle"] == 65
    assert rows[9, 3]["follower_throttle"] is None


def test_a_broker_that_is_only_throttled_has_a_row(rows: Rows) -> None:
    row = rows[7, 2]
    assert (row["follower_throttle"], row["adding"], row["messages_in"]) == (30, 0, None)


def test_adding_is_the_most_partitions_seen_adding_there_in_one_poll(rows: Rows) -> None:
    assert rows[4, 0]["adding"] == 2
    assert rows[5, 0]["adding"] == 1
    assert rows[4, 1]["adding"] == 1


def test_shadowed_samples_count_for_nothing(rows: Rows) -> None:
    assert {key for key in rows if key[1] == 3} == {(9, 3)}


def test_the_table_has_its_documented_schema(table: DataFrame) -> None:
    assert_documented(table, BROKERS_BY_MINUTE)
