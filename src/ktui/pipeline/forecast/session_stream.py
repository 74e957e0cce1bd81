"""One recorded session as a stream: each line once, in order, with decoded polls."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from ktui.cluster.observation import Observation
from ktui.pipeline.forecast.replay import DecodedPoll
from ktui.recording.decoding import BrokenSequence, Decoder
from ktui.recording.lines import AnyLine, PollLine, RunLine
from ktui.recording.reading import GoodLine, read_lines


def session_events(contents: Iterable[bytes], cluster_id: str) -> Iterator[DecodedPoll | RunLine]:
    """Yield polls and events of runs from the segments of one session, each line once, in order.

    A poll that does not fit the polls before it is left out, with all up to the next whole one.
    """
    streams = [_decoded(content, cluster_id) for content in contents]
    last, anchor = -1, None
    for line, seen in heapq.merge(*streams, key=_place):
        anchor = anchor or line
        if line.seq == last:
            continue
        last = line.seq
        if isinstance(line, RunLine):
            yield line
        elif seen is not None:
            yield DecodedPoll(line.seq, anchor.at + line.ms - anchor.ms, seen)


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


def _place(decoded: tuple[AnyLine, Observation | None]) -> int:
    return decoded[0].seq
