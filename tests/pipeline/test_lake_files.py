"""The files of a lake behave the same on a local disk and through Hadoop's client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.lake import files as lake_files_module
from ktui.pipeline.lake.files import HadoopFiles, LakeFiles, LocalFiles, lake_files
from ktui.pipeline.lake.manifest import DataFile


@pytest.fixture(params=["local", "hadoop"])
def files(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> LakeFiles:
    if request.param == "local":
        return LocalFiles(tmp_path)
    return HadoopFiles(f"file://{tmp_path}", spark)


def test_a_replaced_file_is_complete_and_new(files: LakeFiles) -> None:
    assert files.read("manifest.json") is None

    files.replace("manifest.json", b"one")
    files.replace("manifest.json", b"\x00\xff two")

    assert files.read("manifest.json") == b"\x00\xff two"


@pytest.fixture
def usual(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A folder that is `/data` of the file system which URIs without a host mean."""
    context: Any = spark._jsc
    settings = context.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.viewfs.mounttable.usual.link./data", tmp_path.as_uri())
    settings.set("fs.defaultFS", "viewfs://usual")
    yield tmp_path
    settings.set("fs.defaultFS", before)


def test_a_file_is_replaced_at_a_uri_that_names_no_host(usual: Path, spark: SparkSession) -> None:
    files = HadoopFiles("viewfs:///data", spark)

    files.replace("manifest.json", b"one")
    files.replace("manifest.json", b"two")

    assert (usual / "manifest.json").read_bytes() == b"two"


def test_a_file_that_another_run_has_replaced_meanwhile_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = HadoopFiles(f"file://{tmp_path}", spark)
    none = files.state("manifest.json")
    assert files.replace("manifest.json", b"one", none)
    one = files.state("manifest.json")

    assert not files.replace("manifest.json", b"late", none)
    assert files.replace("manifest.json", b"two", one)
    assert not files.replace("manifest.json", b"late", one)

    assert files.read("manifest.json") == b"two"
    assert not (tmp_path / "manifest.json.new").exists()


def test_a_new_file_that_a_dead_run_left_is_removed_after_a_while(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files_module, "_DEAD_AFTER_S", 0.2)
    (tmp_path / "manifest.json.new").write_bytes(b"ha")
    files = HadoopFiles(f"file://{tmp_path}", spark)

    assert files.replace("manifest.json", b"whole")

    assert files.read("manifest.json") == b"whole"


def test_folders_and_data_files_are_named_relative_to_the_lake(
    files: LakeFiles, tmp_path: Path
) -> None:
    folder = tmp_path / "samples" / "version=1" / "cluster_id=a%3Ab" / "date=2026-01-01"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"12345")
    (folder / "_SUCCESS").touch()

    assert files.folders("") == ["samples"]
    assert files.folders("samples") == ["version=1"]
    assert files.folders("missing") == []
    assert files.data_files("samples/version=1") == [
        DataFile("samples/version=1/cluster_id=a%3Ab/date=2026-01-01/part-0.parquet", 5)
    ]

    files.remove("samples/version=1")
    files.remove("samples/version=1")
    assert files.folders("samples") == []


def test_the_files_of_one_folder_are_listed_and_removed_one_by_one(files: LakeFiles) -> None:
    for name in ("log/1.json", "log/2.json", "log/below/3.json"):
        files.replace(name, b"{}")

    files.remove("log/1.json")
    files.remove("log/1.json")

    assert files.files("log") == ["2.json"]
    assert files.files("missing") == []


@pytest.mark.parametrize(
    ("place", "kind"),
    [("lake", LocalFiles), ("/data/a:b", LocalFiles), ("file:///data/lake", LocalFiles)],
)
def test_a_path_and_a_file_uri_are_local(spark: SparkSession, place: str, kind: type) -> None:
    found = lake_files(place, spark)

    assert isinstance(found, kind)
    assert found.uri.startswith("file:///")


def test_files_at_a_uri_are_listed_in_one_folder_or_in_all_below(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("one.gz", "below/two.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    files = HadoopFiles(f"file://{tmp_path}", spark)

    here, everywhere = files.listed(recursive=False), files.listed(recursive=True)

    assert here is not None
    assert everywhere is not None
    assert [file.path.rpartition("/")[2] for file in here] == ["one.gz"]
    assert sorted(file.path.removeprefix(files.qualified) for file in everywhere) == [
        "/below/two.gz",
        "/one.gz",
    ]
    assert {file.length for file in everywhere} == {5}
    assert HadoopFiles(f"file://{tmp_path}/missing", spark).listed(recursive=True) is None
