"""Write one session of a recording: its lines, numbered, in one segment's file after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.durable import make_folder
from ktui.recording.encoding import Encoder
from ktui.recording.lines import AnyLine, End, Head, encode
from ktui.recording.milliseconds import to_ms, wall_ms
from ktui.recording.segments import UNFINISHED, segment_path, session_folder
from ktui.recording.writing import SegmentWriter

Hide = Callable[[AnyLine], AnyLine]
_TRIES = 3


class SegmentLimits(msgspec.Struct, frozen=True):
    """The limits of a segment, and the interval of whole polls."""

    most_bytes: int
    """The size at which a file ends, compressed."""
    longest_ms: int
    whole_every_ms: int


class SessionWriter:
    """Writes one session. Every call raises OSError when the disk refuses to write.

    Args:
        folder: the folder for recordings.
        first: the first line of the first segment.
        clock: the clock that times the lines.
        hide: hides names in each line.
        lengths: when to begin another segment, and when to write a whole poll.
    """

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
        """Bytes in the files so far."""
        return self._closed_bytes + self._segment.size

    @property
    def length_ms(self) -> int:
        """The time since the session began."""
        return self._now_ms() - self._began_ms

    def poll(self, observation: Observation) -> None:
        """Write the differences of an observation from the previous one."""
        self._make_room()
        ms = to_ms(observation.monotonic_s)
        whole = ms - self._whole_ms >= self._lengths.whole_every_ms
        poll = self._encoder.poll(observation, seq=self._seq, whole=whole)
        if poll.whole:
            self._whole_ms = ms
        self._put(poll)

    def write(self, line: AnyLine) -> None:
        """Write a line of any other kind; its `seq` is set here."""
        self._make_room()
        self._put(msgspec.structs.replace(line, seq=self._seq))

    def close(self) -> None:
        """Write the proper end of the session, and make the last file whole."""
        self._put(End(seq=self._seq, at=wall_ms(self._clock.now()), ms=self._now_ms()))
        self._segment.close()

    def leave_off(self) -> None:
        """Make the last file whole without writing the end of the session."""
        self._segment.close()

    def abandon(self) -> None:
        """Close the last file unfinished."""
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
        """Continue in another file when this one is long enough."""
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
