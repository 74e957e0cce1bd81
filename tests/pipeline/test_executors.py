"""Problems of a Spark cluster or its executors are reported before any work starts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.spark import executors
from ktui.pipeline.spark.executors import check_executors
from ktui.pipeline.spark.probe import ProbeResult
from support.pipeline.spark_cluster import python_with


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
    monkeypatch.setattr(executors, "is_local", lambda _: False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    check_executors(spark.sparkContext, (), str(folder / "lake"), lambda _: None)


def test_a_folder_invisible_to_the_executors_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def elsewhere(paths: Iterable[str]) -> Iterator[ProbeResult]:
        """Probe from a machine whose folder of that name lacks the probe files."""
        yield ProbeResult("host-7", "python3", (), tuple(paths))

    monkeypatch.setattr(executors, "is_local", lambda _: False)
    monkeypatch.setattr(executors, "probe", elsewhere)

    with pytest.raises(PipelineProblem, match=f"^{tmp_path}/lake: executors on host-7 do not see"):
        check_executors(spark.sparkContext, (), str(tmp_path / "lake"), lambda _: None)
    assert not list((tmp_path / "lake").iterdir())
