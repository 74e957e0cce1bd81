"""The Spark session, and a lake, that the tests of the pipeline share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.run import run as running
from support.pipeline.report_lake import DrainedLake
from support.pipeline.sparks import ENGINE, an_engine, leave_stages_out

_OF_SPARK = (
    "lake_files", "object_store", "spark", "spark_cluster", "yarn", "report_meanwhile",
    "lake_readers",
)  # fmt: skip
"""The tests of what only Spark does: its JVM and its clusters."""
collect_ignore = [] if ENGINE == "spark" else [f"test_{each}.py" for each in _OF_SPARK]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on one core of this machine, or Sail, for the whole run."""
    yield from an_engine(tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="session")
def drained_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DrainedLake:
    """A lake of drains, for tests that only read it."""
    return DrainedLake(spark, tmp_path_factory.mktemp("drained"))


@pytest.fixture
def no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the tables derived from samples: they are slow and not under test here."""
    leave_stages_out(monkeypatch)


@pytest.fixture
def no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out all tables: a test is only about which segments are read, and when."""
    monkeypatch.setattr(running, "_write", lambda *_: running.Written({}))
    monkeypatch.setattr(running, "_replay", lambda *_: None)
