"""A lake from an untrusted source reads and writes nothing outside its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake.files import LocalFiles
from ktui.pipeline.lake.lake import read_manifest
from ktui.pipeline.lake.manifest import NAME, DataFile, Manifest, TablePart, encode
from ktui.pipeline.report.data.lake import ArrowLake

FOLDER = "moves/lake_version=000001-aa/cluster_id=c"


def write(lake: Path, *files: str) -> Path:
    """Write a lake whose manifest names one part with these files."""
    lake.mkdir(exist_ok=True)
    part = TablePart(tuple(DataFile(file, 1) for file in files), 1)
    (lake / NAME).write_bytes(encode(Manifest(version=1, tables={"moves": {"c": part}})))
    return lake


def refusals(lake: Path) -> set[str]:
    """Return how the pipeline and a report refuse a lake."""

    def refusal(open_: object) -> str:
        with pytest.raises(PipelineProblem) as refused:
            open_()  # type: ignore[operator]
        return str(refused.value).removeprefix("file://")

    return {
        refusal(lambda: read_manifest(LocalFiles(lake))),
        refusal(lambda: ArrowLake.open(str(lake))),
        refusal(lambda: ArrowLake.open(f"file://{lake}")).replace("file://", ""),
    }


@pytest.mark.parametrize(
    "file",
    [
        "../secret.parquet",
        "/etc/passwd",
        "/etc/some/deep/file",
        f"{FOLDER}/../x",
        f"{FOLDER}/./x",
        f"{FOLDER}//x",
        "",
        "moves",
        "moves/x",
        FOLDER,
        "s3://bucket/a/b/x",
        "file:/etc/a/b",
        f"{FOLDER}/a\0b",
    ],
)
def test_a_manifest_with_a_file_outside_the_folders_of_tables_is_refused_by_its_entry(
    tmp_path: Path, file: str
) -> None:
    lake = write(tmp_path / "lake", file)

    (refusal,) = refusals(lake)

    assert refusal == (
        f"{lake}/{NAME}: the lake cannot be read: tables.moves.c.files: {file!r} leaves the "
        "lake; ktui never writes such an entry. Make a new lake: ktui pipeline run --lake DIR"
    )


def test_a_lake_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema_version":1,"version":3}')

    (refusal,) = refusals(tmp_path)

    assert refusal.endswith("written by another ktui, as version 1; use that ktui")


@pytest.mark.parametrize("link", ["moves", "moves/lake_version=000001-aa", FOLDER, f"{FOLDER}/x"])
def test_a_link_out_of_the_lake_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "secret" / "lake_version=000001-aa" / "cluster_id=c").mkdir(parents=True)
    lake = write(tmp_path / "lake", f"{FOLDER}/file")
    (lake / link).parent.mkdir(parents=True, exist_ok=True)
    (lake / link).symlink_to(tmp_path / "secret")

    (refusal,) = refusals(lake)

    assert f"/{NAME}: " in refusal
    assert "leaves the lake" in refusal


@pytest.mark.parametrize("name", [NAME, f"{FOLDER}/file"])
def test_a_named_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(
    tmp_path: Path, name: str
) -> None:
    lake = write(tmp_path / "lake", f"{FOLDER}/file")
    (lake / FOLDER).mkdir(parents=True)
    (lake / name).unlink(missing_ok=True)
    os.mkfifo(lake / name)

    for refusal in refusals(lake):
        assert f"{lake}/{name}" in refusal
        assert "not a regular file" in refusal or "a FIFO, not a file" in refusal


def test_a_link_that_would_redirect_the_next_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "samples").symlink_to(tmp_path)

    with pytest.raises(PipelineProblem, match=r"samples: .* leaves the lake"):
        read_manifest(LocalFiles(tmp_path / "lake"))


def test_links_within_the_lake_and_to_the_lake_are_followed(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", f"{FOLDER}/file")
    (lake / FOLDER).mkdir(parents=True)
    (lake / FOLDER / "part").symlink_to(lake / NAME)
    (tmp_path / "by-another-name").symlink_to(lake)

    for place in (lake, tmp_path / "by-another-name"):
        assert ArrowLake.open(str(place)).manifest.version == 1
        assert read_manifest(LocalFiles(place)) is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"schema_version":1,"version":-1}',
        b'{"schema_version":1,"version":1' + b"0" * 5_000 + b"}",
        b'{"schema_version":1,"tables":[]}',
        b'{"schema_version":1,"program":"\xff"}',
    ],
)
def test_an_invalid_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)

    for refusal in refusals(tmp_path):
        assert refusal.startswith(f"{tmp_path}/{NAME}: ")
