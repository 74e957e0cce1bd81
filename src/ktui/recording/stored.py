"""The recordings on this disk: what a recorder left is sealed, and how long each is kept."""

from __future__ import annotations

import enum
import fcntl
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from ktui.inputfile import FileProblem
from ktui.recording.recorder import SegmentWriter
from ktui.recording.segments import (
    CLOSED,
    UNFINISHED,
    Unzipped,
    files_under,
    is_open,
    once_whole,
    open_recording_file,
)

_SESSION = re.compile(r"[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9_-]{1,8}")
_SEGMENT = re.compile(rf"[0-9]{{6,}}{re.escape(CLOSED)}({re.escape(UNFINISHED)})?")


class StoredSegment(msgspec.Struct, frozen=True):
    """A segment's file as it was found."""

    path: Path
    size: int
    modified_ms: int

    @property
    def session(self) -> Path:
        return self.path.parent


class Removal(msgspec.Struct, frozen=True):
    """The result of removing segments."""

    removed: tuple[StoredSegment, ...]
    problems: tuple[FileProblem, ...]


def stored_sessions(folder: Path) -> Iterator[tuple[Path, tuple[StoredSegment, ...]]]:
    """Yield the folder of each session under a folder, at any depth, and its segments by number.

    The folder itself may be a symbolic link. Links in it are neither followed nor yielded, nor is
    any file that no recorder can have written. A session may have no segment.
    """
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        folders.sort()
        session = Path(place)
        if _SESSION.fullmatch(session.name):
            folders.clear()
            yield session, tuple(_segments(session, names))


def is_live(session: Path) -> bool:
    """Whether a recorder is writing a session: it always holds an unfinished segment of it."""
    with suppress(FileNotFoundError):
        unfinished = (path for path in session.iterdir() if is_open(path))
        return any(is_held(path) for path in unfinished if not path.is_symlink())
    return False


def remove_segments(segments: Iterable[StoredSegment]) -> Removal:
    """Remove segments; one changed since, or of a session that is live, stays."""
    removed: list[StoredSegment] = []
    problems: list[FileProblem] = []
    live: dict[Path, bool] = {}
    for segment in segments:
        session = segment.session
        try:
            if session not in live:
                live[session] = is_live(session)
            if not live[session] and _removed(segment):
                removed.append(segment)
        except FileProblem as problem:
            problems.append(problem)
        except OSError as error:
            words = f"cannot be removed: {error.strerror}"
            problems.append(FileProblem(segment.path, None, words))
    return Removal(tuple(removed), tuple(problems))


def tidy(session: Path, folder: Path) -> None:
    """Remove a session's folder if it is empty, and then that of its cluster."""
    with suppress(OSError):
        session.rmdir()
        if session.parent != folder:
            session.parent.rmdir()


def _removed(segment: StoredSegment) -> bool:
    path = segment.path
    with suppress(FileNotFoundError):
        if not is_open(path):
            if _segment(path) != segment:
                return False
            path.unlink()
            return True
        with abandoned(path) as file:  # keeps others from completing it meanwhile
            if file is not None:
                path.unlink()
                return True
    return False


def _segments(session: Path, names: Iterable[str]) -> Iterator[StoredSegment]:
    for name in sorted(names):
        if _SEGMENT.fullmatch(name):
            with suppress(FileNotFoundError):  # renamed or removed meanwhile
                segment = _segment(session / name)
                if segment is not None:
                    yield segment


def _segment(path: Path) -> StoredSegment | None:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredSegment(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise FileProblem(Path(error.filename), None, f"cannot be read: {error.strerror}") from None


SEALING = ".sealing"
_JUST_BEGUN_S = 3_600.0  # older empty files were left by a power cut: recorders write at once


class Sealed(msgspec.Struct, frozen=True):
    """The result of sealing abandoned segments."""

    files: tuple[Path, ...]
    problems: tuple[FileProblem, ...]


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
    with abandoned(unfinished) as file:
        if file is None:
            return None
        whole = once_whole(unfinished)
        any_line = _rewritten(file, whole)
        unfinished.unlink()
        return whole if any_line else None


def _rewritten(file: BinaryIO, whole: Path) -> bool:
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
    """Open a segment that no recorder holds, and keep others from sealing it; else None."""
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


class KeptFor(enum.StrEnum):
    """Why a segment stays."""

    YOUNG = "young"  # it is within the limits
    LIVE = "live"
    RUN = "run"
    UNREAD = "unread"  # no lake has read its session


class Retention(msgspec.Struct, frozen=True):
    """The limits of what stays. A segment beyond either of them goes; None is no limit."""

    older_than_s: float | None = None  # the age of a segment's last line, in seconds
    keep_bytes: int | None = None


class Choice(msgspec.Struct, frozen=True):
    """The segments that go and those that stay, oldest first."""

    going: tuple[StoredSegment, ...]
    staying: Mapping[KeptFor, tuple[StoredSegment, ...]]
    """With each reason; a reason without segments has an empty entry."""

    @property
    def beyond_limits(self) -> bool:
        return any(kept for reason, kept in self.staying.items() if reason is not KeptFor.YOUNG)


def choose_segments(
    segments: Iterable[StoredSegment],
    limits: Retention,
    now_ms: int,
    needed_for: Callable[[StoredSegment], KeptFor | None],
) -> Choice:
    """Choose which segments go; `needed_for` is asked only of those beyond the limits."""
    oldest_first = sorted((last_ms, each.path, each) for each, last_ms in _last_lines(segments))
    excess = 0
    if limits.keep_bytes is not None:
        excess = sum(each.size for _, _, each in oldest_first) - limits.keep_bytes
    oldest_ms = -math.inf if limits.older_than_s is None else now_ms - limits.older_than_s * 1_000
    going: list[StoredSegment] = []
    staying: dict[KeptFor, list[StoredSegment]] = {reason: [] for reason in KeptFor}
    for last_ms, _, segment in oldest_first:
        if excess <= 0 and last_ms >= oldest_ms:
            staying[KeptFor.YOUNG].append(segment)
        elif (reason := needed_for(segment)) is not None:
            staying[reason].append(segment)
        else:
            going.append(segment)
            excess -= segment.size
    return Choice(tuple(going), {reason: tuple(kept) for reason, kept in staying.items()})


def _last_lines(segments: Iterable[StoredSegment]) -> Iterator[tuple[StoredSegment, int]]:
    """Yield segments with the times of their last lines, in order: a copy may mix times up."""
    latest: dict[Path, int] = {}
    for segment in sorted(segments, key=lambda each: each.path):
        last_ms = max(segment.modified_ms, latest.get(segment.session, segment.modified_ms))
        latest[segment.session] = last_ms
        yield segment, last_ms
