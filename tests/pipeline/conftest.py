"""The Spark session that the tests of the pipeline share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.pipeline.sparks import a_small_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores of this machine, for the whole run; its log is in the tests' folder."""
    yield from a_small_spark(tmp_path_factory.mktemp("spark"))
