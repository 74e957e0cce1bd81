"""Runs on YARN, from recordings in HDFS into a lake in HDFS."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.tables import FORECASTS, WHAT_IF
from support.pipeline.follower import LIMIT_S, PipelineProcess, pipeline_process
from support.pipeline.lake_rows import assert_same, lake_rows
from support.pipeline.spark_cluster import HOME, imports, python_with, python_without
from support.pipeline.storage import HadoopCluster, hadoop_cluster
from support.pipeline_oracle.rows import tables_of
from support.recordings.taped_runs import Tape, cut_at_random, tapes_of_runs, with_garbage, write
from support.recordings.wild_recordings import wild_tapes

pytestmark = pytest.mark.soak

_EXECUTORS_NEED = ("msgspec", "pyarrow", "yaml")


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopCluster]:
    """A cluster whose containers have a Python with only the libraries."""
    folder = tmp_path_factory.mktemp("hadoop")
    python = python_with(folder / "python", *_EXECUTORS_NEED)
    assert imports(python, ["ktui", *_EXECUTORS_NEED]) == [*_EXECUTORS_NEED]
    with hadoop_cluster(folder) as cluster:
        cluster.environment["PYSPARK_PYTHON"] = str(python)
        yield cluster


@contextmanager
def run(hadoop: HadoopCluster, state: Path) -> Iterator[PipelineProcess]:
    """Begin a run, with its driver in a process of this machine."""
    places = ("--recordings", "hdfs:///recorded", "--lake", "hdfs:///lake")
    how = ("--master", "yarn", "--no-insights", "--state-dir", str(state))
    with pipeline_process((*places, *how), hadoop.environment) as running:
        yield running


def completes(hadoop: HadoopCluster, state: Path) -> str:
    with run(hadoop, state) as running:
        code, printed = running.ends()
    assert code == 0, printed
    return printed


def written(tapes: Iterable[Tape], folder: Path) -> Path:
    dice = random.Random("yarn")  # noqa: S311 - a test's dice
    for tape in tapes:
        write(folder, list(with_garbage(cut_at_random(tape, dice), dice)))
    return folder


def has_the_oracles_tables(lake: Path, recorded: Path) -> None:
    made, expected = lake_rows(lake), tables_of(recorded)
    for row in (*made["quarantine"], *expected["quarantine"]):
        row["file"] = Path(row["file"]).name
    for name, rows in expected.items():
        assert rows, name
        assert_same(made[name], rows, name)


def test_runs_on_yarn_read_what_is_new_in_hdfs_and_one_that_is_overtaken_changes_nothing(
    hadoop: HadoopCluster, tmp_path: Path
) -> None:
    def other() -> bytes:
        completes(hadoop, state)
        return hadoop.read(manifest)

    state, manifest = tmp_path / "state", f"/lake/{manifests.NAME}"
    hadoop.put(written(tapes_of_runs(range(1)), tmp_path / "runs"), "/recorded")

    with run(hadoop, tmp_path / "overtaken") as overtaken:
        first = overtaken.loses_to(other)
    assert hadoop.read(manifest) == first

    hadoop.put(written(wild_tapes(range(1)), tmp_path / "wild"), "/recorded")
    assert "version 2: " in completes(hadoop, state)
    assert "nothing new" in completes(hadoop, state)

    hadoop.get("/lake", tmp_path / "lake")
    hadoop.get("/recorded", tmp_path / "recorded")
    has_the_oracles_tables(tmp_path / "lake", tmp_path / "recorded")


def test_a_run_says_at_once_that_no_resource_manager_answers(tmp_path: Path) -> None:
    site = "<property><name>yarn.resourcemanager.hostname</name><value>nowhere.invalid</value>"
    text = f"<configuration>{site}</property></configuration>"
    (tmp_path / "yarn-site.xml").write_text(text, encoding="utf-8")
    places = ("--recordings", "hdfs:///recorded", "--lake", "hdfs:///lake")
    how = ("--master", "yarn", "--state-dir", str(tmp_path / "state"))

    with pipeline_process(
        (*places, *how), os.environ | {"HADOOP_CONF_DIR": str(tmp_path)}
    ) as running:
        code, printed = running.ends()

    assert code == 1, printed
    assert "nowhere.invalid:8032: no resource manager of YARN answers: " in printed


def test_of_two_that_replace_a_file_in_hdfs_within_a_moment_one_is_refused(
    hadoop: HadoopCluster,
) -> None:
    code = "from support.pipeline.count_in_hdfs import main; main()"
    words = [sys.executable, "-c", code, "hdfs:///counted", "30"]
    environment = hadoop.environment | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def counted(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    with ThreadPoolExecutor(2) as both:
        done = list(both.map(counted, range(2)))

    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    assert hadoop.read("/counted/count") == b"60"
    # the JVM may say, after the count, that it archives no classes beside Hadoop's configuration
    refused = [line for each in done for line in each.stdout.splitlines() if line.isdigit()]
    assert sum(map(int, refused)) > 0


def test_spark_submit_runs_the_driver_on_yarn_too_and_insights_stay_in_the_lake(
    hadoop: HadoopCluster, tmp_path: Path
) -> None:
    recorded = written((*tapes_of_runs(range(1)), *wild_tapes(range(1))), tmp_path / "recorded")
    hadoop.put(recorded, "/submitted/recorded")
    driver = python_without(tmp_path / "python", "ktui", "pyspark", "py4j")
    packaged = [sys.executable, "-m", "ktui", "pipeline", "package", str(tmp_path)]
    subprocess.run(packaged, check=True, capture_output=True)
    words = [
        str(HOME / "bin" / "spark-submit"),
        *("--master", "yarn", "--deploy-mode", "cluster"),
        *("--conf", f"spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON={driver}"),
        *("--py-files", str(tmp_path / "ktui.zip"), str(tmp_path / "ktui_job.py")),
        *("--recordings", "hdfs:///submitted/recorded", "--lake", "hdfs:///submitted/lake"),
        "--keep-insights",
    ]

    done = subprocess.run(
        words, env=hadoop.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )

    assert done.returncode == 0, done.stderr
    hadoop.get("/submitted/lake", tmp_path / "lake")
    has_the_oracles_tables(tmp_path / "lake", recorded)
    assert all(lake_rows(tmp_path / "lake", (FORECASTS, WHAT_IF)).values())
    assert b"run-00000" in (tmp_path / "lake" / "insights.json").read_bytes()
