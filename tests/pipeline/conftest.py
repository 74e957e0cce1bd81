"""The Spark session, and a lake, that the tests of the pipeline share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.pipeline.drained_lake import DrainedLake
from support.pipeline.sparks import a_small_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on one core of this machine, for the whole run; its log is in the tests' folder."""
    yield from a_small_spark(tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="session")
def drained_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DrainedLake:
    """A lake of drains, for tests that only read it."""
    return DrainedLake(spark, tmp_path_factory.mktemp("drained"))
