"""Settings of Spark by the size of a run.

Spark plans, generates code and compiles it for tables of any size. On a small one that costs many
times what the work itself does. So a small run has one partition, which needs no shuffles, and
nothing of it is compiled that need not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from ktui.pipeline.lake.manifest import Manifest

SMALL_BYTES = 4 << 20
"""New recordings and a lake's samples of at most so many bytes, compressed, make a small run: some
400,000 samples."""

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_ONE = "1"
SMALL_SETTINGS = {
    _SHUFFLE_PARTITIONS: _ONE,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
    # by default few groups are aggregated by their hashes, and more are sorted
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
    "spark.sql.subexpressionElimination.enabled": "false",
    # a join of one partition with one needs neither a shuffle nor a job that broadcasts a side
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
SMALL_JAVA_OPTIONS = (
    # one compiler has room for 48 MiB of code by default; once that is full, it drops code and
    # compiles the same again, over and over
    "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.2 -XX:ReservedCodeCacheSize=256m "
    "-XX:+UseSerialGC -Xmn400m -XX:MetaspaceSize=256m -Djdk.lang.Process.launchMechanism=VFORK"
)
"""Options of a JVM for a small run, which ends before a second compiler pays."""


def is_small(new_bytes: int, lake: Manifest) -> bool:
    """Whether a run is small.

    Args:
        new_bytes: the size of the segments that the lake does not have.
        lake: the current version. Its samples count too, because the run reads what the lake has of
            the clusters with new segments, and which these are is not known yet.
    """
    samples = lake.tables.get("samples", {}).values()
    kept = sum(file.length for part in samples for file in part.files)
    return new_bytes + kept <= SMALL_BYTES


@contextmanager
def sized(spark: SparkSession, *, small: bool) -> Iterator[None]:
    """Within the block, give Spark the settings for a small run if it is one."""
    before = {name: spark.conf.get(name) or "" for name in SMALL_SETTINGS}
    for name, value in SMALL_SETTINGS.items() if small else ():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def runs_small(spark: SparkSession) -> bool:
    """Whether the settings for a small run are in force."""
    return spark.conf.get(_SHUFFLE_PARTITIONS) == _ONE


def keeps_rows(spark: SparkSession) -> bool:
    """Whether rows are kept in memory as they are: in a small run of this machine alone.

    Of a cluster, an executor may leave with what it keeps.
    """
    return runs_small(spark) and str(spark.sparkContext.master).startswith("local")


def computed_once(rows: DataFrame) -> DataFrame:
    """Return rows that Spark computes once, at their first use, until `unpersist`.

    A small run keeps the rows themselves, until nothing refers to them: columns cost a generated
    class for each use, and all plans on such rows would have theirs within them.
    """
    return rows.localCheckpoint(eager=False) if keeps_rows(rows.sparkSession) else rows.persist()


def as_one_partition(rows: DataFrame) -> DataFrame:
    """Return rows in one partition in a small run, and as they are in any other."""
    return rows.coalesce(1) if runs_small(rows.sparkSession) else rows
