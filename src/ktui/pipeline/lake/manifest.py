"""The manifest of a lake, one small file that a run replaces as a whole; and what can go wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec


class PipelineProblem(Exception):
    """The pipeline cannot go on. The message names the problem, its place and what to do."""


class LakeLocked(PipelineProblem):
    """Another run is writing the lake, which is free again once that run has ended."""


class SparkFailed(PipelineProblem):
    """Spark failed; its log has the details."""


SCHEMA_VERSION = 2  # until version 1, each part was in one folder, which the manifest named too
NAME = "ktui-lake.json"
_ABOVE = ("", ".", "..")
_WRITTEN = ("*", "*/*", "*/_delta_log/*")
"""The entries of a lake, of its tables, and of their Delta logs, which follow links if written."""
_FOLDERS = 3  # a file is in a folder of its table, version and cluster, or below that
_FIX = "ktui never writes such an entry. Make a new lake: ktui pipeline run --lake DIR"
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]


class SegmentRead(msgspec.Struct, frozen=True, omit_defaults=True):
    """A segment's file that has been read into the lake, or whose format is too new for that."""

    path: str
    length: _Count
    modified_ms: int
    sha256: str
    newer_format: int | None = None  # the format that the lake's ktui did not know; or None

    @property
    def file(self) -> tuple[str, int, int]:
        """The path, size and mtime that identify the file in a later run."""
        return (self.path, self.length, self.modified_ms)


class DataFile(msgspec.Struct, frozen=True):
    """A Parquet file."""

    path: str  # relative to the lake: table, version, cluster, and further below
    length: _Count
    rows: _Count = 0  # 0 also where a lake of schema version 1 does not say

    @property
    def folder(self) -> str:
        return "/".join(self.path.split("/")[:3])

    @property
    def version(self) -> str:
        return self.path.split("/")[1]


class TablePart(msgspec.Struct, frozen=True):
    """One cluster's part of a table, in the folders of one or several versions."""

    files: tuple[DataFile, ...]
    rows: _Count

    @property
    def folders(self) -> list[str]:
        return sorted({file.folder for file in self.files})


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One whole version of a lake."""

    schema_version: int = SCHEMA_VERSION
    version: _Count = 0
    """The number of runs that wrote something."""
    written_at: str = ""
    program: str = ""
    segments: tuple[SegmentRead, ...] = ()
    tables: dict[str, dict[str, TablePart]] = msgspec.field(default_factory=dict)
    """By the table's name, then by cluster id."""

    @property
    def clusters(self) -> list[str]:
        return sorted({cluster for parts in self.tables.values() for cluster in parts})

    @property
    def folders(self) -> set[str]:
        return {folder for _, part in self.entries() for folder in part.folders}

    def entries(self) -> Iterator[tuple[str, TablePart]]:
        """Yield each cluster's part of each table, with the place in the manifest that names it."""
        for table, parts in self.tables.items():
            for cluster, part in parts.items():
                yield f"tables.{table}.{cluster}", part


class _Version(msgspec.Struct):
    schema_version: int


def encode(manifest: Manifest) -> bytes:
    """Encode a manifest as JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(content: bytes) -> Manifest:
    """Decode and check a manifest; ValueError names what is wrong, or leads out of the lake."""
    version = msgspec.json.decode(content, type=_Version).schema_version
    if version != SCHEMA_VERSION:
        raise ValueError(f"written by another ktui, as version {version}; use that ktui")
    found = msgspec.json.decode(content, type=Manifest)
    for place, part in found.entries():
        _check(place, part)
    return found


def unreadable_manifest(place: str, error: Exception) -> str:
    """Return the message that a lake's manifest cannot be read, with the reason."""
    return f"{place}/{NAME}: the lake cannot be read: {error}"


def missing_lake(place: str) -> str:
    """Return the message that there is no lake at a place, with the command that makes one."""
    return f"{place}: no lake. Make one from recordings: ktui pipeline run --lake {place}"


def leaves_lake_error(place: str, name: str) -> ValueError:
    """Return the error for an entry that leads out of its lake."""
    return ValueError(f"{place}: {name!r} leaves the lake; {_FIX}")


def _check(place: str, part: TablePart) -> None:
    for file in part.files:
        if not _under(file.path):
            raise leaves_lake_error(f"{place}.files", file.path)


def _under(name: str) -> bool:
    """Whether a name stays under a folder, read either as a path or as a URI."""
    parts = name.split("/")
    scheme = ":" in parts[0]
    return (
        len(parts) > _FOLDERS and not scheme and "\0" not in name and not set(parts) & set(_ABOVE)
    )


def check_files(lake: Path, manifest: Manifest) -> None:
    """Raise ValueError for a symbolic link that leads out of a lake on this machine.

    So it does for what is neither file nor folder: reading a named pipe would never end. Covered
    are the folders of tables, which are written, and those in the manifest, which are read.
    """
    root = Path(os.path.realpath(lake))
    for pattern in _WRITTEN:
        for link in sorted(each for each in lake.glob(pattern) if each.is_symlink()):
            _check_link(link, root, str(link.relative_to(lake)))
    for place, part in manifest.entries():
        for folder in (lake / name for name in part.folders):
            _check_link(folder, root, f"{place}.files")
            for each in folder.rglob("*"):
                if each.is_symlink():
                    _check_link(each, root, f"{place}.files")
                if each.exists() and not each.is_file() and not each.is_dir():
                    raise ValueError(f"{each} is not a regular file")


def _check_link(path: Path, root: Path, place: str) -> None:
    try:
        leads_to = path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        leads_to = Path("/")
    if not leads_to.is_relative_to(root):
        raise leaves_lake_error(place, str(path))
