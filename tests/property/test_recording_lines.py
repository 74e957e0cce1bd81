"""Whatever is seen comes out of a recording as it went in, to the millisecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.observation import Observation
from ktui.recording.codec import BrokenSequence, Decoder, Encoder
from ktui.recording.segments import ChecksumMismatch, PollLine, decode, encode
from property.test_progress import histories
from support.recordings.recordings import copying, to_the_millisecond


@given(histories(), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_recorded_lines_read_back_as_seen_and_missing_ones_lead_to_nothing_else(
    history: list[Observation], whole: set[int], missing: set[int]
) -> None:
    encoder = Encoder()
    decoder, lacking = Decoder(history[0].cluster_id), Decoder(history[0].cluster_id)
    follows = False
    for seq, seen in enumerate(history):
        line = decode(encode(encoder.poll(seen, seq=seq, whole=seq in whole)))
        assert isinstance(line, PollLine)
        assert decoder.observation(line) == to_the_millisecond(seen)
        follows = seq not in missing and (follows or line.whole)
        if follows:
            assert lacking.observation(line) == to_the_millisecond(seen)
        elif seq not in missing:
            with pytest.raises(BrokenSequence):
                lacking.observation(line)


@given(st.data())
def test_a_line_with_any_changed_byte_fails_its_checksum(data: st.DataObject) -> None:
    text = encode(Encoder().poll(copying(1.0), seq=0)).removesuffix(b"\n")
    at = data.draw(st.integers(0, len(text) - 1))
    changed = bytearray(text)
    changed[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ChecksumMismatch):
        decode(bytes(changed))
