"""`check` counts the contents of a lake and what is missing from it."""

from __future__ import annotations

import gzip
import shutil
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.tables import SAMPLES
from ktui.pipeline.run.check import Findings, SparkQueries, check
from ktui.pipeline.sql import DuckLake
from support.pipeline.lake_rows import into_lake, looks, record
from support.pipeline.report_lake import DrainedLake, records_of
from support.pipeline.sparks import leave_stages_out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    leave_stages_out(monkeypatch)
    return tmp_path / "recorded"


def checked(spark: SparkSession, folder: Path) -> Findings:
    lake = folder.with_name("lake")
    into_lake(spark, lake, folder)
    return _checked(spark, lake)


def _checked(spark: SparkSession, lake: Path) -> Findings:
    """Check a lake by Spark and by DuckDB, which have to agree."""
    found = check(SparkQueries(Lake.open(spark, str(lake))))
    assert check(DuckLake.open(str(lake))) == found
    return found


def test_intact_recordings_lack_nothing(spark: SparkSession, drained_lake: DrainedLake) -> None:
    found = _checked(spark, drained_lake.first)

    assert not found.lost
    assert (found.quarantined, found.copies, found.differing, found.gaps) == ({}, 0, 0, 0)
    assert (found.segments, found.sessions, found.sessions_without_end) == (5, 5, 0)
    assert found.rows["samples"] == len(records_of(drained_lake.first, SAMPLES))


def test_damage_copies_gaps_and_clock_steps_are_counted(spark: SparkSession, folder: Path) -> None:
    """One session with a gap of 97 s, a clock set back by an hour, and a damaged poll."""
    first, *later = looks(4), *looks(3, from_s=100.0)
    seen = [*first, *(msgspec.structs.replace(s, at=s.at - timedelta(hours=1)) for s in later)]
    (segment,) = record(folder, iter(seen)).iterdir()
    texts = gzip.decompress(segment.read_bytes()).splitlines(keepends=True)
    texts[-2] = texts[-2].replace(b"look", b"loop")
    del texts[-1]  # the end
    segment.write_bytes(gzip.compress(b"".join(texts)))
    again = segment.with_name("again.jsonl.gz")
    shutil.copy(segment, again)
    again.write_bytes(gzip.compress(b"".join(texts[:4])))

    found = checked(spark, folder)

    assert found.lost
    assert found.quarantined == {"its checksum is missing or wrong": 1}
    assert (found.lines, found.copies, found.differing) == (7, 4, 0)
    assert (found.gaps, found.longest_gap_ms) == (1, 97_000)
    assert (found.clock_steps, found.largest_clock_step_ms) == (1, 3_600_000)
    assert (found.sessions, found.sessions_without_end) == (1, 1)
