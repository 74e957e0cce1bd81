"""Recordings come into a lake: each line once, whole versions only, and only what is new read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import DataFrame, SparkSession

from ktui.pipeline import run as running
from ktui.pipeline.decode import Choice
from ktui.pipeline.lake import Lake
from ktui.pipeline.lake_files import LocalFiles
from ktui.pipeline.manifest import NAME
from ktui.pipeline.problem import PipelineProblem
from ktui.pipeline.schemas import POLLS, SAMPLES
from ktui.pipeline.stage_schemas import MOVES
from support.lake_recordings import into_lake, looks, record, rows


@pytest.fixture
def no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the tables that are worked out from samples: a test is not about them, but slow."""
    monkeypatch.setattr(running, "worked_out", lambda *_: iter(()))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_what_is_recorded_comes_into_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "my {recordings} [of] 100% *?"  # signs that mean something in patterns
    record(folder, looks(5))

    outcome = into_lake(spark, tmp_path / "a {lake}", folder)

    assert (outcome.found, outcome.read, outcome.clusters) == (1, 1, ("a-cluster",))
    lake = tmp_path / "a {lake}"
    assert len(rows(spark, lake, SAMPLES, ["t"])) == 15
    assert len(rows(spark, lake, POLLS, ["t"], reassigning=3)) == 5
    assert rows(spark, lake, MOVES, ["topic", "partition", "looks"]) == [
        ("orders", partition, 5) for partition in range(3)
    ]
    written = outcome.manifest.tables["samples"]["a-cluster"]
    assert written.rows == 15
    assert {str(lake / file.path) for file in written.files} == set(contents(lake / "samples"))


@pytest.mark.usefixtures("no_stages")
def test_a_run_with_nothing_new_leaves_the_lake_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "recorded", looks(3))
    into_lake(spark, tmp_path / "lake", tmp_path / "recorded")
    before = contents(tmp_path / "lake"), (tmp_path / "lake" / NAME).read_bytes()

    outcome = into_lake(spark, tmp_path / "lake", tmp_path / "recorded")

    assert outcome.read == 0
    assert (contents(tmp_path / "lake"), (tmp_path / "lake" / NAME).read_bytes()) == before


@pytest.mark.usefixtures("no_stages")
def test_only_clusters_with_something_new_are_written_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    for cluster in ("one", "other"):
        record(tmp_path / "recorded", looks(3, cluster_id=cluster))
    before = into_lake(spark, lake, tmp_path / "recorded").manifest.tables

    record(tmp_path / "recorded", looks(2, from_s=60.0, cluster_id="one"))
    outcome = into_lake(spark, lake, tmp_path / "recorded")

    after = outcome.manifest.tables
    assert (outcome.read, outcome.clusters) == (1, ("one",))
    assert all(parts.get("other") == before[name].get("other") for name, parts in after.items())
    assert len(rows(spark, lake, POLLS, ["t"], cluster_id="one")) == 5
    assert len(rows(spark, lake, POLLS, ["t"], cluster_id="other")) == 3


@pytest.mark.usefixtures("no_stages")
def test_it_matters_not_in_which_order_and_how_often_segments_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The later segments first, as times are normalised by the earliest; then all, and copies."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    record(whole, looks(4), most_bytes=1)
    segments = sorted(whole.rglob("*.gz"))
    assert len(segments) > 2
    record(whole, looks(3, from_s=2.0))
    into_lake(spark, tmp_path / "lake", whole)

    parts.mkdir()
    for segment in segments[2:]:
        shutil.copy(segment, parts)
    into_lake(spark, tmp_path / "other", parts)
    shutil.copy(segments[0], parts / "a-copy.jsonl.gz")
    outcome = into_lake(spark, tmp_path / "other", parts, whole)

    assert outcome.copies == len(segments) - 2 + 1
    for table in (SAMPLES, POLLS):
        ours = rows(spark, tmp_path / "lake", table, table.schema.names)
        assert rows(spark, tmp_path / "other", table, table.schema.names) == ours
        assert ours


@pytest.mark.usefixtures("no_stages")
def test_what_a_better_session_saw_shadows_what_others_saw(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "recorded", looks(10))
    record(tmp_path / "recorded", looks(10, from_s=5.0))

    into_lake(spark, tmp_path / "lake", tmp_path / "recorded")

    times = rows(spark, tmp_path / "lake", POLLS, ["t"], shadowed=False)
    assert len(times) == len(set(times)) == 15
    assert len(rows(spark, tmp_path / "lake", SAMPLES, ["t"], shadowed=True)) == 15


@pytest.mark.usefixtures("no_stages")
def test_segments_that_are_not_asked_for_are_read_by_a_later_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    for cluster in ("one", "other"):
        record(tmp_path / "recorded", looks(2, cluster_id=cluster))
    choice = Choice(clusters=frozenset({"other"}))

    some = into_lake(spark, tmp_path / "lake", tmp_path / "recorded", choice=choice)
    rest = into_lake(spark, tmp_path / "lake", tmp_path / "recorded")

    assert (some.read, some.clusters) == (1, ("other",))
    assert (rest.read, rest.clusters) == (1, ("one",))
    assert rest.manifest.clusters == ["one", "other"]


@pytest.mark.usefixtures("no_stages")
def test_a_run_that_dies_leaves_the_version_before_and_the_next_one_tidies_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    record(tmp_path / "recorded", looks(3))
    into_lake(spark, lake, tmp_path / "recorded")
    reader = Lake.open(spark, str(lake)).table(SAMPLES)
    record(tmp_path / "recorded", looks(4, from_s=60.0))

    def dies(*_: DataFrame) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running, "worked_out", dies)
        with pytest.raises(KeyboardInterrupt):
            into_lake(spark, lake, tmp_path / "recorded")
    assert len(rows(spark, lake, SAMPLES, ["t"])) == 9
    left = {path.parts[-4] for path in lake.glob("samples/*/*/*/*.parquet")}
    assert len(left) == 2

    outcome = into_lake(spark, lake, tmp_path / "recorded")

    assert reader.count() == 9  # whoever has begun to read the version before can go on
    assert len(rows(spark, lake, SAMPLES, ["t"])) == 21
    versions = {path.name for path in (lake / "samples").iterdir()}
    part = outcome.manifest.tables["samples"]["a-cluster"]
    assert part.folder.split("/")[1] in versions
    assert len(versions) == 2  # the one of the run that died is gone
    assert not (lake / "_staging").exists()


@pytest.mark.usefixtures("no_stages")
def test_what_a_recorder_that_died_has_left_is_read_and_what_one_writes_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    died = record(tmp_path / "one", looks(3))
    (segment,) = died.iterdir()
    segment.rename(segment.with_name(f"{segment.name}.tmp"))  # and nobody has it locked
    record(tmp_path / "other", looks(3, cluster_id="other"), close=False)

    outcome = into_lake(spark, tmp_path / "lake", tmp_path / "one", tmp_path / "other")

    assert (outcome.read, outcome.unfinished) == (1, 1)
    assert outcome.manifest.clusters == ["a-cluster"]


def test_where_nothing_is_recorded_it_says_how_to(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineProblem, match="nothing is recorded"):
        into_lake(spark, tmp_path / "lake", tmp_path)
    with pytest.raises(PipelineProblem, match="no such file or folder"):
        into_lake(spark, tmp_path / "lake", tmp_path / "missing")


def test_two_runs_at_once_do_not_write_the_same_lake(spark: SparkSession, tmp_path: Path) -> None:
    with (
        LocalFiles(tmp_path).locked(),
        pytest.raises(PipelineProblem, match="another run writes it"),
    ):
        into_lake(spark, tmp_path, tmp_path)


def test_a_lake_of_a_newer_ktui_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema_version": 99}', encoding="utf-8")

    with pytest.raises(PipelineProblem, match="written by a newer ktui"):
        Lake.open(spark, str(tmp_path))


def test_where_there_is_no_lake_it_says_how_to_make_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PipelineProblem, match="ktui pipeline run --lake"):
        Lake.open(spark, str(tmp_path))
