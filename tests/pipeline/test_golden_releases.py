"""What each release has written is read by this one; its golden files are never written again."""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ktui.recording.reading import PlayedPoll
from ktui.recording.segments import RunLine
from support.cli.call_ktui import call_ktui
from support.golden_release import CLUSTER, JOURNAL, LAKE, RECORDING, RELEASES, RUN
from support.pipeline.lake_rows import (
    assert_same,
    into_lake,
    lake_rows,
    looks,
    record,
    without,
    worked_out_of,
)
from support.recordings.recordings import happenings

_OF_FILES = ("file", "segment", "versions")
"""Columns that tell where a row was read, or written."""


@pytest.fixture(params=sorted(RELEASES.iterdir()), ids=lambda folder: folder.name)
def release(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def lake(release: Path, tmp_path: Path) -> Path:
    with tarfile.open(release / LAKE) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "lake"


@pytest.fixture
def state(release: Path, tmp_path: Path) -> Path:
    """A state directory with the run of the release, and its recording."""
    folder = tmp_path / "state" / "runs" / RUN
    (folder / "recording").mkdir(parents=True)
    with sqlite3.connect(folder / "journal.db") as journal:
        journal.executescript((release / JOURNAL).read_text(encoding="utf-8"))
    journal.close()
    shutil.copy(release / RECORDING, folder / "recording" / "000000.jsonl.gz")
    return tmp_path / "state"


def told(*words: str) -> str:
    done = call_ktui(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_its_run_is_listed_shown_and_told_event_by_event(state: Path) -> None:
    where = ("--state-dir", str(state))

    assert RUN in told("runs", *where)
    assert "4 of 4" in told("status", RUN, *where)
    events = told("status", RUN, "--events", *where).splitlines()
    assert "run of plan.json, 4 partitions" in events[0]
    assert len(events) > 4 * 3


def test_its_run_is_known_to_be_over_so_a_resume_starts_no_engine(state: Path) -> None:
    done = call_ktui("resume", RUN, "--state-dir", str(state), "--bootstrap-server", "nowhere:1")

    assert done.returncode == 0
    assert f"run {RUN} has ended: all 4 partitions done" in done.stdout + done.stderr


def test_its_recording_plays_whole(release: Path) -> None:
    played = happenings(release / RECORDING)

    assert len([each for each in played if isinstance(each, PlayedPoll)]) > 10
    assert len([each for each in played if isinstance(each, RunLine)]) > 4 * 3


def test_its_lake_is_read_and_has_what_would_be_made_of_its_recording_now(
    spark: SparkSession, release: Path, lake: Path
) -> None:
    where = ("--lake", str(lake))
    query = "SELECT outcome, count(*) AS n FROM moves GROUP BY ALL"

    assert told("pipeline", "sql", *where, "--json", query) == '{"outcome":"done","n":4}\n'
    told("pipeline", "check", *where)
    made = without(lake_rows(lake), *_OF_FILES)
    expected = without(worked_out_of(spark, release / RECORDING), *_OF_FILES)
    compared = made.keys() & expected.keys()
    assert {"samples", "run_events", "states", "moves", "runs", "brokers"} <= compared
    for name in compared:
        assert_same(made[name], expected[name], name)


def test_its_lake_goes_on_with_what_is_recorded_now(
    spark: SparkSession, release: Path, lake: Path, tmp_path: Path
) -> None:
    before = lake_rows(lake)
    record(tmp_path / "recorded", looks(3, cluster_id=CLUSTER, from_s=1e6))
    shutil.copy(release / RECORDING, tmp_path / "recorded")

    done = into_lake(spark, lake, tmp_path / "recorded")

    assert done.manifest.version == 2
    after = lake_rows(lake)
    assert len(after["samples"]) == len(before["samples"]) + 3 * 3
    assert len(after["run_events"]) == len(before["run_events"])
    told("pipeline", "check", "--lake", str(lake))
