"""The segments that there are to read: found, made whole where need be, told from those known."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.decode import SEGMENT_DIGITS
from ktui.pipeline.lake import FOLLOWING, STAGING, VERSION
from ktui.pipeline.lake_files import GLOB, HadoopFiles, is_uri, local_path
from ktui.pipeline.manifest import SegmentRead
from ktui.pipeline.problem import PipelineProblem
from ktui.recording.sealing import seal
from ktui.recording.segments import CLOSED, files_under, is_open

_OPTIONS = {
    "recursiveFileLookup": "true",
    "pathGlobFilter": f"*{CLOSED}",
    # Spark leaves out what begins with "_", as the ids of clusters may; the lake itself is no place
    # of recordings, though it may lie among them. Known to Spark from 4.3 on.
    "ignoredPathSegmentRegex": f"^({VERSION}|{STAGING}$|{FOLLOWING}$)",
}
"""How Spark is to look for segments."""
_FILE = "path string, modificationTime timestamp, length bigint, content binary"
"""What it says of a file. Of the content nothing is read unless it is asked for."""


class SegmentFile(msgspec.Struct, frozen=True):
    """A whole segment's file."""

    path: str
    length: int
    """Bytes."""
    modified_ms: int


class Found(msgspec.Struct, frozen=True):
    """What is in the places that were named."""

    files: tuple[SegmentFile, ...]
    problems: tuple[str, ...]
    """Why segments that a recorder left behind could not be made whole."""
    unfinished: int
    """How many segments are being recorded still: they are read once they are whole."""


def find(spark: SparkSession, places: Iterable[str]) -> Found:
    """Find segments in files and folders, however deep, at paths or URIs.

    What a recorder that died has left behind on this machine is made whole first.

    Raises:
        PipelineProblem: a place does not exist.
    """
    files: dict[str, SegmentFile] = {}
    problems: list[str] = []
    unfinished = 0
    for place in places:
        path = local_path(place)
        if path is None:
            found = Found(tuple(_listed(spark, place)), (), 0)
        else:
            found = _found_here(path, place)
        files.update({file.path: file for file in found.files})
        problems += found.problems
        unfinished += found.unfinished
    return Found(tuple(files[path] for path in sorted(files)), tuple(problems), unfinished)


def _found_here(path: Path, place: str) -> Found:
    if not path.exists():
        raise PipelineProblem(f"{place}: no such file or folder")
    sealed = seal(path)
    files, unfinished = [], 0
    for file in files_under(path):
        if is_open(file):
            unfinished += 1
        elif file.name.endswith(CLOSED):
            status = file.stat()
            files.append(SegmentFile(str(file), status.st_size, status.st_mtime_ns // 1_000_000))
    return Found(tuple(files), tuple(map(str, sealed.problems)), unfinished)


def _listed(spark: SparkSession, place: str) -> list[SegmentFile]:
    listed = _described(spark.read.format("binaryFile").options(**_OPTIONS).load(place))
    return [SegmentFile(*row) for row in listed.collect()]


def _described(files: DataFrame) -> DataFrame:
    """Give of files what a `SegmentFile` says."""
    millis = F.unix_millis("modificationTime").alias("modified_ms")
    return files.select("path", "length", millis)


def stream(spark: SparkSession, places: Iterable[str]) -> DataFrame:
    """Give the segments in folders, however deep, as a stream of what each `SegmentFile` says.

    The folders are absolute paths or URIs, always in the same order, by which Spark notes them.
    How old a file is does not matter; one that is gone when its turn comes is left out.
    """
    reader = spark.readStream.format("binaryFile").schema(_FILE).options(**_OPTIONS)
    reader = reader.options(maxFileAge="36500d", ignoreMissingFiles="true")
    of_each = [_described(reader.load(_uri(place).translate(GLOB))) for place in places]
    return reduce(DataFrame.union, of_each)


def in_batch(rows: DataFrame) -> Found:
    """Give the files in a batch of the stream."""
    files = (
        SegmentFile(_plain(path), length, modified) for path, length, modified in rows.collect()
    )
    by_path = {file.path: file for file in files}
    return Found(tuple(by_path[path] for path in sorted(by_path)), (), 0)


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
    """Make whole what recorders that died have left on this machine; say what cannot be."""
    paths = filter(None, map(local_path, places))
    return [str(problem) for path in paths for problem in seal(path).problems]


def contents(spark: SparkSession, files: Iterable[SegmentFile | SegmentRead]) -> DataFrame:
    """Give the bytes of files, as `path` and `content`."""
    paths = [_uri(file.path).translate(GLOB) for file in files]
    return spark.read.format("binaryFile").load(paths).select("path", "content")


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
        SegmentFile(each.path, each.length, each.modified_ms)
        for each in places.values()
        if _exists(spark, each.path)
    ]
    if not files:
        return spark.createDataFrame([], "path string, content binary")
    return contents(spark, files)


def _exists(spark: SparkSession, place: str) -> bool:
    path = local_path(place)
    return HadoopFiles(place, spark).exists() if path is None else path.is_file()


def unread(
    spark: SparkSession, found: Iterable[SegmentFile], known: Collection[SegmentRead]
) -> list[SegmentRead]:
    """Give the files that are not known by path, size and time, each with its checksum."""
    before = {(each.path, each.length, each.modified_ms) for each in known}
    new = [each for each in found if (each.path, each.length, each.modified_ms) not in before]
    if not new:
        return []
    sums = contents(spark, new).select("path", F.sha2("content", 256))
    by_path = {_plain(path): checksum for path, checksum in sums.collect()}
    return [
        SegmentRead(each.path, each.length, each.modified_ms, by_path[each.path]) for each in new
    ]


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


def _plain(uri: str) -> str:
    """Give a path as it was asked for: Spark names files of this machine as `file:/path`."""
    return uri.removeprefix("file:") if uri.startswith("file:/") else uri
