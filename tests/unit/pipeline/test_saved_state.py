"""A session's replay goes on from its saved state as if it had never stopped."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import msgspec
import pytest

from ktui.pipeline.forecast.replay import (
    CaughtUp,
    EtaReplay,
    Forecast,
    SavedState,
    SessionStream,
    decode_state,
    encode_state,
    session_events,
)
from support.recordings.taped_runs import tapes_of_runs
from support.recordings.tapes import Tape


@pytest.fixture(scope="module")
def tapes() -> list[Tape]:
    """Runs in trouble, cancelled, throttled and killed, as their engines and views saw them."""
    return tapes_of_runs(range(202, 204))


def cut(tape: Tape, items: int) -> list[bytes]:
    """Return a session's segments, of so many lines each."""
    segments = tape.segments(range(0, len(tape.items), items))
    return [gzip.compress(b"".join(lines), compresslevel=1) for lines in segments]


def one_by_one(segments: list[bytes], cluster_id: str) -> Iterator[Forecast | CaughtUp]:
    """Replay each segment from the state saved after the one before."""
    saved = encode_state(SavedState())
    for segment in segments:
        state = decode_state(saved)
        stream, replay = SessionStream(cluster_id, state.place), EtaReplay(state=state.replay)
        yield from replay.replay(stream.events([segment]))
        saved = encode_state(SavedState(stream.place, replay.state))


def test_sessions_cut_in_the_middle_of_moves_have_the_forecasts_of_whole_ones(
    tapes: list[Tape],
) -> None:
    ends = 0
    for tape in tapes:
        segments = cut(tape, items=20)
        events = session_events(segments, tape.cluster_id)
        at_once = list(EtaReplay().replay(events))
        assert list(one_by_one(segments, tape.cluster_id)) == at_once
        ends += sum(isinstance(each, CaughtUp) for each in at_once)
    assert ends >= 4


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"\x81\xa5place\x01"])
def test_what_is_no_state_is_refused(content: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_state(content)
