"""However a recorder splits its files, and wherever it is killed, all observations are read."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.observation import Observation
from ktui.recording.lines import PollLine
from ktui.recording.writing import seal
from property.test_progress import histories
from support.recordings.recordings import Recording, all_to_the_millisecond, files_in, good, seen_in

FEW = settings(max_examples=30)
"""Each syncs its files to the disk."""


@FEW
@given(
    histories(),
    st.integers(1, 20_000),
    st.sampled_from([1.0, 5.0, 900.0]),
    st.sampled_from([0.5, 10.0, 300.0]),
    st.booleans(),
)
def test_observations_are_read_back_before_and_after_sealing(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[Observation],
    most_bytes: int,
    longest_s: float,
    whole_every_s: float,
    closed: bool,  # noqa: FBT001  # drawn by Hypothesis
) -> None:
    with TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as name:
        recording = Recording(
            Path(name), most_bytes=most_bytes, longest_s=longest_s, whole_every_s=whole_every_s
        )
        for seen in history:
            recording.recorder.poll(seen)
            recording.clock.pass_time(1.0)
        recording.recorder.close() if closed else recording.die()

        assert recording.recorder.problem is None
        assert seen_in(recording.folder) == all_to_the_millisecond(history)
        sealed = seal(recording.folder)

        assert len(sealed.files) == (0 if closed else 1)
        assert seen_in(recording.folder) == all_to_the_millisecond(history)
        for file in files_in(recording.folder):
            first = next((x.line for x in good(file) if isinstance(x.line, PollLine)), None)
            assert first is None or first.whole
