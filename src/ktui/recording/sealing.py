"""Seal segments that a dead recorder left unfinished, and tell those from a live recorder's."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from ktui.fileproblem import FileProblem
from ktui.recording.opening import open_recording_file
from ktui.recording.segments import UNFINISHED, files_under, is_open
from ktui.recording.unzipping import Unzipped
from ktui.recording.writing import SegmentWriter

SEALING = ".sealing"
"""Suffix of the sealed file while it is written."""
_JUST_BEGUN_S = 3_600.0
"""A recorder writes to its file at once, so an older empty one was left behind by a power cut."""


class Sealed(msgspec.Struct, frozen=True):
    """The result of sealing abandoned segments."""

    files: tuple[Path, ...]
    """The sealed files."""
    problems: tuple[FileProblem, ...]
    """Why others could not be sealed; these files stay unchanged."""


def seal(path: Path) -> Sealed:
    """Seal every abandoned segment: the named file, or all under a folder.

    A segment that a live recorder holds is left alone. An abandoned one keeps every whole line,
    byte for byte; without any, it is removed. Never raises because of a file.
    """
    return seal_files(filter(is_open, files_under(path)))


def seal_files(unfinished_files: Iterable[Path]) -> Sealed:
    """Seal those of some unfinished segments that are abandoned, as `seal` does."""
    files: list[Path] = []
    problems: list[FileProblem] = []
    for unfinished in unfinished_files:
        try:
            whole = _sealed(unfinished)
        except FileProblem as problem:
            problems.append(problem)
        except OSError as error:
            words = f"cannot be sealed: {error.strerror}"
            problems.append(FileProblem(unfinished, None, words))
        else:
            files += [] if whole is None else [whole]
    return Sealed(tuple(files), tuple(problems))


def _sealed(unfinished: Path) -> Path | None:
    """Seal one segment; None where nothing remains or nothing is to be done."""
    with abandoned(unfinished) as file:
        if file is None:
            return None
        whole = unfinished.with_name(unfinished.name.removesuffix(UNFINISHED))
        any_line = _rewritten(file, whole)
        unfinished.unlink()
        return whole if any_line else None


def _rewritten(file: BinaryIO, whole: Path) -> bool:
    """Write the whole lines of a file into another; return whether there are any."""
    unzipped, count = Unzipped(file), 0
    made = whole.with_name(whole.name + SEALING)
    made.unlink(missing_ok=True)  # left by a crash
    writer = SegmentWriter(whole, SEALING)
    try:
        for text in unzipped.lines():
            writer.write(text + b"\n", at_once=False)
            count += 1
        if unzipped.damage is not None:
            raise FileProblem(Path(file.name), count + 1, unzipped.damage)
        if count:
            writer.close()
    finally:
        writer.abandon()
        made.unlink(missing_ok=True)
    return count > 0


def is_held(unfinished: Path) -> bool:
    """Whether a recorder holds an unfinished segment, or may do so."""
    try:
        with abandoned(unfinished) as file:
            return file is None
    except FileProblem:  # no file, so no recorder writes to it
        return False
    except OSError:  # unreadable, or closed this moment by its recorder, who goes on in the next
        return True


@contextmanager
def abandoned(unfinished: Path) -> Iterator[BinaryIO | None]:
    """Open a segment that no recorder holds, and keep others from sealing it meanwhile.

    Yields:
        The file; None for a segment that a recorder holds, or may have just begun.

    Raises:
        FileProblem: the path is not a regular file.
        OSError: the file cannot be opened.
    """
    with open_recording_file(unfinished) as file:
        # A recorder locks its file before it writes anything, so an empty one may be just begun.
        status = os.fstat(file.fileno())
        begun = status.st_size > 0 or time.time() - status.st_mtime > _JUST_BEGUN_S
        yield file if begun and _locked(file) and _is_still(unfinished, file) else None


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Whether a file still has its name: another process may have sealed it meanwhile."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
