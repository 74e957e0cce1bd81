"""What a lake holds: one small file that is replaced as a whole, last of all."""

from __future__ import annotations

import msgspec

SCHEMA_VERSION = 1
NAME = "ktui-lake.json"


class SegmentRead(msgspec.Struct, frozen=True):
    """A segment's file that has been read into the lake."""

    path: str
    length: int
    """Bytes."""
    modified_ms: int
    sha256: str


class DataFile(msgspec.Struct, frozen=True):
    """A Parquet file."""

    path: str
    """Under the lake's folder."""
    length: int
    """Bytes."""


class Written(msgspec.Struct, frozen=True):
    """One cluster's part of a table."""

    folder: str
    """Under the lake's folder; nothing else is in it than these files."""
    files: tuple[DataFile, ...]
    rows: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One whole version of a lake."""

    schema_version: int = SCHEMA_VERSION
    version: int = 0
    """Counts the runs that wrote something."""
    written_at: str = ""
    """ISO 8601, UTC."""
    program: str = ""
    segments: tuple[SegmentRead, ...] = ()
    tables: dict[str, dict[str, Written]] = msgspec.field(default_factory=dict)
    """By the table's name, then by cluster id."""

    @property
    def clusters(self) -> list[str]:
        """The clusters that any table has rows of."""
        return sorted({cluster for parts in self.tables.values() for cluster in parts})

    @property
    def folders(self) -> set[str]:
        """The folders that its tables are in."""
        return {part.folder for parts in self.tables.values() for part in parts.values()}


class _Version(msgspec.Struct):
    schema_version: int


def encode(manifest: Manifest) -> bytes:
    """Give a manifest as JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(content: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ValueError: it is none, or one of a newer ktui; says which.
    """
    version = msgspec.json.decode(content, type=_Version).schema_version
    if version > SCHEMA_VERSION:
        raise ValueError(f"written by a newer ktui, as version {version}; use that ktui")
    return msgspec.json.decode(content, type=Manifest)
