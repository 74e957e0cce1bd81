"""The recorder: what it writes, for whom, and how long."""

import os
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.recording.reading import GoodLine, PlayedPoll, find_sessions, play_session
from ktui.recording.segments import AnyLine, End, Head, LostPollLine, RunLine
from ktui.recording.stored import Choice, KeptFor, Retention, StoredSegment, choose_segments, seal
from support.recordings.recordings import (
    Recording,
    all_to_the_millisecond,
    files_in,
    good,
    happenings,
    look_lines,
    seen_in,
    the_session,
)
from support.simulated.observations import START, an_observation
from unit.recording.test_old_versions import FIRST


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "recordings")


def test_a_recording_reads_back_as_observed_at_every_moment(recording: Recording) -> None:
    for _ in range(20):
        recording.looks(1, every_s=0.75)

        assert seen_in(recording.folder) == all_to_the_millisecond(recording.shown)

    recording.recorder.close()
    assert seen_in(recording.folder) == all_to_the_millisecond(recording.shown)


def test_every_field_of_an_observation_is_recorded(recording: Recording) -> None:
    seen = msgspec.structs.replace(FIRST, refuses_cordoned=True)  # came after version 1
    by_default = Observation(
        cluster_id="", controller=None, brokers={}, partitions={}, at=START, monotonic_s=0, took_s=0
    )
    for name in Observation.__struct_fields__:
        assert getattr(seen, name) != getattr(by_default, name), f"{name} is not recorded yet"

    recording.recorder.poll(seen)

    assert seen_in(recording.folder) == [seen]


def test_a_session_has_a_folder_named_by_its_cluster_and_its_start(recording: Recording) -> None:
    recording.looks(1)
    recording.recorder.close()

    session = the_session(recording.folder)
    name = f"20260101T120000Z-{session.head.session[:8]}"
    assert recording.recorder.path == recording.folder / "a-cluster" / name
    assert files_in(recording.folder) == [recording.recorder.path / "000000.jsonl.gz"]


def test_the_head_names_the_program_the_cluster_and_the_version(tmp_path: Path) -> None:
    recording = Recording(tmp_path, program="ktui 1.2.3", cluster="prod")
    recording.looks(1)

    head = the_session(tmp_path).head

    assert (head.program, head.cluster, head.cluster_id) == ("ktui 1.2.3", "prod", "a-cluster")
    assert (head.schema_version, head.segment, head.seq) == (1, 0, 0)
    assert not head.redacted


def test_a_recording_is_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        recording = Recording(tmp_path / "run" / "recording")
        recording.looks(1)
        recording.recorder.close()
    finally:
        os.umask(before)

    created = list((tmp_path / "run").rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in created if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in created if path.is_dir()} == {0o700}


def test_a_closed_session_ends_with_an_end_line(recording: Recording) -> None:
    recording.looks(2)
    assert not isinstance(happenings(recording.folder)[-1], End)

    recording.recorder.close()
    recording.recorder.close()
    recording.looks(1)

    assert [type(each) for each in happenings(recording.folder)] == [PlayedPoll, PlayedPoll, End]


def test_a_session_that_was_found_before_it_ended_is_read_to_its_end(recording: Recording) -> None:
    recording.looks(2)
    found = the_session(recording.folder)

    recording.recorder.close()

    assert [type(each) for each in play_session(found)] == [PlayedPoll, PlayedPoll, End]


def test_run_events_and_lost_polls_are_recorded_between_the_polls(recording: Recording) -> None:
    recording.looks(1)
    at = START + timedelta(milliseconds=400)
    recording.recorder.run_event("move", "move@noon", 7, at, b'{"event":"started","n":[1]}')
    recording.recorder.lost("no answer\x1b[2J")
    recording.looks(1)

    first, event, lost, second = happenings(recording.folder)

    assert isinstance(first, PlayedPoll)
    assert isinstance(event, RunLine)
    assert (event.run, event.run_id, event.entry) == ("move", "move@noon", 7)
    assert bytes(event.event) == b'{"event":"started","n":[1]}'
    assert (event.at, event.ms) == (1_767_268_800_400, 400)
    assert isinstance(lost, LostPollLine)
    assert lost.reason == "no answer\\x1b[2J"
    assert isinstance(second, PlayedPoll)


def test_an_event_older_than_the_last_poll_gets_the_time_of_that_poll(recording: Recording) -> None:
    recording.looks(2)
    recording.recorder.run_event("move", "move@noon", 1, START, b'{"event":"started"}')

    *_, event = happenings(recording.folder)

    assert isinstance(event, RunLine)
    assert (event.at, event.ms) == (1_767_268_800_000, 1_000)


def test_lines_before_the_first_poll_are_written_with_it(recording: Recording) -> None:
    recording.recorder.run_event("move", "move@noon", 1, START, b'{"event":"started"}')
    recording.recorder.lost("no answer")
    assert recording.recorder.path is None
    assert files_in(recording.folder) == []

    recording.looks(1)

    assert [type(each) for each in happenings(recording.folder)] == [
        RunLine,
        LostPollLine,
        PlayedPoll,
    ]


def test_a_cluster_that_is_lost_for_days_keeps_a_bounded_number_of_lines(
    recording: Recording,
) -> None:
    for _ in range(1_500):
        recording.recorder.lost("no answer")
    recording.recorder.run_event("move", "move@noon", 1, START, b'{"event":"started"}')
    recording.looks(1)

    kinds = [type(each) for each in happenings(recording.folder)]

    assert kinds == [*[LostPollLine] * 1_000, RunLine, PlayedPoll]


def test_a_recorder_that_never_saw_a_cluster_leaves_no_file(recording: Recording) -> None:
    recording.recorder.lost("no answer")
    recording.recorder.close()

    assert files_in(recording.folder) == []
    assert recording.recorder.problem is None


def test_lines_are_numbered_without_a_gap_across_segments(tmp_path: Path) -> None:
    recording = Recording(tmp_path, longest_s=3.0)
    for _ in range(10):
        recording.looks(1)
        recording.recorder.lost("no answer")
    recording.recorder.close()

    files = the_session(tmp_path).files

    assert len(files) == 4
    assert [each.line.seq for file in files for each in good(file)] == list(range(25))


def test_a_segment_ends_after_its_time(tmp_path: Path) -> None:
    recording = Recording(tmp_path, longest_s=60.0)
    recording.looks(61)

    first, second = the_session(tmp_path).files

    assert first.name == "000000.jsonl.gz"
    assert second.name == "000001.jsonl.gz.tmp"
    assert len(list(look_lines(first))) == 60


def test_a_segment_ends_when_it_is_large(tmp_path: Path) -> None:
    recording = Recording(tmp_path, most_bytes=3_000)
    recording.looks(200)
    recording.recorder.close()

    files = the_session(tmp_path).files

    assert len(files) > 2
    assert all(3_000 <= file.stat().st_size < 3_400 for file in files[:-1])
    assert recording.recorder.written_bytes == sum(file.stat().st_size for file in files)
    assert seen_in(tmp_path) == all_to_the_millisecond(recording.shown)


def test_every_segment_can_be_read_without_the_others(tmp_path: Path) -> None:
    recording = Recording(tmp_path, longest_s=4.0)
    recording.looks(10)
    recording.recorder.close()

    for number, file in enumerate(the_session(tmp_path).files):
        assert isinstance(good(file)[0].line, Head)
        assert next(look_lines(file)).whole
        (session,) = find_sessions(file)
        seen = [each.observation for each in play_session(session) if isinstance(each, PlayedPoll)]
        assert seen == all_to_the_millisecond(recording.shown[number * 4 : number * 4 + 4])


def test_a_whole_poll_is_recorded_at_regular_intervals(tmp_path: Path) -> None:
    recording = Recording(tmp_path, whole_every_s=10.0)
    recording.looks(35)

    (file,) = the_session(tmp_path).files

    assert [poll_line.ms for poll_line in look_lines(file) if poll_line.whole] == [
        0,
        10_000,
        20_000,
        30_000,
    ]


def test_another_cluster_gets_its_own_session_and_folder(recording: Recording) -> None:
    recording.recorder.lost("no answer")
    recording.looks(2)
    recording.looks(3, cluster_id="another")
    recording.recorder.lost("no answer")
    recording.recorder.close()

    one, other = find_sessions(recording.folder)

    assert (one.head.cluster_id, other.head.cluster_id) == ("a-cluster", "another")
    assert [type(each) for each in play_session(one)] == [LostPollLine, PlayedPoll, PlayedPoll, End]
    assert [type(each) for each in play_session(other)] == [
        PlayedPoll,
        PlayedPoll,
        PlayedPoll,
        LostPollLine,
        End,
    ]
    assert {file.parents[1].name for file in other.files} == {"another"}


def test_a_recorder_begins_another_session_after_the_longest_time_of_one(tmp_path: Path) -> None:
    recording = Recording(tmp_path, longest_session_s=4.0)
    recording.looks(10)
    recording.recorder.close()

    sessions = [list(play_session(session)) for session in find_sessions(tmp_path)]

    assert [len(played) for played in sessions] == [4 + 1, 4 + 1, 2 + 1]
    assert all(isinstance(played[-1], End) for played in sessions)
    polls = [each for played in sessions for each in played if isinstance(each, PlayedPoll)]
    assert [each.observation for each in polls] == all_to_the_millisecond(recording.shown)


@pytest.mark.parametrize("cluster_id", ["../../etc", "/etc", "..", "", "a/b", "x" * 500, "ü\n"])
def test_no_cluster_id_leads_to_a_folder_outside_the_recordings(
    tmp_path: Path, cluster_id: str
) -> None:
    recording = Recording(tmp_path / "recordings")
    recording.looks(1, cluster_id=cluster_id)
    recording.recorder.close()

    (file,) = files_in(tmp_path)

    assert recording.recorder.problem is None
    assert file.resolve().parents[2] == tmp_path / "recordings"
    assert seen_in(tmp_path)[0].cluster_id == cluster_id


def test_unchanged_facts_are_recorded_once(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    unchanged = an_observation(
        brokers=range(1, 100), failures=(Failure(Operation.LOG_DIRS, "no answer", 3),)
    )
    for second in range(50):
        recording.recorder.poll(msgspec.structs.replace(unchanged, monotonic_s=float(second)))

    first, *rest = [each.text for each in lines_of_looks(tmp_path)]

    assert len(first) > 4_000
    assert all(len(text) < 200 for text in rest)


def test_two_recorders_of_one_folder_do_not_mix(tmp_path: Path) -> None:
    one, other = Recording(tmp_path), Recording(tmp_path)
    for _ in range(3):
        one.looks(1)
        other.looks(2)

    first, second = find_sessions(tmp_path)

    lengths = {len(list(play_session(session))) for session in (first, second)}
    assert lengths == {3, 6}


def test_a_defect_of_the_recorder_stops_only_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(line: AnyLine) -> AnyLine:
        if line.seq == 3:
            raise KeyError("a mistake")
        return line

    recording = Recording(tmp_path, redaction=broken)
    recording.looks(5)
    recording.recorder.close()

    assert recording.recorder.problem == (
        f"{recording.recorder.path}: recording has stopped: ktui's own error: KeyError: 'a mistake'"
    )
    assert "Traceback" in caplog.text
    assert seen_in(tmp_path) == all_to_the_millisecond(recording.shown[:2])


def test_a_whole_poll_builds_on_no_earlier_one(tmp_path: Path) -> None:
    recording = Recording(tmp_path, whole_every_s=1.0)
    recording.looks(4)

    (file,) = the_session(tmp_path).files

    for before, poll_line in pairwise(look_lines(file)):
        assert poll_line.follows is None
        assert poll_line.names == before.names


def lines_of_looks(folder: Path) -> list[GoodLine]:
    (file,) = the_session(folder).files
    return [each for each in good(file) if not isinstance(each.line, Head)]


@pytest.fixture(params=[0o000, 0o022, 0o277], ids=oct)
def _any_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    below = (path for path in folder.rglob("*") if path.is_dir())
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *below)}


@pytest.mark.usefixtures("_any_umask")
def test_folders_and_files_of_a_recording_are_private(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "new" / "recordings", longest_s=5.0)
    recording.looks(8)
    recording.die()

    assert set(modes(tmp_path / "new").values()) == {0o700}
    assert len(files_in(recording.folder)) == 2
    assert {file.stat().st_mode & 0o777 for file in files_in(recording.folder)} == {0o600}
    (sealed,) = seal(recording.folder).files
    assert sealed.stat().st_mode & 0o777 == 0o600


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)

    recording = Recording(tmp_path)
    recording.looks(1)

    assert tmp_path.stat().st_mode & 0o777 == 0o750
    (cluster,) = tmp_path.iterdir()
    assert cluster.stat().st_mode & 0o777 == 0o700


DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


def segment(session: str, number: int, days_old: float, size: int = 10) -> StoredSegment:
    path = Path("/recordings") / session / f"{number:06}.jsonl.gz"
    return StoredSegment(path, size, NOW_MS - round(days_old * DAY_MS))


OLD, OLDER, NEW = segment("b", 0, 40), segment("a", 0, 50), segment("c", 0, 1)


def chosen(*segments: StoredSegment, **needed: KeptFor) -> Choice:
    days = Retention(older_than_s=30 * 86_400)
    return choose_segments(segments, days, NOW_MS, lambda each: needed.get(each.session.name))


def test_the_oldest_goes_first_and_what_is_young_stays() -> None:
    choice = chosen(NEW, OLD, OLDER)

    assert choice.going == (OLDER, OLD)
    assert choice.staying[KeptFor.YOUNG] == (NEW,)
    assert not choice.beyond_limits


@pytest.mark.parametrize("reason", [KeptFor.LIVE, KeptFor.RUN, KeptFor.UNREAD])
def test_what_is_needed_stays_with_the_reason_however_old(reason: KeptFor) -> None:
    choice = chosen(OLD, OLDER, a=reason)

    assert choice.going == (OLD,)
    assert choice.staying[reason] == (OLDER,)
    assert choice.beyond_limits


def test_to_keep_a_size_the_oldest_go_until_the_rest_fits() -> None:
    small = Retention(keep_bytes=15)

    choice = choose_segments([NEW, OLD, OLDER], small, NOW_MS, lambda _: None)

    assert choice.going == (OLDER, OLD)


def test_what_is_needed_counts_to_the_size_that_is_kept() -> None:
    live = segment("live", 0, 60, size=100)

    choice = choose_segments(
        [NEW, OLD, live],
        Retention(keep_bytes=105),
        NOW_MS,
        lambda each: KeptFor.LIVE if each is live else None,
    )

    assert choice.going == (OLD, NEW)


def test_either_limit_alone_lets_a_segment_go() -> None:
    both = Retention(older_than_s=30 * 86_400, keep_bytes=1_000)

    choice = choose_segments([NEW, OLD], both, NOW_MS, lambda _: None)

    assert choice.going == (OLD,)


def test_a_copied_session_goes_by_its_numbers_whatever_times_its_files_have_got() -> None:
    first, second = segment("a", 0, 35), segment("a", 1, 45)

    assert chosen(second, first).going == (first, second)
