"""Record observations of a cluster without ever disturbing the program that observes it."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.text import clean
from ktui.recording.segments import (
    SCHEMA_VERSION,
    AnyLine,
    Head,
    LostPollLine,
    RunLine,
    to_ms,
    wall_ms,
)
from ktui.recording.writing import Hide, SegmentLimits, SessionWriter

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
