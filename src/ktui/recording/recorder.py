"""Record observations of a cluster without ever disturbing the program that observes it."""

from __future__ import annotations

import fcntl
import logging
import os
import uuid
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.text import clean
from ktui.durable import check_replaceable, make_folder, sync_folder
from ktui.recording.codec import Encoder
from ktui.recording.segments import (
    GZIP,
    SCHEMA_VERSION,
    UNFINISHED,
    AnyLine,
    End,
    Head,
    LostPollLine,
    RunLine,
    encode,
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


log = logging.getLogger(__name__)

LEAST_FREE_BYTES = 256 * 1024 * 1024  # a disk must not fill: others need it, above all runs
MOST_LOST_HELD = 1_000  # most failed polls recorded from before the first answered one


class Recorder:
    """Writes polls and events to files under a folder. One thread at a time may use it.

    A recorder never raises. When a full disk or another error stops recording, `problem` says why.
    Lines from before the first answered poll are held back, for only such a poll names the cluster.
    A poll of another cluster begins another session, in that cluster's folder.
    """

    def __init__(  # noqa: PLR0913 - each by its name, and all but three have a default
        self,
        folder: Path,
        clock: Clock,
        *,
        program: str,
        cluster: str = "",
        redaction: Hide | None = None,
        most_bytes: int = 8 * 1024 * 1024,
        longest_s: float = 900.0,
        whole_every_s: float = 300.0,
        longest_session_s: float | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._program = program
        self._cluster = cluster
        self._redaction = redaction
        self._lengths = SegmentLimits(most_bytes, to_ms(longest_s), to_ms(whole_every_s))
        self._longest_session_s = longest_session_s
        self._session: SessionWriter | None = None
        self._held: list[AnyLine] = []
        self._last_poll_ms = to_ms(clock.monotonic())
        self._closed = False
        self._bytes_before = 0
        self.problem: str | None = None

    @property
    def path(self) -> Path | None:
        return None if self._session is None else self._session.path

    @property
    def written_bytes(self) -> int:
        return self._bytes_before + (0 if self._session is None else self._session.size)

    def begin(self, cluster_id: str) -> None:
        """Begin a session before the first poll, so that no line is held back for it."""
        self._try(lambda: self._session_on(cluster_id))

    def poll(self, observation: Observation) -> None:
        self._last_poll_ms = to_ms(observation.monotonic_s)
        self._try(lambda: self._session_on(observation.cluster_id).poll(observation))

    def lost(self, reason: str) -> None:
        at, ms = wall_ms(self._clock.now()), to_ms(self._clock.monotonic())
        self._record(LostPollLine(seq=0, at=at, ms=ms, reason=clean(reason)))

    def run_event(self, run: str, run_id: str, entry: int, at: datetime, event: bytes) -> None:
        """Record an event of a run's journal; one older than the last poll gets its time."""
        age_ms = max(0, wall_ms(self._clock.now()) - wall_ms(at))
        ms = max(self._last_poll_ms, to_ms(self._clock.monotonic()) - age_ms)
        self._record(
            RunLine(
                seq=0,
                at=wall_ms(at),
                ms=ms,
                run=run,
                run_id=run_id,
                entry=entry,
                event=msgspec.Raw(event),
            )
        )

    def close(self) -> None:
        if self._session is not None:
            self._try(self._session.close)
        self._closed = True

    def _record(self, line: AnyLine) -> None:
        session = self._session
        if session is not None:
            self._try(lambda: session.write(line))
        elif self.problem is None:
            lost = sum(isinstance(each, LostPollLine) for each in (*self._held, line))
            if lost <= MOST_LOST_HELD or not isinstance(line, LostPollLine):
                self._held.append(line)

    def _session_on(self, cluster_id: str) -> SessionWriter:
        if self._session is not None:
            if self._session.cluster_id == cluster_id and not self._is_long(self._session):
                return self._session
            self._session.close()
            self._bytes_before += self._session.size
        self._session = SessionWriter(
            self._folder, self._first(cluster_id), self._clock, self._hide, self._lengths
        )
        for line in self._held:
            self._session.write(line)
        self._held.clear()
        return self._session

    def _is_long(self, session: SessionWriter) -> bool:
        longest_s = self._longest_session_s
        return longest_s is not None and session.length_ms >= to_ms(longest_s)

    def _first(self, cluster_id: str) -> Head:
        return Head(
            seq=0,
            at=wall_ms(self._clock.now()),
            ms=to_ms(self._clock.monotonic()),
            schema_version=SCHEMA_VERSION,
            session=uuid.uuid4().hex,
            segment=0,
            cluster_id=cluster_id,
            cluster=self._cluster,
            program=self._program,
            redacted=self._redaction is not None,
        )

    def _hide(self, line: AnyLine) -> AnyLine:
        return line if self._redaction is None else self._redaction(line)

    def _try(self, write: Callable[[], object]) -> None:
        if self._closed or self.problem is not None:
            return
        try:
            if self._has_room():
                write()
        except OSError as error:
            self._give_up(error.strerror or str(error))
        except Exception as error:  # a run continues without its recording, whatever the error
            log.exception("recording failed unexpectedly")
            self._give_up(f"ktui's own error: {type(error).__name__}: {error}")

    def _give_up(self, why: str) -> None:
        self._stop(why)
        if self._session is not None:
            self._session.abandon()

    def _has_room(self) -> bool:
        if self._session is None:
            return True
        disk = os.statvfs(self._session.path)
        if disk.f_bavail * disk.f_frsize >= LEAST_FREE_BYTES:
            return True
        self._stop(f"less than {LEAST_FREE_BYTES >> 20} MiB are free on its disk")
        self._session.leave_off()
        return False

    def _stop(self, why: str) -> None:
        self._held.clear()
        self.problem = f"{self.path or self._folder}: recording has stopped: {why}"
