"""A cluster of processes makes the same tables as one process, whatever dies meanwhile."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.forecast.derived import DerivedOptions, WhatIfOptions
from ktui.pipeline.forecast.play import read_grid
from ktui.pipeline.lake.tables import ETA_BACKTEST, FORECASTS, INSIGHTS, WHAT_IF
from ktui.pipeline.run.run import PipelineRequest, run
from support.cli.shell import Done
from support.pipeline.lake_rows import TABLES, Rows, assert_same, lake_rows, lake_table
from support.pipeline.spark_cluster import (
    HOME,
    LIMIT_S,
    SparkCluster,
    imports,
    python_with,
    python_without,
    spark_cluster,
)
from support.pipeline_oracle.rows import tables_of
from support.recordings.taped_runs import (
    cut_at_random,
    tapes_of,
    tapes_of_runs,
    with_garbage,
    write,
)
from support.recordings.wild_recordings import wild_tapes

_EXECUTORS_NEED = ("msgspec", "pyarrow", "yaml")
_MOUNTED = "spark.hadoop.fs.viewfs.mounttable.ktui.link."
"""Mounts a folder at viewfs://ktui/NAME, where only Hadoop's client can reach it."""
_GRID = "limits:\n  partitions: [1, 5]\nthrottle: [none, 20MB/s]\n"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster whose machines have only the libraries installed."""
    folder = tmp_path_factory.mktemp("spark-cluster")
    python = python_with(folder / "python", *_EXECUTORS_NEED)
    assert imports(python, ["ktui", *_EXECUTORS_NEED]) == [*_EXECUTORS_NEED]
    with spark_cluster(folder / "cluster") as cluster:
        cluster.environment |= {
            "PYSPARK_PYTHON": str(python),
            "KTUI_STATE_DIR": str(folder / "state"),
        }
        yield cluster


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partly damaged recordings of runs and of foreign moves, and a grid."""
    folder = tmp_path_factory.mktemp("recorded")
    dice = random.Random("cluster")  # noqa: S311 - a test's dice
    for tape in (*tapes_of_runs(range(1)), *tapes_of(range(1)), *wild_tapes(range(1))):
        write(folder / "recordings", list(with_garbage(cut_at_random(tape, dice), dice)))
    (folder / "grid.yaml").write_text(_GRID)
    return folder


def _ktui(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "ktui", "pipeline", *map(str, words)]


def _run_words(recorded: Path, lake: Path) -> list[str]:
    return ["--recordings", str(recorded / "recordings"), "--lake", str(lake)]


@pytest.fixture(scope="module")
def oracle(recorded: Path) -> dict[str, Rows]:
    """The tables of recorded facts that the independent implementation makes."""
    return _with_file_names(tables_of(recorded / "recordings"))


@pytest.fixture(scope="module")
def submitted(
    standalone: SparkCluster, recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Rows]:
    """Every table that spark-submit makes with the package, without ktui installed.

    The only executor is killed in the middle, and all that it has kept for later tables with it.
    """
    folder = tmp_path_factory.mktemp("submitted")
    driver = python_without(folder / "python", "ktui", "pyspark", "py4j")
    assert imports(driver, ["ktui", "pyspark", "click"]) == ["click"]
    printed = _done(_ktui("package", folder)).stdout
    assert f"--py-files {folder / 'ktui.zip'} {folder / 'ktui_job.py'}" in printed
    words = [
        str(HOME / "bin" / "spark-submit"),
        *("--master", standalone.url),
        *("--conf", "spark.cores.max=1"),
        *("--conf", f"{_MOUNTED}/recorded={recorded.as_uri()}"),
        *("--conf", f"{_MOUNTED}/made={folder.as_uri()}"),
        *("--py-files", str(folder / "ktui.zip")),
        str(folder / "ktui_job.py"),
        *("--recordings", "viewfs://ktui/recorded/recordings"),
        *("--lake", "viewfs://ktui/made/lake"),
        *("--grid", str(recorded / "grid.yaml")),
    ]
    environment = {**standalone.environment, "PYSPARK_DRIVER_PYTHON": str(driver)}

    with _running(words, environment) as running:
        printed = _until("moves", running)
        assert standalone.kill_executors() == 1, printed
        printed += running.communicate(timeout=LIMIT_S)[0]

    assert running.returncode == 0, printed
    assert standalone.tasks().keys() == {"0", "1"}  # the one that came in its place, too
    return _tables(folder / "lake")


def _settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that makes `ktui` pass settings to Spark."""
    words = " ".join(f"--conf {name}={value}" for name, value in options.items())
    return {"PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"}


def _done(command: list[str], environment: Mapping[str, str] | None = None) -> Done:
    """Run a program that must succeed."""
    done = _ended(command, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _ended(command: list[str], environment: Mapping[str, str] | None = None) -> Done:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def _tables(lake: Path) -> dict[str, Rows]:
    """Return every table of a lake, with files by their names."""
    found = _with_file_names(lake_rows(lake, (*TABLES, FORECASTS, ETA_BACKTEST, WHAT_IF)))
    printed = lake_table(lake, INSIGHTS).to_pylist()
    found["insights"] = [_flat(json.loads(row["insights"])) for row in printed]
    return found


def _with_file_names(tables: dict[str, Rows]) -> dict[str, Rows]:
    """Name the files of quarantined lines without their folders."""
    for row in tables["quarantine"]:
        row["file"] = Path(row["file"]).name
    return tables


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Name each figure by its path."""
    if not isinstance(value, dict | list):
        return {name: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: each for at, part in parts for key, each in _flat(part, f"{name}/{at}").items()}


@contextmanager
def _running(words: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a program in the background; all that it prints can be read.

    spark-submit prints on its standard output what the program in it says on either.
    """
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _same(made: Mapping[str, Rows], expected: Mapping[str, Rows]) -> None:
    assert all(expected.values()), [name for name, rows in expected.items() if not rows]
    for name, rows in expected.items():
        assert_same(made[name], rows, name)


def test_spark_submit_makes_the_oracles_tables_though_its_executor_is_killed(
    submitted: dict[str, Rows], oracle: dict[str, Rows]
) -> None:
    _same(submitted, oracle)
    assert all(submitted.values()), [name for name, rows in submitted.items() if not rows]


def test_with_spark_submit_too_a_silent_master_is_reported_at_once(tmp_path: Path) -> None:
    _done(_ktui("package", tmp_path))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        submit = [str(HOME / "bin" / "spark-submit"), "--master", url]
        job = ["--py-files", str(tmp_path / "ktui.zip"), str(tmp_path / "ktui_job.py")]
        places = ["--recordings", "hdfs://nowhere/recorded", "--lake", "hdfs://nowhere/lake"]
        ended = _ended([*submit, *job, *places], {**os.environ, "PYSPARK_PYTHON": sys.executable})

    assert ended.returncode == 1
    assert f"{url}: no master answers: Connection refused" in ended.stdout


def _until(table: str, running: subprocess.Popen[str]) -> str:
    """Read the output of a run until it works on a table."""
    assert running.stdout is not None
    printed = ""
    for line in running.stdout:
        printed += line
        if f": {table}" in line:
            return printed
    raise AssertionError(printed)


def _run_in_vain(
    standalone: SparkCluster, asked: Mapping[str, str], recorded: Path, lake: Path
) -> Done:
    """Run the pipeline with settings under which it gets no executor."""
    soon = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "1s"}
    words = ["run", "--master", standalone.url, *_run_words(recorded, lake)]

    done = _ended(_ktui(*words), standalone.environment | _settings({**asked, **soon}))

    assert done.returncode == 1
    return done


def test_a_run_fails_with_a_reason_when_no_worker_fits_an_executor(
    standalone: SparkCluster, recorded: Path, tmp_path: Path
) -> None:
    asked = {"spark.executor.memory": "64g", "spark.ktui.executorWait": "2s"}

    done = _run_in_vain(standalone, asked, recorded, tmp_path / "lake")

    assert f"ktui: {standalone.url} has provided no executor for 2 s" in done.stderr
    assert "none has the 64g" in done.stderr
    assert "Traceback" not in done.stderr


def test_executors_that_cannot_start_are_named_with_their_reason(
    standalone: SparkCluster, recorded: Path, tmp_path: Path
) -> None:
    asked = {
        "spark.executor.extraJavaOptions": "-javaagent:/nowhere.jar",
        "spark.ktui.executorWait": "15m",
    }

    done = _run_in_vain(standalone, asked, recorded, tmp_path / "lake")

    (said,) = (line for line in done.stderr.splitlines() if line.startswith("ktui: "))
    start = f"ktui: {standalone.url} starts executors, but they end at once: "
    executor = r"app-\S+/\d+ on 127\.0\.0\.1: Command exited with code 1\. "
    log = r"The reason is in the worker's work/app-\S+/stderr"
    assert re.fullmatch(re.escape(start) + executor + log, said)


@pytest.mark.soak
def test_one_process_makes_the_tables_of_the_cluster(
    spark: SparkSession, recorded: Path, submitted: dict[str, Rows], tmp_path: Path
) -> None:
    asked = DerivedOptions(WhatIfOptions(read_grid(recorded / "grid.yaml")))
    lake = tmp_path / "lake"

    run(spark, PipelineRequest((str(recorded / "recordings"),), str(lake), asked=asked))

    _same(_tables(lake), submitted)


@pytest.mark.soak
def test_a_worker_that_dies_in_mid_run_is_reported_and_a_later_run_completes(
    standalone: SparkCluster, recorded: Path, oracle: dict[str, Rows], tmp_path: Path
) -> None:
    words = ["run", "--master", standalone.url, *_run_words(recorded, tmp_path / "lake")]
    words += ["--no-insights"]
    environment = standalone.environment | _settings({"spark.ktui.executorWait": "5s"})
    try:
        with _running(_ktui(*words), environment) as running:
            printed = _until("samples", running)
            standalone.kill_worker()
            printed += running.communicate(timeout=LIMIT_S)[0]
    finally:
        standalone.start_worker()

    assert running.returncode == 1, printed
    assert "has provided no executor for 5 s. Its workers are gone" in printed
    assert "Traceback" not in printed
    _done(_ktui(*words), standalone.environment)
    _same(_with_file_names(lake_rows(tmp_path / "lake")), oracle)
