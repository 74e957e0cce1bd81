"""The segments that there are to read: found, made whole where need be, told from those known.

Whatever is wrong with a file is its own problem: it is named and passed over, and all else is read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import reduce
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.fileproblem import FileProblem
from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.ingest.decode import SEGMENT_DIGITS
from ktui.pipeline.lake.files import GLOB, HadoopFiles, is_uri, local_path
from ktui.pipeline.lake.lake import FOLLOWING, STAGING, VERSION
from ktui.pipeline.lake.manifest import SegmentRead
from ktui.quantities import as_bytes
from ktui.recording.opening import opened
from ktui.recording.sealing import seal
from ktui.recording.segments import CLOSED, files_under, is_open

LARGEST = 256 * 1024 * 1024
"""Bytes of a file, which is in memory as a whole; recorders begin another one after 8 MiB."""
_NOTHING = "there is nothing in it"
_LATER = "it could not be read; the next run tries again"
_OPTIONS = {
    "recursiveFileLookup": "true",
    "pathGlobFilter": f"*{CLOSED}",
    # Spark leaves out what begins with "_", as the ids of clusters may; the lake itself is no place
    # of recordings, though it may lie among them. Known to Spark from 4.3 on.
    "ignoredPathSegmentRegex": f"^({VERSION}|{STAGING}$|{FOLLOWING}$)",
}
"""How Spark is to look for segments."""
_FAULTS = {"ignoreMissingFiles": "true", "ignoreCorruptFiles": "true"}
"""What becomes of a file that cannot be read must not become of all others."""
_FILE = "path string, modificationTime timestamp, length bigint, content binary"
"""What it says of a file. Of the content nothing is read unless it is asked for."""


class WholeSegment(msgspec.Struct, frozen=True):
    """A whole segment's file."""

    path: str
    length: int
    """Bytes."""
    modified_ms: int


class Found(msgspec.Struct, frozen=True):
    """What is in the places that were named."""

    files: tuple[WholeSegment, ...]
    problems: tuple[str, ...]
    """What is wrong with files that are passed over: place and reason of each."""
    unfinished: int
    """How many segments are being recorded still: they are read once they are whole."""


def find(spark: SparkSession, places: Iterable[str]) -> Found:
    """Find segments in files and folders, however deep, at paths or URIs.

    What a recorder that died has left behind on this machine is made whole first.

    Raises:
        PipelineProblem: a place does not exist.
    """
    files: dict[str, WholeSegment] = {}
    problems: list[str] = []
    unfinished = 0
    for place in places:
        path = local_path(place)
        found = _usable(_listed(spark, place)) if path is None else _found_here(path, place)
        files.update({file.path: file for file in found.files})
        problems += found.problems
        unfinished += found.unfinished
    return Found(tuple(files[path] for path in sorted(files)), tuple(problems), unfinished)


def _found_here(path: Path, place: str) -> Found:
    if not path.exists():
        raise PipelineProblem(f"{place}: no such file or folder")
    problems = [str(problem) for problem in seal(path).problems]
    files: list[WholeSegment] = []
    unfinished = 0
    for file in files_under(path):
        if is_open(file):
            unfinished += file.is_file()
        elif file.name.endswith(CLOSED):
            try:
                files.append(_looked_at(file))
            except FileProblem as problem:
                problems.append(str(problem))
    return Found(tuple(files), tuple(problems), unfinished)


def _looked_at(file: Path) -> WholeSegment:
    """Look at a file of this machine.

    Raises:
        FileProblem: it is no file that can be read, or none that is a segment.
    """
    try:
        str(file).encode()
        with opened(file) as content:
            status = os.fstat(content.fileno())
    except UnicodeEncodeError:
        named = Path(os.fsencode(file).decode(errors="replace"))
        raise FileProblem(named, None, "its name is no UTF-8; rename it") from None
    except OSError as error:
        raise FileProblem(file, None, f"cannot be read: {error.strerror}") from error
    if ":" in file.name:
        raise FileProblem(file, None, "Spark reads no file with a colon in its name; rename it")
    found = WholeSegment(str(file), status.st_size, status.st_mtime_ns // 1_000_000)
    reason = _unusable(found)
    if reason is not None:
        raise FileProblem(file, None, reason)
    return found


def _unusable(file: WholeSegment) -> str | None:
    """Say why a file is no segment, by its size alone."""
    if file.length == 0:
        return _NOTHING
    if file.length > LARGEST:
        return f"it has {as_bytes(file.length)}; no segment has more than {as_bytes(LARGEST)}"
    return None


def _usable(files: Iterable[WholeSegment]) -> Found:
    """Tell the files that may be segments from all others."""
    usable: list[WholeSegment] = []
    problems: list[str] = []
    for file in files:
        reason = _unusable(file)
        if reason is None:
            usable.append(file)
        else:
            problems.append(f"{file.path}: {reason}")
    return Found(tuple(usable), tuple(problems), 0)


def _listed(spark: SparkSession, place: str) -> list[WholeSegment]:
    listed = _described(spark.read.format("binaryFile").options(**_OPTIONS).load(place))
    return [WholeSegment(*row) for row in listed.collect()]


def _described(files: DataFrame) -> DataFrame:
    """Give of files what a `WholeSegment` says."""
    millis = F.unix_millis("modificationTime").alias("modified_ms")
    return files.select("path", "length", millis)


def stream(spark: SparkSession, places: Iterable[str]) -> DataFrame:
    """Give the segments in folders, however deep, as a stream of what each `WholeSegment` says.

    The folders are absolute paths or URIs, always in the same order, by which Spark notes them.
    How old a file is does not matter; one that is gone when its turn comes is left out.
    """
    reader = spark.readStream.format("binaryFile").schema(_FILE).options(**_OPTIONS)
    reader = reader.options(maxFileAge="36500d", ignoreMissingFiles="true")
    of_each = [_described(reader.load(_uri(place).translate(GLOB))) for place in places]
    return reduce(DataFrame.union, of_each)


def in_batch(rows: DataFrame) -> Found:
    """Return the files in a batch of the stream; those that are gone by now are left out."""
    files = (
        WholeSegment(plain(path), length, modified) for path, length, modified in rows.collect()
    )
    by_path = {file.path: file for file in files}
    found = _usable(by_path[path] for path in sorted(by_path))
    usable: list[WholeSegment] = []
    problems = [*found.problems]
    for file in found.files:
        path = local_path(file.path)
        try:
            if path is None or path.exists():
                usable.append(file if path is None else _looked_at(path))
        except FileProblem as problem:
            problems.append(str(problem))
    return Found(tuple(usable), tuple(problems), 0)


def check_folders(spark: SparkSession, places: Iterable[str]) -> None:
    """See that places are folders, in which segments can come.

    Raises:
        PipelineProblem: one does not exist, or is a file.
    """
    for place in places:
        at = local_path(place) or HadoopFiles(place, spark)
        if not at.exists():
            raise PipelineProblem(f"{place}: no such folder")
        if at.is_file():
            raise PipelineProblem(f"{place}: a file, in which no segments come. Name its folder")


def sealed_left(places: Iterable[str]) -> list[str]:
    """Make whole what recorders that died have left on this machine.

    Returns:
        What cannot be made whole, and what else a stream passes over without a word.
    """
    problems: list[str] = []
    for place in places:
        path = local_path(place)
        if path is not None:
            with suppress(PipelineProblem):  # it is gone, and may come again
                problems += _found_here(path, place).problems
    return problems


def contents(spark: SparkSession, files: Iterable[WholeSegment | SegmentRead]) -> DataFrame:
    """Read files, as `path` and `content`; those that cannot be read, or are gone, are left out."""
    there = [file.path for file in files if _may_be_there(file.path)]
    if not there:
        return spark.createDataFrame([], "path string, content binary")
    reader = spark.read.format("binaryFile").options(**_FAULTS)
    return reader.load([_uri(path).translate(GLOB) for path in there]).select("path", "content")


def _may_be_there(place: str) -> bool:
    """Whether Spark may be asked for a file: it refuses all where it does not find one."""
    path = local_path(place)
    return path is None or path.is_file()


def still_there(
    spark: SparkSession, known: Iterable[SegmentRead], wanted: Collection[str]
) -> DataFrame:
    """Give the contents of segments that were read before, of those whose files there still are.

    Args:
        spark: reads them.
        known: all that the lake has.
        wanted: the first digits of their checksums, as the tables have them.
    """
    places = {each.sha256: each for each in known if each.sha256[:SEGMENT_DIGITS] in wanted}
    files = [
        WholeSegment(each.path, each.length, each.modified_ms)
        for each in places.values()
        if _exists(spark, each.path)
    ]
    return contents(spark, files)


def _exists(spark: SparkSession, place: str) -> bool:
    path = local_path(place)
    return HadoopFiles(place, spark).exists() if path is None else path.is_file()


def unread(
    spark: SparkSession, found: Iterable[WholeSegment], known: Collection[SegmentRead]
) -> tuple[list[SegmentRead], list[str]]:
    """Return the files that are not known by path, size and time, each with its checksum.

    The second list tells of those that could not be read.
    """
    before = {(each.path, each.length, each.modified_ms) for each in known}
    new = [each for each in found if (each.path, each.length, each.modified_ms) not in before]
    if not new:
        return [], []
    sums = contents(spark, new).select("path", F.sha2("content", 256))
    by_path = {plain(path): checksum for path, checksum in sums.collect()}
    read = [
        SegmentRead(each.path, each.length, each.modified_ms, by_path[each.path])
        for each in new
        if each.path in by_path
    ]
    return read, [f"{each.path}: {_LATER}" for each in new if each.path not in by_path]


def first_of_each(files: Iterable[SegmentRead], known: Iterable[SegmentRead]) -> list[SegmentRead]:
    """Leave out the files whose bytes are known, or come before among these."""
    seen = {each.sha256 for each in known}
    first = []
    for file in files:
        if file.sha256 not in seen:
            seen.add(file.sha256)
            first.append(file)
    return first


def _uri(path: str) -> str:
    return path if is_uri(path) else f"file://{path}"


def plain(uri: str) -> str:
    """Return a path as it was asked for: Spark names files of this machine as `file:/path`."""
    return uri.removeprefix("file:") if uri.startswith("file:/") else uri
