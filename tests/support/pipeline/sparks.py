"""Spark for tests: small, and on one core of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from ktui.pipeline.spark.session import start

_JAVA_OPTIONS = (
    # with one compiler the JVM has room for 48 MiB of code; once that is full, it drops code and
    # compiles the same again, over and over
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xmn400m"
)
_SMALL = {
    "spark.driver.memory": "1g",
    # several tasks for a stage run in the tests of a cluster
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # a test's tables are small: compiling and adaptive planning cost far more than they gain
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def a_small_spark(folder: Path) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end; its log is in the folder."""
    session = start("local[1]", log=folder / "spark.log", more=_SMALL)
    yield session
    session.stop()


def small_settings() -> dict[str, str]:
    """Return the environment in which a `ktui` process passes settings on to its Spark."""
    words = " ".join(f"--conf '{name}={value}'" for name, value in _SMALL.items())
    return {"PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"}
