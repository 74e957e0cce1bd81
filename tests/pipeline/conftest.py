"""The Spark session that the tests of the pipeline share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.session import start

_SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # a test's tables are small: what compiling gains, it costs many times over
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores of this machine, for the whole run; its log is in the tests' folder."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = start("local[2]", log=log, more=_SMALL)
    yield session
    session.stop()
