"""The recordings on this disk, and how long each is kept."""

from __future__ import annotations

import enum
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ktui.inputfile import FileProblem
from ktui.recording.segments import CLOSED, UNFINISHED, is_open
from ktui.recording.writing import abandoned, is_held

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
