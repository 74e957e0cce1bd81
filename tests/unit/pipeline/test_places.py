"""A place is a local path or a URI of any file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake.files import local_path


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/data/lake", "/data/lake"),
        ("/data/a:b", "/data/a:b"),
        ("file:///data/lake", "/data/lake"),
        ("file:/data/lake", "/data/lake"),
        ("hdfs://name:8020/lake", None),
        ("hdfs:///lake", None),
        ("dbfs:/lake", None),
        ("s3a://bucket/lake", None),
    ],
)
def test_a_local_path_is_distinguished_from_a_uri(place: str, path: str | None) -> None:
    assert local_path(place) == (None if path is None else Path(path))


def test_a_local_path_has_no_dots_as_spark_names_its_files_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far" / "below").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "below")
    monkeypatch.chdir(tmp_path / "here")

    assert local_path("../far/x") == tmp_path / "far" / "x"
    assert local_path(f"file://{tmp_path}/here/../far") == tmp_path / "far"
    assert local_path("../link/../x") == tmp_path / "far" / "x"
    assert local_path("../link/x") == tmp_path / "link" / "x"


def test_an_unknown_home_folder_is_named() -> None:
    with pytest.raises(PipelineProblem, match="there is no home folder ~nobody-has-this-name"):
        local_path("~nobody-has-this-name/lake")
