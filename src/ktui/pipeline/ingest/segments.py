"""Find segments, complete abandoned ones, and skip known ones; report files with problems."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.inputfile import FileProblem
from ktui.pipeline.ingest.decode import SEGMENT_DIGITS
from ktui.pipeline.lake.engine import on_sail
from ktui.pipeline.lake.files import GLOB, HadoopFiles, ListedFile, is_uri, local_path
from ktui.pipeline.lake.folders import VERSION
from ktui.pipeline.lake.lake import STAGING
from ktui.pipeline.lake.manifest import PipelineProblem, SegmentRead
from ktui.quantities import as_bytes
from ktui.recording import segments as lines
from ktui.recording.segments import CLOSED, files_under, is_open, open_recording_file
from ktui.recording.stored import seal_files

LARGEST = 256 * 1024 * 1024
"""The most bytes of a file, which is in memory as a whole; recorders begin a new one at 8 MiB."""
_NOTHING = "there is nothing in it"
_LATER = "it could not be read; the next run tries again"
_OF_A_LAKE = re.compile(f"^({VERSION}|{STAGING}$)")
"""Matches folders of a lake, which may lie among the recordings, but has none itself."""
_FAULTS = {"ignoreMissingFiles": "true", "ignoreCorruptFiles": "true"}
"""A file that cannot be read must not fail the reading of all others."""


class Found(msgspec.Struct, frozen=True):
    """The segments found in some places."""

    files: tuple[ListedFile, ...]
    problems: tuple[str, ...]
    unfinished: int  # segments still being recorded, which are read once complete


def find(spark: SparkSession, places: Iterable[str]) -> Found:
    """Find segments at paths or URIs, however deep; complete the abandoned ones here first.

    A place where nothing is counts among the problems.
    """
    files: dict[str, ListedFile] = {}
    problems: list[str] = []
    unfinished = 0
    for place in places:
        path = local_path(place)
        found = _found_elsewhere(spark, place) if path is None else _found_here(path, place)
        files.update({file.path: file for file in found.files})
        problems += found.problems
        unfinished += found.unfinished
    return Found(tuple(files[path] for path in sorted(files)), tuple(problems), unfinished)


def listed_here(places: Iterable[str]) -> list[ListedFile] | None:
    """List all possible segments in some places; None with a URI."""
    found: list[ListedFile] = []
    for path in map(local_path, places):
        if path is None:
            return None
        found += map(_seen, files_under(path))
    return found


def _seen(file: Path) -> ListedFile:
    try:
        status = file.stat()
    except OSError:
        return ListedFile(str(file), 0, 0)
    return ListedFile(str(file), status.st_size, status.st_mtime_ns // 1_000_000)


def _found_here(path: Path, place: str) -> Found:
    if not path.exists():
        return _none_at(place)
    listed = [*files_under(path)]
    sealed = seal_files(filter(is_open, listed))
    problems = [str(problem) for problem in sealed.problems]
    files: list[ListedFile] = []
    unfinished = 0
    for file in sorted({*listed, *sealed.files}):
        if is_open(file):
            unfinished += file.is_file()
        elif file.name.endswith(CLOSED):
            try:
                files.append(_checked(file))
            except FileProblem as problem:
                problems.append(str(problem))
    return Found(tuple(files), tuple(problems), unfinished)


def _checked(file: Path) -> ListedFile:
    try:
        str(file).encode()
        with open_recording_file(file) as content:
            status = os.fstat(content.fileno())
    except UnicodeEncodeError:
        named = Path(os.fsencode(file).decode(errors="replace"))
        raise FileProblem(named, None, "its name is not UTF-8; rename it") from None
    except OSError as error:
        raise FileProblem(file, None, f"cannot be read: {error.strerror}") from error
    if ":" in file.name:
        raise FileProblem(file, None, "its name has a colon, which Spark cannot read; rename it")
    found = ListedFile(str(file), status.st_size, status.st_mtime_ns // 1_000_000)
    reason = _unusable(found)
    if reason is not None:
        raise FileProblem(file, None, reason)
    return found


def _unusable(file: ListedFile) -> str | None:
    if file.length == 0:
        return _NOTHING
    if file.length > LARGEST:
        return f"it has {as_bytes(file.length)}; no segment has more than {as_bytes(LARGEST)}"
    return None


def _usable(files: Iterable[ListedFile]) -> Found:
    usable: list[ListedFile] = []
    problems: list[str] = []
    for file in files:
        reason = _unusable(file)
        if reason is None:
            usable.append(file)
        else:
            problems.append(f"{file.path}: {reason}")
    return Found(tuple(usable), tuple(problems), 0)


def _found_elsewhere(spark: SparkSession, place: str) -> Found:
    """Spark would ask an object store for each file by itself."""
    at = HadoopFiles(place, spark)
    files = at.listed(recursive=True)
    if files is None:
        return _none_at(place)
    above = at.qualified.count("/")
    return _usable(
        file
        for file in files
        if file.path.endswith(CLOSED)
        and not any(map(_OF_A_LAKE.match, file.path.split("/")[above + 1 :]))
    )


def _none_at(place: str) -> Found:
    return Found((), (f"{place}: no such file or folder",), 0)


def check_there(spark: SparkSession | None, places: Iterable[str], *, folders: bool) -> None:
    """Raise PipelineProblem for a place where nothing is, or for a file where `folders` are due.

    Without Spark, places at URIs are not looked at.
    """
    for place in places:
        at: Path | HadoopFiles | None = local_path(place)
        if at is None:
            if spark is None:
                continue
            at = HadoopFiles(place, spark)
        if not at.exists():
            raise PipelineProblem(f"{place}: no such {'folder' if folders else 'file or folder'}")
        if folders and at.is_file():
            raise PipelineProblem(f"{place} is a file: give the folder that holds the segments")


def contents(spark: SparkSession, files: Iterable[ListedFile | SegmentRead]) -> DataFrame:
    """Read files, as `path` and `content`; files that are gone or unreadable are left out."""
    there = [file.path for file in files if _may_be_there(file.path)]
    if not there:
        return spark.createDataFrame([], "path string, content binary")
    if on_sail(spark):
        return spark.createDataFrame([(path,) for path in there], "path string").mapInArrow(
            _contents_here, "path string, content binary"
        )
    reader = spark.read.format("binaryFile").options(**_FAULTS)
    return reader.load([_uri(path).translate(GLOB) for path in there]).select("path", "content")


def _contents_here(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read files one by one: Sail passes over names that begin with "_", and some others."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            with suppress(OSError, FileProblem):
                with open_recording_file(Path(path)) as file:
                    content = file.read()
                rows = {"path": [f"file:{path}"], "content": pa.array([content], pa.binary())}
                yield pa.RecordBatch.from_pydict(rows)


def _may_be_there(place: str) -> bool:
    path = local_path(place)
    return path is None or path.is_file()


def read_contents_again(
    spark: SparkSession, known: Iterable[SegmentRead], checksums: Collection[str]
) -> DataFrame:
    """Read segments once more, by the digits of their checksums, where their files still exist."""
    places = {each.sha256: each for each in known if each.sha256[:SEGMENT_DIGITS] in checksums}
    elsewhere = {each.path for each in places.values() if local_path(each.path) is None}
    there = _present(spark, elsewhere)
    files = (each for each in places.values() if each.path in there or each.path not in elsewhere)
    return contents(spark, files)


def _present(spark: SparkSession, places: Collection[str]) -> set[str]:
    folders = sorted({place.rpartition("/")[0] for place in places})
    listed = (HadoopFiles(folder, spark).listed(recursive=False) for folder in folders)
    return {file.path for files in listed for file in files or ()} & set(places)


def new_files(found: Iterable[ListedFile], known: Iterable[SegmentRead]) -> list[ListedFile]:
    """Return the files that are not known by path, size and time."""
    before = {each.file for each in known}
    return [each for each in found if (each.path, each.length, each.modified_ms) not in before]


def without_copies(
    spark: SparkSession, new: Iterable[ListedFile], known: Iterable[SegmentRead]
) -> tuple[list[ListedFile], dict[str, str]]:
    """Leave out copies of known segments or earlier files.

    Returns the rest, and the checksums of the copies by path. Only files as long as another are
    read; the unreadable ones are left out too.
    """
    files, segments = list(new), list(known)
    lengths = Counter(each.length for each in files)
    lengths.update(each.length for each in segments)
    checksums = _checksums(spark, (each for each in files if lengths[each.length] > 1))
    seen = {each.sha256 for each in segments}
    first: list[ListedFile] = []
    copies: dict[str, str] = {}
    for file in files:
        checksum = checksums.get(file.path)
        if checksum in seen:
            copies[file.path] = checksum
        elif checksum is not None:
            seen.add(checksum)
            first.append(file)
        elif lengths[file.length] == 1:
            first.append(file)
    return first, copies


def _checksums(spark: SparkSession, files: Iterable[ListedFile]) -> dict[str, str]:
    sums: dict[str, str] = {}
    elsewhere: list[ListedFile] = []
    for file in files:
        path = local_path(file.path)
        if path is None:
            elsewhere.append(file)
            continue
        with suppress(OSError), path.open("rb") as content:
            sums[file.path] = file_digest(content, "sha256").hexdigest()
    if elsewhere:
        found = contents(spark, elsewhere).select("path", F.sha2("content", 256).alias("checksum"))
        sums |= {row.path: row.checksum for row in found.collect()}
    return sums


def with_checksums(
    files: Iterable[ListedFile], checksums: Mapping[str, str]
) -> tuple[list[SegmentRead], list[str]]:
    """Return the files of which there is a checksum, and the problems of those without one."""
    read: list[SegmentRead] = []
    problems: list[str] = []
    for file in files:
        checksum = checksums.get(file.path)
        if checksum is None:
            problems.append(f"{file.path}: {_LATER}")
        else:
            read.append(SegmentRead(file.path, file.length, file.modified_ms, checksum))
    return read, problems


def settled(known: Iterable[SegmentRead]) -> list[SegmentRead]:
    """Leave out the segments that an older ktui could not read, and that this one can."""
    return [
        each
        for each in known
        if each.newer_format is None or each.newer_format > lines.SCHEMA_VERSION
    ]


def _uri(path: str) -> str:
    return path if is_uri(path) else f"file://{path}"


def without_file_scheme(uri: str) -> str:
    """Return a path without Spark's `file:` prefix for files of this machine."""
    return uri.removeprefix("file:") if uri.startswith("file:/") else uri
