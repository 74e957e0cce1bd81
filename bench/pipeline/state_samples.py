"""Synthetic samples of partitions that are reassigned again and again, for the states job."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

A_PARTITION = 2_000
"""Samples per partition, one second apart."""
_CYCLE, _LISTED_FOR, _READ_FROM, _IN_SYNC_FROM = 250, 200, 5, 180
_STANDS_FROM, _STANDS_FOR = 80, 50
START_MS = 1_767_225_600_000


def write(spark: SparkSession, samples: int, folder: Path) -> None:
    """Write this many samples as Parquet, in eight files."""
    made(spark, samples).write.mode("overwrite").parquet(str(folder))


def made(spark: SparkSession, samples: int) -> DataFrame:
    """Make samples of moves: each is listed, read, stalls for a while, and then gets in sync.

    The samples have the columns of the lake's `samples` that `listings.listed` needs.
    """
    key = (F.col("id") / A_PARTITION).cast("bigint")
    second = F.col("id") % A_PARTITION
    phase = (second + key * 7) % _CYCLE
    listed, synced = phase < _LISTED_FOR, phase >= _IN_SYNC_FROM
    moving = F.greatest(phase - _READ_FROM, F.lit(0)) - F.least(
        F.greatest(phase - _STANDS_FROM, F.lit(0)), F.lit(_STANDS_FOR)
    )
    t = second * 1000 + START_MS
    end = (moving * 50_000 + second).cast("bigint") - second
    return spark.range(samples, numPartitions=8).select(
        F.lit("bench").alias("cluster_id"),
        F.concat(F.lit("topic-"), key % 40).alias("topic"),
        F.lit(None).cast("string").alias("topic_id"),
        key.cast("int").alias("partition"),
        t.alias("t"),
        F.lit("session").alias("session"),
        second.alias("seq"),
        _brokers(listed, [1, 2, 3, 4], [1, 2, 3]).alias("replicas"),
        _brokers(listed & synced, [1, 2, 3, 4], [1, 2, 3]).alias("isr"),
        F.lit(1).alias("leader"),
        _brokers(listed, [4], []).alias("adding"),
        _brokers(listed, [3], []).alias("removing"),
        F.lit(col=True).alias("described"),
        F.when(phase >= _READ_FROM, F.array(_end(1, second * 1_000, t), _end(4, end, t)))
        .otherwise(F.array(_end(1, second * 1_000, t)))
        .alias("ends"),
        F.lit(0).cast("bigint").alias("log_start"),
        F.array(_size(1, second * 100_000, t)).alias("sizes"),
        F.expr("cast(array() as array<struct<broker:int,follower:bigint,leader:bigint>>)").alias(
            "rates"
        ),
        F.lit(col=False).alias("shadowed"),
    )


def _brokers(where: Column, these: list[int], others: list[int]) -> Column:
    def literal(brokers: list[int]) -> Column:
        return F.array(*map(F.lit, brokers)).cast("array<int>")

    return F.when(where, literal(these)).otherwise(literal(others))


def _end(broker: int, end: Column, t: Column) -> Column:
    return F.struct(
        F.lit(broker).alias("broker"), end.cast("bigint").alias("end"), t.alias("read_t")
    )


def _size(broker: int, size: Column, t: Column) -> Column:
    return F.struct(
        F.lit(broker).alias("broker"), size.cast("bigint").alias("bytes"), t.alias("read_t")
    )
