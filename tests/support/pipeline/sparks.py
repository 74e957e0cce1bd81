"""Spark for tests: on one core of this machine, and small unless a test wants large runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.lake import sizing
from ktui.pipeline.lake.sizing import SMALL_JAVA_OPTIONS, SMALL_SETTINGS
from ktui.pipeline.run import run as running
from ktui.pipeline.spark.sail import sail

SMALL = {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "1",
    "spark.driver.extraJavaOptions": SMALL_JAVA_OPTIONS,
    **SMALL_SETTINGS,
}
"""Spark's settings."""
_SPREAD = {"spark.sql.files.minPartitionNum": "2"}
"""Settings that spread a few rows over several tasks, as Spark does with many."""


ENGINE = os.environ.get("KTUI_TEST_ENGINE", "spark")
"""What the tests of the tables run on: spark, or sail in an environment that has it."""


only_spark = pytest.mark.skipif(ENGINE != "spark", reason="only Spark does this")


def an_engine(folder: Path) -> Iterator[SparkSession]:
    """Start the tests' engine, and stop it at the end; Spark's log is in the folder."""
    if ENGINE == "sail":
        # in a process of xdist, whose main module has no file, PySpark believes to be in a doctest
        vars(sys.modules["__main__"]).setdefault("__file__", __file__)
        with sail() as session:
            yield session
    else:
        yield from a_small_spark(folder)


def a_small_spark(folder: Path) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end; its log is in the folder."""
    from ktui.pipeline.spark.session import start  # noqa: PLC0415 - PySpark may have no JVM

    session = start("local[1]", log=folder / "spark.log", more=SMALL)
    yield session
    session.stop()


@contextmanager
def large_runs(spark: SparkSession) -> Iterator[None]:
    """Within the block, any new byte makes a run large, with Spark's settings for a large one."""
    names = SMALL_SETTINGS | _SPREAD
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in names}
    try:
        for name in names:
            spark.conf.unset(name)
        for name, value in _SPREAD.items():
            spark.conf.set(name, value)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sizing, "SMALL_BYTES", 0)
            yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def small_settings() -> dict[str, str]:
    """Return the environment in which a `ktui` process passes settings on to its Spark."""
    words = " ".join(f"--conf '{name}={value}'" for name, value in SMALL.items())
    return {"PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"}


def leave_stages_out(patched: pytest.MonkeyPatch) -> None:
    """Make pipeline runs of this process write no derived table."""
    patched.setattr(running, "derived_tables", lambda *_: iter(()))
