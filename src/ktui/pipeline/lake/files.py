"""The files of a lake: on a disk of this machine, or at any URI of Spark's Hadoop client."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pyspark.sql import SparkSession

from ktui.durable import sync_folder, write_whole
from ktui.inputfile import Unreadable, expand_home
from ktui.pipeline.lake.engine import Py4JJavaError
from ktui.pipeline.lake.manifest import DataFile, LakeLocked, Manifest, PipelineProblem, check_files
from ktui.pipeline.lake.schema import Footer, footer_of, hadoop_footer_of
from ktui.recording.segments import open_recording_file

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""One slash is enough: Hadoop omits an empty host, and writes dbfs:///folder as dbfs:/folder."""
_LOCK = "ktui-lake.lock"
_ONLY_IF_NEW = "fs.option.create.conditional.overwrite"
_ONLY_IF_SAME = f"{_ONLY_IF_NEW}.etag"
"""Hadoop's options for a file that replaces nothing, or only the content with an ETag. S3A has both
from Hadoop 3.4.2 on; they are one request, `If-None-Match: *` or `If-Match`."""
GLOB = str.maketrans({each: f"\\{each}" for each in "\\{}[]*?"})
"""A table for `str.translate`: escapes the characters that Spark reads as a glob pattern."""

_DEAD_AFTER_S = 30.0
"""A new file that nobody has renamed for so long is of a run that has died: it takes a second."""
_EVERY_S = 0.1
_EXISTS = ("FileAlreadyExistsException", "AlreadyBeingCreatedException")
"""What Hadoop says where another run's new file is, and HDFS where that run still writes it."""


class FileState(msgspec.Struct, frozen=True):
    """The content that a file has at a time."""

    etag: str | None  # of an object store, else its hash; None where there is no file


class ListedFile(msgspec.Struct, frozen=True):
    """A file, by its path or URI."""

    path: str
    length: int
    modified_ms: int


def is_uri(place: str) -> bool:
    """Whether a place is a URI, not a plain path of this machine."""
    return _SCHEME.match(place) is not None


def local_path(place: str) -> Path | None:
    """Return a place as a path; None for a URI that is not of the scheme `file`."""
    if not is_uri(place):
        try:
            return _without_dots(expand_home(place).absolute())
        except Unreadable as why:
            raise PipelineProblem(f"{place}: {why}") from None
    parts = urlsplit(place)
    return _without_dots(Path(parts.path)) if parts.scheme == "file" else None


def _without_dots(path: Path) -> Path:
    if ".." not in path.parts:
        return path
    last = len(path.parts) - path.parts[::-1].index("..")
    return Path(*path.parts[:last]).resolve().joinpath(*path.parts[last:])


def lake_files(place: str, spark: SparkSession) -> LakeFiles:
    """Return access to the files of the lake at a path or URI."""
    path = local_path(place)
    return HadoopFiles(place, spark) if path is None else LocalFiles(path)


@contextmanager
def locked_alone(path: Path, busy: PipelineProblem) -> Iterator[None]:
    """Lock a file, or raise `busy` if another process has the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # without waiting for the reader of a named pipe
    with open(path, "a", opener=lambda at, flags: os.open(at, flags | os.O_NONBLOCK)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield


class LocalFiles:
    """A lake in a folder of this machine. Names are relative to that folder."""

    locks = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uri = f"file://{path}"  # of the folder, without a slash at the end

    def read(self, name: str) -> bytes | None:
        """Raise FileProblem for what is no regular file: reading a named pipe would never end."""
        try:
            with open_recording_file(self.path / name) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def state(self, name: str) -> FileState | None:  # noqa: ARG002 - locked: nothing to compare
        return None

    def replace(self, name: str, content: bytes, state: FileState | None = None) -> bool:  # noqa: ARG002 - locked
        """Replace a file atomically and durably: the content is synced before the rename."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, mode=None)
        return True

    def folders(self, name: str) -> list[str]:
        return sorted(each.name for each in self._inside(name) if each.is_dir())

    def files(self, name: str) -> list[str]:
        return sorted(each.name for each in self._inside(name) if each.is_file())

    def _inside(self, name: str) -> list[Path]:
        folder = self.path / name
        return [*folder.iterdir()] if folder.is_dir() else []

    def data_files(self, folder: str) -> list[DataFile]:
        """List the Parquet files anywhere under a folder, once all of them are synced to disk."""
        found = sorted((self.path / folder).rglob("*.parquet"))
        for path in found:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        for parent in {
            each for path in found for each in path.parents if self.path in each.parents
        }:
            sync_folder(parent)
        return [DataFile(str(p.relative_to(self.path)), p.stat().st_size) for p in found]

    def footer(self, name: str) -> Footer:
        return footer_of(self.path / name)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        path = self.path / name
        if path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)

    def check(self, manifest: Manifest) -> None:
        """Raise ValueError, which names it, if anything in a lake leads out of it."""
        check_files(self.path, manifest)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the lake, or raise LakeLocked; the kernel frees the lock of a process that dies."""
        busy = LakeLocked(f"{self.path}: another run is writing this lake; wait for it")
        with locked_alone(self.path / _LOCK, busy):
            yield


class HadoopFiles:
    """A lake at a URI, reached through Spark's Hadoop client."""

    locks = False

    def __init__(self, uri: str, spark: SparkSession) -> None:
        self.uri = uri.rstrip("/")
        jvm: Any = spark._jvm  # noqa: SLF001 - Spark has no public way to its Hadoop client
        context: Any = spark._jsc  # noqa: SLF001 - the same
        self._path = jvm.org.apache.hadoop.fs.Path
        self._buffers = jvm.org.apache.hadoop.io
        self._options = jvm.org.apache.hadoop.fs.Options
        self._jvm = jvm
        self._conf = context.hadoopConfiguration()
        self._system = self._path(self.uri).getFileSystem(self._conf)

    @property
    def qualified(self) -> str:
        return str(self._system.makeQualified(self._path(self.uri)).toString())

    def exists(self) -> bool:
        return bool(self._system.exists(self._path(self.uri)))

    def is_file(self) -> bool:
        return self.exists() and bool(self._system.getFileStatus(self._path(self.uri)).isFile())

    def read(self, name: str) -> bytes | None:
        path = self._at(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def state(self, name: str) -> FileState | None:
        """Return a file's state, for `replace`; None where no write can be conditional."""
        if self._renames():
            content = self.read(name)
            return FileState(None if content is None else sha256(content).hexdigest())
        path = self._at(name)
        if not self._system.hasPathCapability(path, _ONLY_IF_SAME):
            return None
        there = self._system.exists(path)
        return FileState(self._system.getFileStatus(path).getETag() if there else None)

    def replace(self, name: str, content: bytes, state: FileState | None = None) -> bool:
        """Replace a file: readers see the old content or the new.

        On a file system with folders, a new file is renamed over the old one, and other runs wait
        while it is there. An object store has no rename, but compares the state as it writes the
        object.
        """
        if self._renames():
            return self._rename_only(state, name, content)
        if state is not None:
            return self._replace_only(state, name, content)
        self._write(self._at(name), content)
        return True

    def _rename_only(self, state: FileState | None, name: str, content: bytes) -> bool:
        """Compare and rename while the new file is there, which only one run at a time can make."""
        new = self._at(f"{name}.new")
        self._fill(self._created_alone(new), content)
        if state is not None and self.state(name) != state:
            self._system.delete(new, False)  # noqa: FBT003 - not recursive; Java's
            return False
        self._rename_over(new, self._at(name))
        return True

    def _created_alone(self, path: Any) -> Any:
        seen, since = "", time.monotonic()
        while True:
            try:
                return self._system.create(path, False)  # noqa: FBT003 - overwrite; Java's
            except Py4JJavaError as error:
                if not any(each in str(error.java_exception) for each in _EXISTS):
                    raise
            found = self._status(path)
            if found != seen:
                seen, since = found, time.monotonic()
            elif time.monotonic() - since > _DEAD_AFTER_S:
                self._system.delete(path, False)  # noqa: FBT003 - not recursive; Java's
            time.sleep(_EVERY_S)

    def _status(self, path: Any) -> str:
        try:
            return str(self._system.getFileStatus(path).toString())
        except Py4JJavaError:
            return ""

    def _replace_only(self, state: FileState, name: str, content: bytes) -> bool:
        file = self._system.createFile(self._at(name)).create()
        if state.etag is None:
            file.must(_ONLY_IF_NEW, True)  # noqa: FBT003 - Java's
        else:
            file.must(_ONLY_IF_SAME, state.etag)
        try:
            self._fill(file.build(), content)
        except Py4JJavaError:
            # The client repeats a request whose answer was lost, and the store refuses the second.
            if self.read(name) == content:
                return True
            if self.state(name) == state:
                raise
            return False
        return True

    def _rename_over(self, new: Any, old: Any) -> None:
        # unlike the file system, a context does not take hdfs:///folder, of the usual name node
        files = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._system.getUri(), self._conf
        )
        over = self._jvm.java.lang.reflect.Array.newInstance(
            self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename"), 1
        )
        over[0] = getattr(self._options, "Rename").OVERWRITE  # noqa: B009 - a Java inner class
        files.rename(self._system.makeQualified(new), self._system.makeQualified(old), over)

    def folders(self, name: str) -> list[str]:
        return sorted(each.getPath().getName() for each in self._inside(name) if each.isDirectory())

    def files(self, name: str) -> list[str]:
        return sorted(each.getPath().getName() for each in self._inside(name) if each.isFile())

    def _inside(self, name: str) -> list[Any]:
        path = self._at(name)
        return [*self._system.listStatus(path)] if self._system.exists(path) else []

    def data_files(self, folder: str) -> list[DataFile]:
        root = f"{self.qualified}/"
        found = (
            DataFile(each.path.removeprefix(root), each.length)
            for each in self._listed(self._at(folder), recursive=True)
            if each.path.endswith(".parquet")
        )
        return sorted(found, key=lambda file: file.path)

    def listed(self, *, recursive: bool) -> list[ListedFile] | None:
        """List the files in the folder, or the one file at the URI; None if nothing is there."""
        path = self._path(self.uri)
        return [*self._listed(path, recursive=recursive)] if self.exists() else None

    def _listed(self, path: Any, *, recursive: bool) -> Iterator[ListedFile]:
        listed = self._system.listFiles(path, recursive)
        while listed.hasNext():
            status = listed.next()
            yield ListedFile(
                status.getPath().toString(), status.getLen(), status.getModificationTime()
            )

    def footer(self, name: str) -> Footer:
        return hadoop_footer_of(self._jvm, self._at(name), self._conf)

    def remove(self, name: str) -> None:
        self._system.delete(self._at(name), True)  # noqa: FBT003 - recursive; Java's

    def check(self, manifest: Manifest) -> None: ...

    def _at(self, name: str) -> Any:
        return self._path(f"{self.uri}/{name}")

    def _write(self, path: Any, content: bytes) -> None:
        self._fill(self._system.create(path, True), content)  # noqa: FBT003 - overwrite; Java's

    @staticmethod
    def _fill(stream: Any, content: bytes) -> None:
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _renames(self) -> bool:
        return self._system.getUri().getScheme() in (
            "hdfs",
            "file",
            "viewfs",
            "webhdfs",
            "abfs",
            "abfss",
        )


LakeFiles = LocalFiles | HadoopFiles
