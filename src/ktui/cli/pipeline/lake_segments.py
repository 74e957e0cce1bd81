"""The segments that a lake has read, by its manifest alone: this needs no library of the extra."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ktui.cli.context.terminal import BadInput
from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import SegmentRead
from ktui.recording.segments import open_recording_file
from ktui.recording.stored import StoredSegment

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class LakeSegments:
    """The segments in one version of a lake."""

    def __init__(self, segments: Iterable[SegmentRead]) -> None:
        read = tuple(segments)
        self._files = {(each.path, each.length, each.modified_ms) for each in read}
        self._sums = {each.sha256 for each in read}
        self._lengths = {each.length for each in read}

    def has(self, segment: StoredSegment) -> bool:
        """Whether the lake has read a segment, under this file's name or any other.

        As for the pipeline, path, size and time identify a file, and SHA-256 identifies its
        content.
        """
        if (str(segment.path), segment.size, segment.modified_ms) in self._files:
            return True
        return segment.size in self._lengths and _sha256(segment.path) in self._sums


def read_lake(place: str) -> LakeSegments:
    """Read which segments a lake has."""
    if _URI.match(place):
        raise BadInput(
            f"lake {place}: prune reads lakes in folders of this machine. Copy the lake's "
            f"{manifests.NAME} into a folder, and name that one"
        )
    try:
        folder = expand_home(place).absolute()
    except Unreadable as why:
        raise BadInput(f"lake {place}: {why}") from None
    found = lake_in(folder)
    if found is None:
        raise BadInput(f"{place} is not a lake: it has no {manifests.NAME}")
    return found


def lake_in(folder: Path) -> LakeSegments | None:
    """Read which segments the lake in a folder has; None if there is no lake."""
    path = folder / manifests.NAME
    try:
        with open_recording_file(path) as file:
            known = manifests.decode(file.read()).segments
        return LakeSegments(tuple(each for each in known if each.newer_format is None))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise FileProblem(path, None, f"the lake cannot be read: {error}") from None


def _sha256(path: Path) -> str:
    try:
        with open_recording_file(path) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, FileProblem):
        return ""
