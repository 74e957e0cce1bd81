"""Followed recordings: each line enters the tables once, whatever dies meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from ktui.cli.pipeline.verbs import run as command
from ktui.lab.nodes import wait_for
from ktui.pipeline.forecast.derived import DerivedOptions, WhatIfOptions
from ktui.pipeline.ingest.decode import SegmentSelection
from ktui.pipeline.lake.files import LocalFiles
from ktui.pipeline.lake.lake import read_manifest
from ktui.pipeline.lake.manifest import PipelineProblem
from ktui.pipeline.lake.tables import LINES, POLLS, SAMPLES
from ktui.pipeline.run import run as running
from ktui.pipeline.run.follow import ended_by_signals
from ktui.pipeline.run.run import PipelineOutcome
from support.pipeline.follower import (
    LIMIT_S,
    PATIENCE_S,
    FollowerProcess,
    Heard,
    a_follower,
    followed,
)
from support.pipeline.lake_rows import into_lake, lake_table, looks, record, rows
from support.pipeline.sparks import ENGINE, leave_stages_out

TABLES = (LINES, SAMPLES, POLLS)


def segments(folder: Path, count: int, **how: Any) -> list[Path]:
    """Record polls; return the closed segments, one for each poll except the last ones."""
    record(folder, looks(count), most_bytes=1, **how)
    found = sorted(folder.rglob("*.gz"))
    assert len(found) > 2
    return found


def put(segment: Path, folder: Path) -> None:
    """Copy a segment into a folder atomically, with its modification time."""
    folder.mkdir(exist_ok=True)
    shutil.copy2(segment, folder / "copying")
    (folder / "copying").rename(folder / segment.name)


def follow_until_it_dies(spark: SparkSession, dying: Heard, folder: Path, *new: Path) -> None:
    """Follow the folder `recorded` into `lake`, add segments, and wait until it dies of them."""
    with followed(spark, dying, folder / "lake", folder / "recorded"):
        dying.until(lambda: bool(dying.found))
        for segment in new:
            put(segment, folder / "recorded")
        with pytest.raises(OSError, match="it dies here"):
            dying.until(lambda: dying.over)


def all_rows(lake: Path) -> dict[str, list[str]]:
    """Return the rows of the tables by name, sorted."""
    return {table.name: sorted(map(repr, lake_table(lake, table).to_pylist())) for table in TABLES}


class Plain(NamedTuple):
    """A recording, and the lake that one plain run makes of it."""

    segments: list[Path]
    lake: Path

    @property
    def folder(self) -> Path:
        """The folder of the recording."""
        return self.segments[0].parent


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    folder = tmp_path_factory.mktemp("plain")
    made = Plain(segments(folder / "recorded", 3), folder / "lake")
    with pytest.MonkeyPatch.context() as patched:
        leave_stages_out(patched)
        into_lake(spark, made.lake, made.folder)
    return made


@pytest.mark.usefixtures("no_stages")
def test_each_new_segment_is_added_to_the_tables_once(
    spark: SparkSession, plain: Plain, tmp_path: Path
) -> None:
    """The last segments come first, some old, and some folders are hidden."""
    lake = tmp_path / "a {lake} of 100%"
    shutil.copytree(plain.folder, tmp_path / "others")
    whole = sorted((tmp_path / "others").iterdir())
    recorded = tmp_path / "my {recordings} [of] 100% *?"  # characters with a meaning in patterns
    recorded.mkdir()
    os.utime(whole[-1], (1e9, 1e9))
    heard = Heard()

    with followed(spark, heard, lake, recorded):
        heard.until(lambda: bool(heard.found))
        assert not heard.found[0].files  # it waits; a plain run would fail
        put(whole[-1], recorded / "_a-cluster")
        heard.until(lambda: heard.versions == [1])
        (tmp_path / "others").rename(recorded / ".others")  # with a copy of the last segment
        heard.until(lambda: sum(each.read for each in heard.outcomes) == len(whole))

    heard.until(lambda: heard.over)
    assert sum(each.copies for each in heard.outcomes) == 1
    for table in (SAMPLES, POLLS):
        ours = rows(lake, table, table.schema.names)
        assert ours == rows(plain.lake, table, table.schema.names)
        assert ours


@pytest.mark.usefixtures("no_stages")
def test_what_a_follower_wrote_before_it_died_is_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    segment, lake = segments(tmp_path / "whole", 3)[1], tmp_path / "lake"
    (tmp_path / "recorded").mkdir()

    def dies(outcome: PipelineOutcome) -> None:
        if outcome.written:
            raise OSError("it dies here")

    heard = Heard()
    follow_until_it_dies(spark, Heard(dies), tmp_path, segment)
    before = rows(lake, SAMPLES, ["segment", "line", "topic", "partition"])
    assert before

    with followed(spark, heard, lake, tmp_path / "recorded"):
        heard.until(lambda: bool(heard.outcomes))

    assert [each.found for each in heard.outcomes] == [1]
    assert heard.versions == []
    assert rows(lake, SAMPLES, ["segment", "line", "topic", "partition"]) == before


@pytest.mark.usefixtures("no_tables")
def test_files_removed_after_a_follower_died_of_them_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = segments(tmp_path / "whole", 3)[1:3]
    (tmp_path / "recorded").mkdir()

    def dies(what: str) -> None:
        if what == "1 of 12: decoding 1 segment":
            raise OSError("it dies here")

    heard = Heard()
    follow_until_it_dies(spark, Heard(begins=dies), tmp_path, one)
    (tmp_path / "recorded" / one.name).unlink()

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded"):
        heard.until(lambda: bool(heard.outcomes))
        put(other, tmp_path / "recorded")
        heard.until(lambda: heard.versions == [1])
    assert [each.found for each in heard.outcomes] == [0, 1]


@pytest.mark.usefixtures("no_stages")
def test_the_rest_of_a_segment_that_arrived_in_pieces_is_read_when_it_is_there(
    spark: SparkSession, plain: Plain, tmp_path: Path
) -> None:
    (tmp_path / "recorded").mkdir()
    heard, lake = Heard(), tmp_path / "lake"
    first, *others = plain.segments
    whole = first.read_bytes()

    with followed(spark, heard, lake, tmp_path / "recorded"):
        heard.until(lambda: bool(heard.found))
        with (tmp_path / "recorded" / first.name).open("wb") as copy:
            copy.write(whole[: len(whole) // 2])
            copy.flush()
            heard.until(lambda: heard.versions == [1])
            copy.write(whole[len(whole) // 2 :])
        heard.until(lambda: heard.versions == [1, 2])
        for each in others:
            put(each, tmp_path / "recorded")
        heard.until(lambda: sum(each.read for each in heard.outcomes) == 1 + len(plain.segments))

    for table in (SAMPLES, POLLS):
        names = [each for each in table.schema.names if each != "segment"]
        assert rows(lake, table, names) == rows(plain.lake, table, names)


@pytest.mark.usefixtures("no_tables")
def test_segments_of_clusters_that_are_not_followed_are_looked_into_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = segments(tmp_path / "whole", 3)[1:3]
    put(one, tmp_path / "recorded")
    begun: list[str] = []
    heard, choice = Heard(begins=begun.append), SegmentSelection(clusters=frozenset({"another"}))

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded", choice=choice):
        heard.until(lambda: len(heard.outcomes) == 1)
        put(other, tmp_path / "recorded")
        heard.until(lambda: len(heard.outcomes) == 2)

    assert [each for each in begun if "decoding" in each] == ["1 of 12: decoding 1 segment"] * 2
    assert heard.versions == []


@pytest.mark.skipif(ENGINE != "sail", reason="Spark keeps none in files")
@pytest.mark.usefixtures("no_stages")
def test_rows_kept_for_a_version_do_not_fill_the_disk_while_a_follower_waits(
    spark: SparkSession, plain: Plain, tmp_path: Path
) -> None:
    heard, kept = Heard(), Path(os.environ["SAIL_EXECUTION__CHECKPOINT__PATH"][len("file://") :])

    with followed(spark, heard, tmp_path / "lake", plain.folder):
        heard.until(lambda: heard.versions == [1])

        assert [*kept.iterdir()] == []


@pytest.mark.usefixtures("no_tables")
def test_a_folder_that_goes_away_is_named_once_and_read_when_it_is_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = segments(tmp_path / "whole", 3)[1:3]
    away, heard = tmp_path / "away", Heard()
    put(one, away)
    (tmp_path / "recorded").mkdir()
    (tmp_path / "here").mkdir()

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded", tmp_path / "here"):
        heard.until(lambda: bool(heard.found))
        (tmp_path / "recorded").rmdir()
        heard.until(lambda: bool(heard.problems))
        put(other, tmp_path / "here")
        heard.until(lambda: heard.versions == [1])
        away.rename(tmp_path / "recorded")
        heard.until(lambda: heard.versions == [1, 2])

    assert heard.problems == [f"{tmp_path}/recorded: no such file or folder"]


def dies_in_a_version(spark: SparkSession, folder: Path, segments: list[Path]) -> None:
    """Follow recordings, and raise an error where a version begins to be written."""

    def dies(what: str) -> None:
        if ": samples" in what:
            raise OSError("it dies here")

    follow_until_it_dies(spark, Heard(begins=dies), folder, *segments)


def killed_in_a_version(_: SparkSession, folder: Path, segments: list[Path]) -> None:
    """Follow recordings in another process; kill -9 it, and its JVM, while it writes a version."""
    with FollowerProcess(folder) as process:
        process.says("Following")
        for segment in segments:
            put(segment, folder / "recorded")
        begun = (folder / "lake" / "samples").glob
        assert wait_for(lambda: any(begun("lake_version=000002-*")), seconds=LIMIT_S)
        process.kill()


@pytest.mark.usefixtures("no_stages")
@pytest.mark.parametrize(
    "end", [dies_in_a_version, pytest.param(killed_in_a_version, marks=pytest.mark.soak)]
)
def test_a_follower_that_ends_in_the_middle_of_a_version_resumes_where_it_was(
    spark: SparkSession,
    plain: Plain,
    tmp_path: Path,
    end: Callable[[SparkSession, Path, list[Path]], None],
) -> None:
    lake, recorded, heard = LocalFiles(tmp_path / "lake"), tmp_path / "recorded", Heard()
    first, *others = plain.segments
    put(first, recorded)
    into_lake(spark, tmp_path / "lake", recorded)

    end(spark, tmp_path, others)

    assert any((tmp_path / "lake").glob("lines/lake_version=000002-*"))
    left = read_manifest(lake)
    assert left is not None
    assert left.version == 1
    with followed(spark, heard, tmp_path / "lake", recorded):
        heard.until(lambda: bool(heard.outcomes))

    assert heard.versions == [2]
    assert heard.outcomes[0].read == len(others)
    assert all_rows(tmp_path / "lake") == all_rows(plain.lake)


@pytest.mark.usefixtures("no_tables")
def test_a_follower_ended_by_sigterm_drops_its_version_and_the_next_one_redoes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    segment, lake = segments(tmp_path / "whole", 3)[1], tmp_path / "lake"
    put(segment, tmp_path / "recorded")

    arrived = threading.Event()

    def terminate(what: str) -> None:
        if what == "1 of 12: decoding 1 segment":
            os.kill(os.getpid(), signal.SIGTERM)
            assert arrived.wait(PATIENCE_S)  # another thread takes it

    def end() -> None:
        follower.end()
        arrived.set()

    ended = Heard(begins=terminate)
    follower = a_follower(spark, ended, lake, tmp_path / "recorded")
    with ended_by_signals(end):
        follower.follow()
    assert ended.outcomes == []
    assert read_manifest(LocalFiles(lake)) is None

    heard = Heard()
    with followed(spark, heard, lake, tmp_path / "recorded"):
        heard.until(lambda: heard.versions == [1])
    assert heard.outcomes[0].read == 1


@pytest.mark.usefixtures("no_tables")
def test_the_unfinished_segment_of_a_dead_recorder_is_completed_and_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    segment = segments(tmp_path / "whole", 3)[1]
    (tmp_path / "recorded").mkdir()
    heard = Heard()

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded"):
        heard.until(lambda: bool(heard.found))
        left = segment.with_name(f"{segment.name}.tmp")
        segment.rename(left)  # and no process holds its lock
        put(left, tmp_path / "recorded")
        heard.until(lambda: heard.versions == [1])

    assert [path.name for path in (tmp_path / "recorded").iterdir()] == [segment.name]
    assert heard.outcomes[-1].read == 1


@pytest.mark.usefixtures("no_tables")
def test_a_follower_waits_while_another_run_writes_the_lake(
    spark: SparkSession, tmp_path: Path
) -> None:
    segment = segments(tmp_path / "whole", 3)[1]
    (tmp_path / "recorded").mkdir()
    lake, heard = LocalFiles(tmp_path / "lake"), Heard()

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded"):
        heard.until(lambda: bool(heard.found))
        with lake.locked():
            put(segment, tmp_path / "recorded")
            heard.until(lambda: bool(heard.waited))
            assert read_manifest(lake) is None
        heard.until(lambda: heard.versions == [1])

    assert "another run is writing this lake" in heard.waited[0]


@pytest.mark.usefixtures("no_tables")
def test_all_runs_are_replayed_once_and_then_only_those_of_clusters_with_new_data(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = segments(tmp_path / "whole", 3)[1]
    (tmp_path / "recorded").mkdir()
    asked: list[DerivedOptions] = []
    monkeypatch.setattr(running, "_replay", lambda *_: None)
    monkeypatch.setattr(
        running, "_write_simulated", lambda _v, _w, _k, options, _t: asked.append(options)
    )
    heard, requested = Heard(), DerivedOptions(WhatIfOptions(window_s=3_600.0))

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded", asked=requested):
        heard.until(lambda: bool(heard.found))
        put(segment, tmp_path / "recorded")
        heard.until(lambda: heard.versions == [1])

    how = [each.what_if for each in asked if each.what_if is not None]
    assert [each.all_runs for each in how] == [True, False]
    assert {each.window_s for each in how} == {3_600.0}
    assert heard.outcomes[-1].insights is not None


def test_other_runs_may_write_the_lake_while_a_follower_waits_for_segments(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "recorded").mkdir()
    heard = Heard()

    with followed(spark, heard, tmp_path / "lake", tmp_path / "recorded"):
        heard.until(lambda: bool(heard.found))

        with LocalFiles(tmp_path / "lake").locked():
            assert heard.waited == []


def test_a_place_where_no_segments_can_appear_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PipelineProblem, match="missing: no such folder"):
        a_follower(spark, Heard(), tmp_path / "lake", tmp_path / "missing").follow()
    with pytest.raises(PipelineProblem, match="file is a file: give the folder"):
        a_follower(spark, Heard(), tmp_path / "lake", tmp_path / "file").follow()
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "words", [("--every", "5m"), ("--follow", "--every", "soon"), ("--follow", "--every", "0s")]
)
def test_an_invalid_time_between_polls_is_refused_by_its_option_name(
    words: tuple[str, ...],
) -> None:
    done = CliRunner().invoke(command, words)

    assert done.exit_code == click.UsageError.exit_code
    assert "Error: --every" in done.output
