"""Settings of Spark by the size of a run.

Spark plans, generates code and compiles it for tables of any size, which costs a small run many
times the work itself: that one has one partition, without shuffles, and little is compiled.

On one machine a larger run has as many partitions as its bytes ask for, and no new plan between
stages, which took longer than the work of a million samples. A cluster plans again, for an executor
with most of the rows would hold up all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from ktui.pipeline.lake.engine import Py4JError, on_sail

if TYPE_CHECKING:  # PySpark without a JVM has none
    from pyspark import SparkContext

SMALL_BYTES = 4 << 20
"""The most compressed bytes, of new recordings and what is read with them, of a small run."""
LARGE_BYTES = SMALL_BYTES + 1
ROW_BYTES = 10  # about as many bytes of recordings make a sample, or another row of a large table
PARTITION_BYTES = 4 << 20  # on one machine a larger run has a partition for so many of these bytes

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_ONE = "1"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_ONE_MACHINE = {_ADAPTIVE: "false", "spark.sql.constraintPropagation.enabled": "false"}
SMALL_SETTINGS = {
    **_ONE_MACHINE,
    _SHUFFLE_PARTITIONS: _ONE,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
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
    "-XX:+UseSerialGC -Xmn400m -XX:InitialRAMPercentage=10 -XX:MetaspaceSize=256m "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
"""Options of a JVM that reads little, and ends before a second compiler pays."""


def ends_soon(new_bytes: int) -> bool:
    """Whether a run of so many new bytes is so short that its JVM gets `SMALL_JAVA_OPTIONS`."""
    return new_bytes <= SMALL_BYTES


Resize = Callable[[int], None]
"""Changes Spark's settings to those for reading so many compressed bytes."""


class Sizing:
    """Switches Spark's usual settings to suit the size of what is read next."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._usual = (
            {}
            if on_sail(spark)
            else {name: spark.conf.get(name) or "" for name in SMALL_SETTINGS | _ONE_MACHINE}
        )
        self._size = 0

    def resize(self, size: int) -> None:
        self._size = size
        self._set(_settings(self._spark, size))

    @contextmanager
    def at_least(self, size: int) -> Iterator[None]:
        before = self._size
        self.resize(max(before, size))
        yield
        self.resize(before)

    def end(self) -> None:
        self._set({})

    def _set(self, settings: Mapping[str, str]) -> None:
        for name, value in {**self._usual, **settings}.items():
            self._spark.conf.set(name, value)


@contextmanager
def sized(spark: SparkSession, size: int) -> Iterator[Sizing]:
    """Give Spark the settings for reading so many compressed bytes; yield a way to change them."""
    sizing = Sizing(spark)
    sizing.resize(size)
    try:
        yield sizing
    finally:
        sizing.end()


def _settings(spark: SparkSession, size: int) -> dict[str, str]:
    if on_sail(spark):
        return {}
    if size <= SMALL_BYTES:
        return dict(SMALL_SETTINGS)
    if not is_local(spark.sparkContext):
        return {}
    partitions = max(2, spark.sparkContext.defaultParallelism, -(-size // PARTITION_BYTES))
    return {**_ONE_MACHINE, _SHUFFLE_PARTITIONS: str(partitions)}


def is_local(context: SparkContext) -> bool:
    """Whether all work is done in this process's own JVM."""
    return str(context.master).startswith("local")


def runs_small(spark: SparkSession) -> bool:
    """Whether the settings for a small run are in force; Sail has none, and no shuffle to spare."""
    return on_sail(spark) or spark.conf.get(_SHUFFLE_PARTITIONS) == _ONE


def keeps_rows(spark: SparkSession) -> bool:
    """Whether rows are kept in memory: in a small run of this machine; an executor may leave."""
    return not on_sail(spark) and runs_small(spark) and is_local(spark.sparkContext)


def computed_once(rows: DataFrame) -> DataFrame:
    """Return rows that Spark computes once, until `forget`; a small run keeps the rows."""
    if on_sail(rows):  # it neither persists rows nor checkpoints them later
        return rows.localCheckpoint()
    return rows.localCheckpoint(eager=False) if keeps_rows(rows.sparkSession) else rows.persist()


def forget(rows: DataFrame) -> None:
    """Free what is kept of some rows. A dead JVM is ignored: its last job has failed already."""
    if not on_sail(rows):
        with suppress(Py4JError, ConnectionError):
            rows.unpersist()


def by_folder(rows: DataFrame, columns: Collection[str]) -> DataFrame:
    """Return rows with those of one folder in few partitions, so that a folder has few files."""
    if runs_small(rows.sparkSession):
        return rows.coalesce(1)
    if not columns:
        return rows
    if rows.sparkSession.conf.get(_ADAPTIVE) == "true":  # one task per folder, more for large ones
        return rows.hint("rebalance", *columns)
    return rows.repartition(*columns)


def as_one_partition(rows: DataFrame) -> DataFrame:
    """Return rows in one partition in a small run, and as they are in any other."""
    return rows.coalesce(1) if runs_small(rows.sparkSession) else rows
