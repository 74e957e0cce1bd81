"""A lake that grows version by version has the tables of one that read all at once."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.pipeline.forecast.derived import DerivedOptions, WhatIfOptions
from ktui.pipeline.lake import lake as growing
from ktui.pipeline.lake.engine import on_sail
from ktui.pipeline.lake.lake import Lake, write_parquet
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.sizing import LARGE_BYTES, runs_small
from ktui.pipeline.lake.tables import CAUGHT_UP, ETA_BACKTEST, FORECASTS, INSIGHTS
from ktui.pipeline.run import recorded_tables
from ktui.pipeline.run.run import PipelineRequest, run
from support.pipeline.lake_rows import Rows, assert_same, lake_rows, lake_table, rows_of
from support.pipeline.sparks import large_runs, only_spark
from support.pipeline_oracle.rows import tables_of
from support.recordings.taped_runs import (
    Recording,
    Tape,
    files_of,
    tapes_of,
    tapes_of_runs,
    with_losses,
    write,
)
from support.recordings.wild_recordings import wild_tapes

SEGMENTS = 8
TWO, THREE = (5, SEGMENTS), (5, 6, SEGMENTS)
"""The segments of each session that have been read after each version."""

FORECAST = (FORECASTS, CAUGHT_UP, ETA_BACKTEST)
QUICK = DerivedOptions(WhatIfOptions(cells=(), all_runs=False))


def _cut(tape: Tape) -> list[Recording]:
    cuts = {len(tape.items) * n // SEGMENTS for n in range(SEGMENTS)}
    return files_of(tape, tape.segments(cuts))


def _versions(
    tapes: Iterable[Tape], read: Sequence[int], dice: random.Random
) -> list[list[Recording]]:
    """Deal the segments to versions: in order, but those of every third cluster at random."""
    versions: list[list[Recording]] = [[] for _ in read]
    for tape in tapes:
        files = _cut(tape)
        if sum(map(ord, tape.cluster_id)) % 3 == 0:
            dice.shuffle(files)
        for version, (start, end) in zip(versions, pairwise((0, *read)), strict=True):
            version.extend(files[start:end])
    return versions


def _sample_files(manifest: Manifest, cluster: str) -> set[str]:
    return {file.path for file in manifest.tables["samples"][cluster].files}


def _compared_by_spark(spark: SparkSession, place: Path) -> Rows:
    found = Lake.open(spark, str(place)).table(ETA_BACKTEST)
    return rows_of(found.toArrow(), ETA_BACKTEST.name)


def _insights(lake: Path) -> dict[str, Any]:
    return {
        row["cluster_id"]: json.loads(row["insights"], parse_float=_nine_digits)
        for row in lake_table(lake, INSIGHTS).to_pylist()
    }


def _nine_digits(figure: str) -> float:
    return float(f"{float(figure):.9g}")


@pytest.mark.parametrize(
    ("seed", "worlds", "read"),
    [
        (209, 1, TWO),
        *(pytest.param(n, 3, THREE, marks=pytest.mark.soak) for n in range(200, 290, 10)),
    ],
)
def test_each_version_of_a_lake_has_the_tables_of_all_its_recordings_read_at_once(
    spark: SparkSession, tmp_path: Path, seed: int, worlds: int, read: Sequence[int]
) -> None:
    """The last version is a large run: Spark plans and spreads it as it does many rows.

    Its derived tables grow, as those with many rows do.
    """
    dice = random.Random(seed)  # noqa: S311 - a test's dice
    tapes = [*tapes_of_runs(range(seed, seed + 1)), *tapes_of(range(seed, seed + worlds)),
             *wild_tapes(range(seed, seed + 2 * worlds))]  # fmt: skip
    folder, lake = tmp_path / "recorded", tmp_path / "a {lake} [of] 100% *?"
    manifests: list[Manifest] = []
    was_small: list[bool] = []
    for recorded in _versions(tapes, read, dice):
        write(folder, list(with_losses(recorded, dice)))
        request = PipelineRequest((str(folder),), str(lake), asked=QUICK)
        is_last = len(manifests) + 1 == len(read)
        with large_runs(spark) if is_last else nullcontext(), pytest.MonkeyPatch.context() as few:
            if is_last:
                few.setattr(growing, "FEW_ROWS", 0)
            outcome = run(spark, request, lambda _: was_small.append(runs_small(spark)))
        manifests.append(outcome.manifest)
        made, expected = lake_rows(lake), tables_of(folder)
        for name in expected:
            assert_same(made[name], expected[name], f"{name}, version {len(manifests)}")
    assert was_small[0]
    assert was_small[-1] == on_sail(spark)  # to which all runs are small

    at_once = tmp_path / "at once"
    run(spark, PipelineRequest((str(folder),), str(at_once), asked=QUICK))
    forecasts, expected = lake_rows(lake, FORECAST), lake_rows(at_once, FORECAST)
    for table in FORECAST:
        assert_same(forecasts[table.name], expected[table.name], table.name)
    assert forecasts[FORECASTS.name]
    assert forecasts[CAUGHT_UP.name]
    assert _insights(lake) == _insights(at_once)
    assert_same(_compared_by_spark(spark, lake), forecasts[ETA_BACKTEST.name], "Spark")

    files = [
        (_sample_files(manifests[0], each), _sample_files(manifests[1], each))
        for each in manifests[0].clusters
    ]
    assert any(before and before < after for before, after in files)


@only_spark
def test_a_small_run_that_writes_many_old_rows_again_does_so_as_a_large_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a small run writes stay in memory, and millions find no room there."""
    small: dict[str, bool] = {}

    def noted(rows: DataFrame, place: str, *how: Collection[str]) -> None:
        small[place.split("/")[-2]] = runs_small(spark)
        write_parquet(rows, place, *how)

    dice = random.Random(1)  # noqa: S311 - a test's dice
    request = PipelineRequest((str(tmp_path / "recorded"),), str(tmp_path / "lake"), asked=QUICK)
    monkeypatch.setattr("ktui.pipeline.lake.lake.write_parquet", noted)
    monkeypatch.setattr(growing, "FEW_ROWS", 0)
    for each in (growing, recorded_tables):
        monkeypatch.setattr(each, "ROW_BYTES", LARGE_BYTES)
    first, second = _versions(tapes_of_runs(range(1)), (3, SEGMENTS), dice)

    write(tmp_path / "recorded", first)
    run(spark, request)
    assert all(small.values())

    write(tmp_path / "recorded", second)
    run(spark, request)
    assert not small["samples"]
    assert not small["forecasts"]
    assert small["replays"]
    made, expected = lake_rows(tmp_path / "lake"), tables_of(tmp_path / "recorded")
    for name in expected:
        assert_same(made[name], expected[name], name)
