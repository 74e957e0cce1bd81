"""Write recordings: lines into a segment, a session, and a sealed file."""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.durable import check_replaceable, make_folder, sync_folder
from ktui.inputfile import FileProblem
from ktui.recording.codec import Encoder
from ktui.recording.segments import (
    GZIP,
    UNFINISHED,
    AnyLine,
    End,
    Head,
    Unzipped,
    encode,
    files_under,
    is_open,
    open_recording_file,
    segment_path,
    session_folder,
    to_ms,
    wall_ms,
)

LEVEL = 4  # the level of gzip: 3 % larger than level 6, in a sixth of its time


class SegmentWriter:
    """Writes one file of lines. Every call raises OSError when the disk refuses to write.

    The file is locked before anything is written, and the kernel frees the lock when this process
    dies. So a file that is not empty, not locked and still named .tmp was left behind.
    """

    def __init__(self, path: Path, beside: str) -> None:
        self.path = path
        self._unfinished = path.with_name(path.name + beside)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        self._file = os.open(self._unfinished, flags, 0o600)
        self._zip = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
        self.size = 0
        try:
            os.fchmod(self._file, 0o600)  # the umask may have removed the owner's own permissions
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.abandon()
            raise

    def write(self, text: bytes, *, at_once: bool = True) -> None:
        """Write a line; `at_once` hands it to the system, where it survives this process."""
        zipped = self._zip.compress(text)
        self._put(zipped + self._zip.flush(zlib.Z_SYNC_FLUSH) if at_once else zipped)

    def close(self) -> None:
        """Make the file whole, sync it to the disk, and rename it; on an error it is abandoned."""
        try:
            self._put(self._zip.flush())
            os.fsync(self._file)
            check_replaceable(self.path)
            self._unfinished.rename(self.path)
            sync_folder(self.path.parent)
        finally:
            self.abandon()

    def abandon(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _put(self, zipped: bytes) -> None:
        self.size += len(zipped)
        while zipped:
            zipped = zipped[os.write(self._file, zipped) :]


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
        whole = unfinished.with_name(unfinished.name.removesuffix(UNFINISHED))
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


Hide = Callable[[AnyLine], AnyLine]
_TRIES = 3


class SegmentLimits(msgspec.Struct, frozen=True):
    """The limits of a segment, and the interval of whole polls."""

    most_bytes: int
    longest_ms: int
    whole_every_ms: int


class SessionWriter:
    """Writes one session. Every call raises OSError when the disk refuses to write."""

    def __init__(
        self, folder: Path, first: Head, clock: Clock, hide: Hide, lengths: SegmentLimits
    ) -> None:
        self.cluster_id = first.cluster_id
        self.path = session_folder(folder, _hidden_head(first, hide))
        self._began_ms = first.ms
        self._clock = clock
        self._hide = hide
        self._lengths = lengths
        self._seq = 0
        self._closed_bytes = 0
        self._whole_ms = 0
        self._begin_in_new_folder(first)

    @property
    def size(self) -> int:
        return self._closed_bytes + self._segment.size

    @property
    def length_ms(self) -> int:
        return self._now_ms() - self._began_ms

    def poll(self, observation: Observation) -> None:
        self._make_room()
        ms = to_ms(observation.monotonic_s)
        whole = ms - self._whole_ms >= self._lengths.whole_every_ms
        poll = self._encoder.poll(observation, seq=self._seq, whole=whole)
        if poll.whole:
            self._whole_ms = ms
        self._put(poll)

    def write(self, line: AnyLine) -> None:
        self._make_room()
        self._put(msgspec.structs.replace(line, seq=self._seq))

    def close(self) -> None:
        self._put(End(seq=self._seq, at=wall_ms(self._clock.now()), ms=self._now_ms()))
        self._segment.close()

    def leave_off(self) -> None:
        self._segment.close()

    def abandon(self) -> None:
        self._segment.abandon()

    def _begin_in_new_folder(self, first: Head) -> None:
        """Begin the session, even if another process removes empty folders meanwhile."""
        for tries_left in reversed(range(_TRIES)):
            try:
                make_folder(self.path)
                self._begin(first)
            except FileNotFoundError:
                if not tries_left:
                    raise
            else:
                return

    def _begin(self, head: Head) -> None:
        segment = SegmentWriter(segment_path(self.path, head.segment), UNFINISHED)
        try:
            segment.write(encode(self._hide(head)))
        except OSError:
            segment.abandon()
            raise
        self._head, self._encoder, self._segment = head, Encoder(), segment
        self._seq += 1

    def _make_room(self) -> None:
        now_ms, lengths = self._now_ms(), self._lengths
        long = now_ms - self._head.ms >= lengths.longest_ms
        if not long and self._segment.size < lengths.most_bytes:
            return
        full = self._segment
        try:  # the next file comes first: a session without an unfinished file counts as ended
            self._begin(
                msgspec.structs.replace(
                    self._head,
                    seq=self._seq,
                    at=wall_ms(self._clock.now()),
                    ms=now_ms,
                    segment=self._head.segment + 1,
                )
            )
        finally:
            full.close()
        self._closed_bytes += full.size

    def _put(self, line: AnyLine) -> None:
        self._segment.write(encode(self._hide(line)))
        self._seq += 1

    def _now_ms(self) -> int:
        return to_ms(self._clock.monotonic())


def _hidden_head(head: Head, hide: Hide) -> Head:
    hidden = hide(head)
    return hidden if isinstance(hidden, Head) else head
