"""A rehearsal's recording becomes tables as any other, marked as simulated, beside a real run's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ktui.insights.insights import insights_in
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.lake.tables import MOVES
from ktui.pipeline.what_if.play import GridCell
from support.cli.call_ktui import call_ktui
from support.pipeline.lake_rows import into_lake, rows
from support.recordings.drained_recordings import MB, drained

TWIN = """\
title: A twin of prod
cluster: {name: prod, brokers: 4, disk: 10GiB}
topics:
  orders: {replicas: [[1, 2, 3], [2, 3, 1]], size: 200MB}
"""
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
RUN = "drain"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of a run on a slow cluster, and of its rehearsal, of the same name, on a fast twin."""
    folder = tmp_path_factory.mktemp("rehearsed")
    plan, twin, recordings = folder / f"{RUN}.json", folder / "twin.yaml", folder / "recordings"
    plan.write_text(json.dumps(PLAN), encoding="utf-8")
    twin.write_text(TWIN, encoding="utf-8")
    twins = ("--on", str(twin), "--rate", "40MB/s")
    done = call_ktui("rehearse", str(plan), *twins, "--record", str(recordings))
    assert done.returncode == 0, done.stderr
    limits = Limits(replicas=1)
    drained(recordings, sizes=[40 * MB], limits=limits, name=RUN, cluster="prod", net_in=4.0 * MB)
    into_lake(spark, folder / "lake", recordings, asked=DerivedOptions((GridCell(limits),)))
    return folder / "lake"


def test_the_tables_have_it_under_the_id_of_its_twin(lake: Path) -> None:
    moves = rows(lake, MOVES, ("cluster_id", "topic", "outcome"))

    assert moves == [("prod", "t0", "done"), ("simulated-prod", "orders", "done")]


def test_what_is_known_of_the_real_cluster_is_from_its_own_run_alone(lake: Path) -> None:
    known = {each.cluster_id: each for each in insights_in(lake).clusters}

    assert {of: (each.runs, each.moves) for of, each in known.items()} == {
        "prod": (1, 1),
        "simulated-prod": (1, 1),
    }
    real, simulated = known["prod"].prior, known["simulated-prod"].prior
    assert real is not None
    assert simulated is not None
    assert real.replica_bytes_s.p90 < 5 * MB < 20 * MB < simulated.replica_bytes_s.p10


def test_insights_and_reports_say_that_it_is_simulated(lake: Path, tmp_path: Path) -> None:
    def report(*words: str) -> str:
        page = tmp_path / "report.html"
        where = ("--lake", str(lake), "--state-dir", str(tmp_path), "-o", str(page))
        done = call_ktui("pipeline", "report", *where, *words)
        assert done.returncode == 0, done.stderr
        return page.read_text(encoding="utf-8")

    insights = call_ktui("insights", "--lake", str(lake)).stdout
    assert "cluster simulated-prod (simulated): 1 run" in insights
    assert "cluster prod: 1 run" in insights
    several = call_ktui("pipeline", "report", "--lake", str(lake), "--run", RUN)
    assert f"2 runs are called {RUN}" in several.stderr
    assert several.stderr.count("(simulated)") == 1
    of_run = report("--run", RUN, "--cluster", "simulated-prod")
    assert f"<h1>Run {RUN} (simulated)</h1>" in of_run
    assert "on cluster simulated-prod (simulated), from" in of_run
    assert "<h1>Cluster simulated-prod (simulated)</h1>" in report("--cluster", "simulated-prod")
    of_prod = report("--cluster", "prod")
    assert "<h1>Cluster prod</h1>" in of_prod
    assert "(simulated)" not in of_prod
