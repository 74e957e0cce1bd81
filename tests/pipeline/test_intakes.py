"""What a broker takes in while a throttle holds it up: pauses count, the wait before does not."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ktui.pipeline.tables.moves import intakes

PAIRS = """cluster_id string, broker int, leader int, read_t bigint, throttle bigint, ms bigint,
    messages bigint, begun boolean, message_bytes double"""


def taken_in(
    spark: SparkSession, *seconds: tuple[int, bool], throttle: int | None = 1000
) -> dict[int, tuple[int, int]]:
    """Return seconds and bytes by replicas at once, of messages and `begun` second by second."""
    rows = [
        ("c", 4, 1, 1000 * (n + 1), throttle, 1000, messages, begun, 10.0)
        for n, (messages, begun) in enumerate(seconds)
    ]
    found = intakes(spark.createDataFrame(rows, PAIRS)).collect()
    return {row.at_once: (row.ms // 1000, row.bytes) for row in found}


def test_pauses_of_a_throttle_count_once_a_replica_has_its_first_bytes(spark: SparkSession) -> None:
    found = taken_in(spark, (0, False), (0, False), (90, False), (0, True), (0, True), (80, True))

    assert found == {1: (2, 1700), 0: (2, 0)}


def test_nothing_counts_where_nothing_comes_without_a_throttle(spark: SparkSession) -> None:
    assert taken_in(spark, (0, True), (90, True), throttle=None) == {1: (1, 900)}
