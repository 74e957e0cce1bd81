"""Spark for tests: small, and on one core of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from ktui.pipeline.lake.sizing import SMALL_JAVA_OPTIONS, SMALL_SETTINGS
from ktui.pipeline.spark.session import start

SMALL = {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "1",
    "spark.driver.extraJavaOptions": SMALL_JAVA_OPTIONS,
    **SMALL_SETTINGS,
}
"""Spark's settings."""


def a_small_spark(folder: Path) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end; its log is in the folder."""
    session = start("local[1]", log=folder / "spark.log", more=SMALL)
    yield session
    session.stop()


def small_settings() -> dict[str, str]:
    """Return the environment in which a `ktui` process passes settings on to its Spark."""
    words = " ".join(f"--conf '{name}={value}'" for name, value in SMALL.items())
    return {"PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"}
