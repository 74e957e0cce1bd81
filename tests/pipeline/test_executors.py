"""What a cluster or its executors lack is told before any work is given to them."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.spark import executors
from ktui.pipeline.spark.executors import check_executors
from ktui.pipeline.spark.probe import ProbeResult
from ktui.pipeline.spark.session import start
from support.pipeline.spark_cluster import python_with


def test_a_master_that_does_not_answer_is_told_before_anything_is_started() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens there
        url = f"spark://127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(PipelineProblem, match=f"{url}: no master answers: Connection refused"):
            start(url)


def test_a_library_that_the_python_of_executors_lacks_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = python_with(tmp_path / "python", "ktui", "pyarrow")
    words = f"{python}, lacks msgspec pyyaml. Install it there"

    with pytest.raises(PipelineProblem, match=words):
        _seen_with(python, spark, monkeypatch, tmp_path)


def test_executors_of_another_version_of_python_are_told_with_both_versions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.99")  # as if this one was newer
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = rf"version: {own} than that in driver: 3\.99.* as {sys.executable}. Set PYSPARK_"

    with pytest.raises(PipelineProblem, match=words):
        _seen_with(Path(sys.executable), spark, monkeypatch, tmp_path)


def test_a_python_that_executors_do_not_find_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = "No such file or directory. Executors start Python as /nowhere/python"

    with pytest.raises(PipelineProblem, match=words):
        _seen_with(Path("/nowhere/python"), spark, monkeypatch, tmp_path)


def _seen_with(
    python: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Look at executors whose Python is another."""
    monkeypatch.setattr(executors, "is_local", lambda _: False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    check_executors(spark.sparkContext, (), str(folder / "lake"), lambda _: None)


def test_a_folder_that_executors_do_not_see_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def elsewhere(paths: Iterable[str]) -> Iterator[ProbeResult]:
        """Look from a machine that has a folder of that name, too, without what is put there."""
        yield ProbeResult("host-7", "python3", (), tuple(paths))

    monkeypatch.setattr(executors, "is_local", lambda _: False)
    monkeypatch.setattr(executors, "probe", elsewhere)

    with pytest.raises(PipelineProblem, match=f"^{tmp_path}/lake: executors on host-7 do not see"):
        check_executors(spark.sparkContext, (), str(tmp_path / "lake"), lambda _: None)
    assert not list((tmp_path / "lake").iterdir())
