"""Recordings: read as written, however damaged, split or limited."""

import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.observation import Observation
from ktui.inputfile import FileProblem
from ktui.recording.reading import (
    Damage,
    GoodLine,
    PlayedPoll,
    find_sessions,
    play_session,
    read_lines,
)
from ktui.recording.segments import End, PollLine
from ktui.recording.stored import Choice, KeptFor, Retention, StoredSegment, choose_segments, seal
from property.test_progress import histories
from support.recordings.recordings import (
    Recording,
    all_to_the_millisecond,
    files_in,
    good,
    seen_in,
    the_session,
)
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
def test_every_line_read_was_written_and_the_first_bad_line_is_reported(changes: Flips) -> None:
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


FEW = settings(max_examples=30)  # each syncs its files to the disk


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


NOW_MS = 1_000_000
NEEDED = [None, None, KeptFor.LIVE, KeptFor.RUN, KeptFor.UNREAD]

Session = tuple[list[tuple[int, int]], KeptFor | None]
sessions = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 100), st.integers(0, NOW_MS)), max_size=5),
        st.sampled_from(NEEDED),
    ),
    max_size=5,
)
limits = st.builds(
    Retention,
    older_than_s=st.none() | st.integers(0, NOW_MS // 1_000),
    keep_bytes=st.none() | st.integers(0, 1_000),
)


@given(sessions, limits)
def test_segments_go_oldest_first_and_only_beyond_the_limits(
    recorded: list[Session], allowed: Retention
) -> None:
    needed = {Path(f"/{n}"): reason for n, (_, reason) in enumerate(recorded)}
    segments = [
        StoredSegment(Path(f"/{n}/{number:06}.jsonl.gz"), size, modified_ms)
        for n, (files, _) in enumerate(recorded)
        for number, (size, modified_ms) in enumerate(files)
    ]

    choice = choose_segments(segments, allowed, NOW_MS, lambda each: needed[each.session])

    staying = [each for kept in choice.staying.values() for each in kept]
    assert sorted([*choice.going, *staying], key=_path) == sorted(segments, key=_path)
    assert all(needed[each.session] is None for each in choice.going)
    for reason in (KeptFor.LIVE, KeptFor.RUN, KeptFor.UNREAD):
        assert all(needed[each.session] is reason for each in choice.staying[reason])
    _assert_limits_hold(choice, segments, allowed)
    _assert_no_more_went(choice.going, segments, allowed)
    for session in needed:
        going = [each.path for each in choice.going if each.session == session]
        kept = [each.path for each in staying if each.session == session]
        assert going == sorted(going)
        assert not (going and kept) or max(going) < min(kept)


def _assert_limits_hold(choice: Choice, segments: list[StoredSegment], allowed: Retention) -> None:
    """What may go and stays is within both limits."""
    young = choice.staying[KeptFor.YOUNG]
    left = sum(each.size for kept in choice.staying.values() for each in kept)
    if allowed.keep_bytes is not None and young:
        assert left <= allowed.keep_bytes
    if allowed.older_than_s is not None:
        for each in young:
            before = [e for e in segments if e.session == each.session and e.path <= each.path]
            last_ms = max(e.modified_ms for e in before)
            assert NOW_MS - last_ms <= allowed.older_than_s * 1_000


def _assert_no_more_went(
    going: tuple[StoredSegment, ...], segments: list[StoredSegment], allowed: Retention
) -> None:
    """Each segment that went was too old, or there was too much before it went."""
    left = sum(each.size for each in segments)
    for each in going:
        too_old = allowed.older_than_s is not None and (
            NOW_MS - each.modified_ms > allowed.older_than_s * 1_000
        )
        too_much = allowed.keep_bytes is not None and left > allowed.keep_bytes
        assert too_old or too_much
        left -= each.size


def _path(segment: StoredSegment) -> Path:
    return segment.path
