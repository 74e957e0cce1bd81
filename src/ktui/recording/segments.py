"""Where the files of recordings are, and how they are named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ktui.recording.lines import Head
from ktui.recording.milliseconds import moment

CLOSED = ".jsonl.gz"
UNFINISHED = ".tmp"
"""Added to the name until the file is whole."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64


class SegmentFile(msgspec.Struct, frozen=True):
    """A file that holds a segment, and its first line."""

    path: Path
    head: Head

    @property
    def open(self) -> bool:
        """Whether it was not closed: it is being written, or its recorder died."""
        return is_open(self.path)


def is_open(path: Path) -> bool:
    """Whether a file is named as one that is not whole yet."""
    return path.name.endswith(UNFINISHED)


def session_folder(folder: Path, head: Head) -> Path:
    """Name the folder of a session, under the one that recordings go to.

    FOLDER/<cluster id>/<when it began, UTC>-<the first of the session's id>
    """
    cluster = _UNSAFE.sub("-", head.cluster_id)[:_LONGEST] or "-"
    began: datetime = moment(head.at).astimezone(UTC)
    session = _UNSAFE.sub("-", head.session[:8])
    return folder / cluster / f"{began:%Y%m%dT%H%M%SZ}-{session}"


def segment_path(session: Path, segment: int) -> Path:
    """Name a segment's file, once it is whole."""
    return session / f"{segment:06}{CLOSED}"


def files_under(path: Path) -> Iterator[Path]:
    """Yield what may be a segment: the file that is named, or whatever is named so in a folder.

    That it is no file, or cannot be read, shows when it is opened.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path's own raises where it may not look
        yield from sorted(each for each in path.rglob("*") if _named_so(each))
    else:
        yield path


def _named_so(path: Path) -> bool:
    return path.name.removesuffix(UNFINISHED).endswith(CLOSED)
