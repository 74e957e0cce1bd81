"""Spark starts, on this machine or a cluster, and its failures are reported in one line."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.lake.manifest import PipelineProblem, SparkFailed
from ktui.pipeline.spark import cluster
from ktui.pipeline.spark.cluster import (
    check_executors,
    check_resource_manager,
)
from ktui.pipeline.spark.errors import spark_errors_as_problems
from ktui.pipeline.spark.probe import ProbeResult
from ktui.pipeline.spark.session import start
from support.pipeline.follower import pipeline_process
from support.pipeline.lake_rows import looks, record
from support.pipeline.spark_cluster import python_with
from support.pipeline.sparks import small_settings


def test_a_library_missing_from_the_python_of_executors_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = python_with(tmp_path / "python", "ktui", "pyarrow")
    words = f"{python}, lacks msgspec pyyaml. Install it there"

    with pytest.raises(PipelineProblem, match=words):
        _seen_with(python, spark, monkeypatch, tmp_path)


def test_executors_with_another_python_version_are_reported_with_both_versions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.99")  # as if this one was newer
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = rf"version: {own} than that in driver: 3\.99.* as {sys.executable}. Set PYSPARK_"

    with pytest.raises(PipelineProblem, match=words):
        _seen_with(Path(sys.executable), spark, monkeypatch, tmp_path)


def test_a_python_missing_on_the_executors_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = "No such file or directory. Executors start Python as /nowhere/python"

    with pytest.raises(PipelineProblem, match=words):
        _seen_with(Path("/nowhere/python"), spark, monkeypatch, tmp_path)


def _seen_with(
    python: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Check executors that use another Python."""
    monkeypatch.setattr(cluster, "is_local", lambda _: False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    check_executors(spark.sparkContext, (), str(folder / "lake"), lambda _: None)


def test_a_folder_invisible_to_the_executors_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def elsewhere(paths: Iterable[str]) -> Iterator[ProbeResult]:
        """Probe from a machine whose folder of that name lacks the probe files."""
        yield ProbeResult("host-7", "python3", (), tuple(paths))

    monkeypatch.setattr(cluster, "is_local", lambda _: False)
    monkeypatch.setattr(cluster, "probe", elsewhere)

    with pytest.raises(PipelineProblem, match=f"^{tmp_path}/lake: executors on host-7 do not see"):
        check_executors(spark.sparkContext, (), str(tmp_path / "lake"), lambda _: None)
    assert not list((tmp_path / "lake").iterdir())


MANAGER = "yarn.resourcemanager.address"


@pytest.fixture
def silent() -> Iterator[str]:
    """A place that is bound, but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def answering() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def yarn(spark: SparkSession) -> Any:
    """Hadoop's configuration, as it is without any file."""
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()


def test_a_silent_master_is_reported_before_anything_is_started(silent: str) -> None:
    words = f"spark://{silent}: no master answers: Connection refused"
    with pytest.raises(PipelineProblem, match=words):
        start(f"spark://{silent}")


def test_a_silent_resource_manager_of_yarn_is_reported_with_its_address(
    yarn: Any, silent: str
) -> None:
    yarn.set(MANAGER, silent)

    words = f"{silent}: no resource manager of YARN answers: Connection refused. The yarn-site.xml"
    with pytest.raises(PipelineProblem, match=words):
        check_resource_manager(yarn)


def test_a_resource_manager_is_found_by_its_hosts_name_alone(yarn: Any) -> None:
    yarn.set("yarn.resourcemanager.hostname", "nowhere.invalid")

    with pytest.raises(PipelineProblem, match=r"nowhere\.invalid:8032: no resource manager"):
        check_resource_manager(yarn)


def test_of_two_resource_managers_one_has_to_answer(yarn: Any, silent: str, answering: str) -> None:
    yarn.set("yarn.resourcemanager.ha.enabled", "true")
    yarn.set("yarn.resourcemanager.ha.rm-ids", "one, other")
    yarn.set(f"{MANAGER}.one", silent)
    yarn.set(f"{MANAGER}.other", answering)
    check_resource_manager(yarn)

    yarn.set("yarn.resourcemanager.hostname.other", "127.0.0.1")
    yarn.set(f"{MANAGER}.other", silent)
    with pytest.raises(PipelineProblem, match=f"{silent}, {silent}: no resource manager of YARN"):
        check_resource_manager(yarn)


def test_an_address_that_hadoop_cannot_read_is_left_to_spark(yarn: Any) -> None:
    yarn.set(MANAGER, "host:port:8032")

    check_resource_manager(yarn)


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
