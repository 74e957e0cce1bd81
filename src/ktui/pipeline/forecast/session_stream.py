"""One recorded session as a stream: each line once, in order, with decoded polls."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import msgspec

from ktui.cluster.observation import Observation
from ktui.pipeline.forecast.replay import DecodedPoll
from ktui.recording.decoding import BrokenSequence, Decoder
from ktui.recording.lines import AnyLine, End, PollLine, RunLine
from ktui.recording.reading import GoodLine, read_lines


class Place(msgspec.Struct, frozen=True):
    """How far a session was read, and the line from which its normalised time counts."""

    seq: int
    """The last line that was read."""
    at: int
    """The wall time of the session's first line, ms since 1970 in UTC."""
    ms: int
    """The recorder's monotonic clock then."""
    t: int
    """The normalised time of the last line, ms since 1970 in UTC."""
    ended: bool
    """Whether the last line is the session's end."""


class SessionStream:
    """Reads a session, each line once.

    Args:
        cluster_id: the session's cluster.
        place: how far it was read before; None to read it from its beginning.
    """

    def __init__(self, cluster_id: str, place: Place | None = None) -> None:
        self._cluster_id = cluster_id
        self.place = place

    def events(self, contents: Iterable[bytes]) -> Iterator[DecodedPoll | RunLine]:
        """Yield polls and events of runs from some segments, each line once, in order.

        Lines up to `place` are skipped. A poll that does not fit the polls before it in its segment
        is left out, with all up to the next whole one.
        """
        streams = [_decoded(content, self._cluster_id) for content in contents]
        place = self.place
        for line, seen in heapq.merge(*streams, key=_seq):
            if place is not None and line.seq <= place.seq:
                continue
            at, ms = (line.at, line.ms) if place is None else (place.at, place.ms)
            t = at + line.ms - ms
            self.place = place = Place(line.seq, at, ms, t, isinstance(line, End))
            if isinstance(line, RunLine):
                yield line
            elif seen is not None:
                yield DecodedPoll(line.seq, t, seen)


def session_events(contents: Iterable[bytes], cluster_id: str) -> Iterator[DecodedPoll | RunLine]:
    """Yield polls and events of runs from all segments of a session: see `SessionStream`."""
    return SessionStream(cluster_id).events(contents)


def _decoded(content: bytes, cluster_id: str) -> Iterator[tuple[AnyLine, Observation | None]]:
    """Decode a segment by itself; lines whose numbers do not increase are skipped."""
    decoder, last, follows = Decoder(cluster_id), -1, True
    for read in read_lines(content):
        if not isinstance(read, GoodLine) or read.line.seq <= last:
            continue
        line, seen = read.line, None
        follows = follows and (last < 0 or line.seq == last + 1)
        last = line.seq
        if isinstance(line, PollLine) and (follows or line.whole):
            try:
                seen, follows = decoder.observation(line), True
            except BrokenSequence:
                follows = False
        yield line, seen


def _seq(decoded: tuple[AnyLine, Observation | None]) -> int:
    return decoded[0].seq
