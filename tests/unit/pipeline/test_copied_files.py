"""A file with the bytes of another is found, and only files of one length are read for it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from ktui.pipeline.ingest.segments import with_checksums, without_copies
from ktui.pipeline.lake.files import ListedFile
from ktui.pipeline.lake.manifest import SegmentRead

NO_SPARK = cast("SparkSession", None)
"""Files of this machine are read without it."""


def written(path: Path, content: bytes) -> ListedFile:
    path.write_bytes(content)
    return ListedFile(str(path), len(content), 0)


def test_files_with_the_bytes_of_known_segments_or_of_earlier_files_are_copies(
    tmp_path: Path,
) -> None:
    known = SegmentRead("/gone", 3, 0, sha256(b"old").hexdigest())
    files = [
        written(tmp_path / name, content)
        for name, content in (("a", b"old"), ("b", b"new"), ("c", b"new"), ("d", b"longer"))
    ]

    first, copies = without_copies(NO_SPARK, files, [known])

    assert [Path(file.path).name for file in first] == ["b", "d"]
    assert copies == {files[0].path: known.sha256, files[2].path: sha256(b"new").hexdigest()}


def test_a_file_as_long_as_no_other_is_not_read_to_find_copies() -> None:
    missing = [ListedFile(name, length, 0) for name, length in (("/a", 1), ("/b", 2), ("/c", 2))]

    first, copies = without_copies(NO_SPARK, missing, [SegmentRead("/d", 3, 0, "")])

    assert first == missing[:1]
    assert copies == {}


def test_a_file_that_could_not_be_read_is_named_and_the_next_run_tries_again() -> None:
    files = [ListedFile("/a", 1, 5), ListedFile("/b", 2, 6)]

    read, problems = with_checksums(files, {"/a": "f00"})

    assert read == [SegmentRead("/a", 1, 5, "f00")]
    assert problems == ["/b: it could not be read; the next run tries again"]
