"""The places and names of the files of recordings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ktui.recording.lines import Head
from ktui.recording.milliseconds import from_wall_ms

CLOSED = ".jsonl.gz"
UNFINISHED = ".tmp"
"""Suffix of the name until the file is whole."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64


class SegmentFile(msgspec.Struct, frozen=True):
    """A file that holds a segment, and its first line."""

    path: Path
    head: Head

    @property
    def open(self) -> bool:
        """Whether the file was not closed: a recorder is writing to it, or has died."""
        return is_open(self.path)


def is_open(path: Path) -> bool:
    """Whether a file has the name of one that is not whole yet."""
    return path.name.endswith(UNFINISHED)


def session_folder(folder: Path, head: Head) -> Path:
    """Return the folder of a session, under the folder for recordings.

    FOLDER/<cluster id>/<beginning, UTC>-<first 8 digits of the session's id>
    """
    cluster = _UNSAFE.sub("-", head.cluster_id)[:_LONGEST] or "-"
    began: datetime = from_wall_ms(head.at).astimezone(UTC)
    session = _UNSAFE.sub("-", head.session[:8])
    return folder / cluster / f"{began:%Y%m%dT%H%M%SZ}-{session}"


def segment_path(session: Path, segment: int) -> Path:
    """Return the path of a segment's file, once it is whole."""
    return session / f"{segment:06}{CLOSED}"


def files_under(path: Path) -> Iterator[Path]:
    """Yield possible segments: the named file, or every path in a folder with a segment's name.

    A path that is no file, or cannot be read, shows when it is opened.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path's own raises where it may not look
        yield from sorted(each for each in path.rglob("*") if _has_segment_name(each))
    else:
        yield path


def _has_segment_name(path: Path) -> bool:
    return path.name.removesuffix(UNFINISHED).endswith(CLOSED)
