"""A run is small by what it reads: new recordings, and those rows of a lake that they change."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.lake.files import ListedFile
from ktui.pipeline.lake.manifest import NAME, DataFile, Manifest, SegmentRead, TablePart, encode
from ktui.pipeline.lake.sizing import (
    PARTITION_BYTES,
    SMALL_BYTES,
    SMALL_SETTINGS,
    runs_small,
    sized,
)
from ktui.pipeline.run.run import PipelineRequest, reads_little


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


def test_a_jvm_ends_soon_where_little_is_new_whatever_the_lake_has(tmp_path: Path) -> None:
    old = ListedFile("/recorded/old.jsonl.gz", SMALL_BYTES, 1)
    new = ListedFile("/recorded/new.jsonl.gz", 2, 1)
    request = PipelineRequest(("/recorded",), str(tmp_path))
    assert not reads_little(request, [old, new])

    read = SegmentRead(old.path, old.length, old.modified_ms, "0" * 64)
    (tmp_path / NAME).write_bytes(encode(a_lake(samples=9 * SMALL_BYTES, read=(read,))))

    assert reads_little(request, [old, new])


def test_a_run_whose_size_is_not_known_before_spark_is_there_may_last() -> None:
    assert not reads_little(PipelineRequest(("s3a://b/recorded",), "lake"), None)
    assert not reads_little(PipelineRequest(("recorded",), "s3a://b/lake"), [])


class FakeSpark:
    """The settings of a Spark of two cores, in memory."""

    defaultParallelism = 2  # noqa: N815 - Spark's own name

    def __init__(self, master: str) -> None:
        self.master = master
        self.conf: dict[str, str] = Settings()

    @property
    def sparkContext(self) -> FakeSpark:  # noqa: N802 - Spark's own name
        return self


class Settings(dict[str, str]):
    """Settings of Spark in memory."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def within(size: int, master: str = "local[*]") -> dict[str, str]:
    """Return Spark's settings within a run of some bytes; they are the usual ones afterwards."""
    fake = FakeSpark(master)
    fake.conf |= {name: f"usual {name}" for name in SMALL_SETTINGS}
    usual = dict(fake.conf)
    spark = cast("SparkSession", fake)
    with sized(spark, size):
        inside = dict(fake.conf)
        assert runs_small(spark) == (size <= SMALL_BYTES)
    assert fake.conf == usual
    return {name: value for name, value in inside.items() if value != usual[name]}


@pytest.mark.parametrize("master", ["local[*]", "spark://host:7077"])
def test_a_run_of_at_most_4_mib_is_small_on_any_master(master: str) -> None:
    assert within(SMALL_BYTES, master) == SMALL_SETTINGS


def test_a_larger_run_on_this_machine_has_partitions_by_its_bytes_and_plans_each_job_once() -> None:
    partitions = "spark.sql.shuffle.partitions"
    larger = within(SMALL_BYTES + 1)
    assert larger["spark.sql.adaptive.enabled"] == "false"
    assert larger[partitions] == "2"
    assert within(7 * PARTITION_BYTES + 1)[partitions] == "8"


def test_a_larger_run_on_a_cluster_is_planned_by_the_rows_that_its_stages_find() -> None:
    assert within(SMALL_BYTES + 1, "spark://host:7077") == {}


def test_what_the_next_tables_read_decides_again_about_the_settings() -> None:
    spark = cast("SparkSession", FakeSpark("local[*]"))
    spark.conf.set("spark.sql.codegen.wholeStage", "true")

    with sized(spark, SMALL_BYTES) as sizing:
        assert runs_small(spark)
        sizing.resize(SMALL_BYTES + 1)
        assert not runs_small(spark)
        assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
        sizing.resize(1)
        assert runs_small(spark)


def test_settings_for_at_least_some_bytes_hold_for_a_while() -> None:
    spark = cast("SparkSession", FakeSpark("local[*]"))

    with sized(spark, SMALL_BYTES) as sizing:
        with sizing.at_least(1):
            assert runs_small(spark)
        with sizing.at_least(SMALL_BYTES + 1):
            assert not runs_small(spark)
        assert runs_small(spark)
