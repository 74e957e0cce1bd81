"""A run is small by what it reads: new recordings, and what the lake has of their clusters."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.ingest.segments import WholeSegment
from ktui.pipeline.lake.manifest import NAME, DataFile, Manifest, SegmentRead, TablePart, encode
from ktui.pipeline.lake.sizing import SMALL_BYTES, SMALL_SETTINGS, is_small, runs_small, sized
from ktui.pipeline.run.recorded import looks_small
from ktui.pipeline.run.run import PipelineRequest


def a_lake(*, samples: int = 0, lines: int = 0, read: tuple[SegmentRead, ...] = ()) -> Manifest:
    """Return a lake with so many bytes in two of its tables, half of them of each cluster."""
    sizes = {"samples": samples, "lines": lines}
    tables = {
        name: {cluster: _part(name, cluster, size // 2) for cluster in ("one", "other")}
        for name, size in sizes.items()
    }
    return Manifest(version=1, segments=read, tables=tables)


def _part(table: str, cluster: str, size: int) -> TablePart:
    path = f"{table}/lake_version=000001-0badcafe/cluster_id={cluster}/part-0.parquet"
    return TablePart((DataFile(path, size),), 1)


@pytest.mark.parametrize(
    ("new", "lake", "small"),
    [
        (SMALL_BYTES, Manifest(), True),
        (SMALL_BYTES + 1, Manifest(), False),
        (SMALL_BYTES // 2, a_lake(samples=SMALL_BYTES // 2), True),
        (2, a_lake(samples=SMALL_BYTES), False),
        (2, a_lake(lines=SMALL_BYTES), True),
    ],
)
def test_new_recordings_and_the_samples_of_a_lake_decide_whether_a_run_is_small(
    new: int, lake: Manifest, *, small: bool
) -> None:
    assert is_small(new, lake) is small


def test_recordings_that_the_lake_has_read_do_not_make_a_run_large(tmp_path: Path) -> None:
    old = WholeSegment("/recorded/old.jsonl.gz", SMALL_BYTES, 1)
    new = WholeSegment("/recorded/new.jsonl.gz", 2, 1)
    request = PipelineRequest(("/recorded",), str(tmp_path))
    assert not looks_small(request, [old, new])

    read = SegmentRead(old.path, old.length, old.modified_ms, "0" * 64)
    (tmp_path / NAME).write_bytes(encode(a_lake(read=(read,))))

    assert looks_small(request, [old, new])


def test_a_run_whose_size_is_not_known_before_spark_is_there_does_not_look_small() -> None:
    assert not looks_small(PipelineRequest(("s3a://b/recorded",), "lake"), None)
    assert not looks_small(PipelineRequest(("recorded",), "s3a://b/lake"), [])


class Settings(dict[str, str]):
    """Settings of Spark in memory."""

    @property
    def conf(self) -> Settings:
        return self

    def set(self, name: str, value: str) -> None:
        self[name] = value


def test_the_settings_for_a_small_run_are_in_force_within_it_alone() -> None:
    usual = {name: f"usual {name}" for name in SMALL_SETTINGS}
    settings = Settings(usual)
    spark = cast("SparkSession", settings)

    with sized(spark, small=False):
        assert settings == usual
        assert not runs_small(spark)
    with sized(spark, small=True):
        assert settings == SMALL_SETTINGS
        assert runs_small(spark)
    assert settings == usual
