"""However a file is damaged, only what was written is read, and the damage is reported."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.observation import Observation
from ktui.inputfile import FileProblem
from ktui.recording.lines import End
from ktui.recording.reading import (
    Damage,
    GoodLine,
    PlayedPoll,
    find_sessions,
    play_session,
    read_lines,
)
from ktui.recording.writing import seal
from support.recordings.recordings import Recording, all_to_the_millisecond, good, the_session
from support.simulated.observations import START

Flips = dict[int, int]


@cache
def whole() -> tuple[bytes, list[GoodLine], list[Observation]]:
    """Record a closed segment: its content, its lines, and what its recorder was shown."""
    with TemporaryDirectory() as folder:
        recording = Recording(Path(folder), whole_every_s=10.0)
        for _ in range(4):
            recording.looks(8)
            recording.recorder.lost("no answer")
            recording.recorder.run_event("move", "move@noon", 1, START, b'{"event":"started"}')
        recording.recorder.close()
        (file,) = the_session(Path(folder)).files
        return file.read_bytes(), good(file), all_to_the_millisecond(recording.shown)


def flips() -> st.SearchStrategy[Flips]:
    places = st.integers(0, len(whole()[0]) - 1)
    return st.dictionaries(places, st.integers(1, 255), min_size=1, max_size=5)


def flipped(changes: Flips) -> bytes:
    content = bytearray(whole()[0])
    for place, change in changes.items():
        content[place] ^= change
    return bytes(content)


@given(flips())
def test_every_line_read_was_written_and_the_first_bad_line_is_reported(
    changes: Flips,
) -> None:
    found = list(read_lines(flipped(changes)))

    originals = [each.text for each in whole()[1]]
    texts = [each.text for each in found if isinstance(each, GoodLine)]
    assert set(texts) <= set(originals)
    first_bad = next((n for n, each in enumerate(found) if not isinstance(each, GoodLine)), None)
    if texts != originals:
        assert first_bad is not None
        assert found[first_bad].number == first_bad + 1


@given(st.integers(0, 31))
def test_all_lines_before_the_damage_are_read(sixteenth: int) -> None:
    content, originals, _ = whole()
    place = 10 + (len(content) - 20) * sixteenth // 32
    before = good(content[:place])

    found = good(flipped({place: 0xFF}))

    assert [each.text for each in found[: len(before)]] == [each.text for each in before]
    assert before == originals[: len(before)]


@given(st.one_of(st.binary(), flips().map(flipped)))
def test_no_file_content_ends_in_a_traceback(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        for name in ("000000.jsonl.gz", "000001.jsonl.gz.tmp"):
            (Path(folder) / name).write_bytes(content)
        try:
            sessions = find_sessions(Path(folder))
        except FileProblem:
            return
        finally:
            seal(Path(folder))
        for session in sessions:
            list(play_session(session))


@given(st.sets(st.integers(1, 41)), st.data())
def test_playback_of_a_damaged_session_has_only_recorded_polls_and_reports_damage(
    damaged: set[int], data: st.DataObject
) -> None:
    """Damage single lines within a file that can still be unzipped."""
    _, originals, shown = whole()
    texts = [each.text for each in originals]
    for number in damaged:
        how = data.draw(st.sampled_from(["gone", "changed", "rubbish"]))
        if number < len(texts):
            texts[number] = {
                "gone": b"",
                "changed": texts[number].replace(b"0", b"1"),
                "rubbish": b"\xff{]",
            }[how]
    content = b"".join(text + b"\n" for text in texts if text)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "000000.jsonl.gz"
        file.write_bytes(gzip.compress(content))
        found = list(play_session(the_session(file)))

    seen = [each.observation for each in found if isinstance(each, PlayedPoll)]
    assert is_in_order(seen, shown)
    if len(seen) < len(shown):
        assert any(isinstance(each, Damage) for each in found) or not isinstance(found[-1], End)


def is_in_order(some: list[Observation], of: list[Observation]) -> bool:
    rest: Iterator[Observation] = iter(of)
    return all(any(each == other for other in rest) for each in some)


def test_the_sample_recording_covers_what_these_tests_need() -> None:
    _, originals, shown = whole()

    assert len(originals) == 42
    assert sum(getattr(each.line, "whole", False) for each in originals) == 4
    assert len(shown) == 32
