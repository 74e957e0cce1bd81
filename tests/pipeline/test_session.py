"""Spark starts on this machine, in UTC, and its failures are reported in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.errors import SparkFailed
from ktui.pipeline.spark.master import spark_errors_as_problems
from support.pipeline.follower import pipeline_process
from support.pipeline.lake_rows import looks, record
from support.pipeline.sparks import small_settings


def test_spark_times_are_in_utc(spark: SparkSession) -> None:
    text = "cast(timestamp_millis(0) as string) as at"
    row = spark.range(1).selectExpr(text).first()

    assert row is not None
    assert row["at"] == "1970-01-01 00:00:00"


def test_spark_listens_on_this_machine_only(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_a_setting_of_the_users_stays_in_force(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"  # as sparks.py asks for


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("No space left on device", "no space is left on the disk of the lake"),
        ("the dog ate it", "Spark failed: .*the dog ate it"),
    ],
)
def test_a_failure_in_spark_is_reported_by_its_cause(
    spark: SparkSession, cause: str, words: str
) -> None:
    with pytest.raises(SparkFailed, match=words), spark_errors_as_problems():
        spark.range(1).selectExpr(f"raise_error('{cause}')").collect()


def test_a_run_whose_jvm_is_killed_says_so_in_one_line(tmp_path: Path) -> None:
    record(tmp_path / "recorded", looks(20))
    places = ("--recordings", str(tmp_path / "recorded"), "--lake", str(tmp_path / "lake"))
    how = ("--master", "local[1]", "--state-dir", str(tmp_path / "state"))
    with pipeline_process((*places, *how), {**os.environ, **small_settings()}) as running:
        running.works_on("samples")
        running.loses_its_jvm()
        code, printed = running.ends()

    assert code == 1
    assert "ktui: Spark failed: its JVM was killed by SIGKILL" in printed
    assert "Traceback" not in printed


def test_a_connection_cut_by_a_dying_jvm_prints_no_traceback(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    server: Any = spark.sparkContext._accumulatorServer

    server.handle_error(None, ("127.0.0.1", 1))

    assert capfd.readouterr() == ("", "")
