"""Full disks, and the page of the format."""

import errno
import fcntl
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.recording import recorder as recorder_module
from ktui.recording.reading import PlayedPoll
from ktui.recording.segments import CensusLine, End, Head, LostPollLine, PollLine, RunLine
from ktui.recording.stored import seal
from support.recordings.recordings import (
    Recording,
    all_to_the_millisecond,
    files_in,
    happenings,
    seen_in,
)
from support.simulated.observations import ORDERS

TESTS = Path(__file__).parents[2]
MOST_BYTES = 3_000
UNTIL_TOO_LARGE = f"""
import resource, sys
from pathlib import Path
from support.recordings.recordings import Recording

resource.setrlimit(resource.RLIMIT_FSIZE, ({MOST_BYTES}, {MOST_BYTES}))
recording = Recording(Path(sys.argv[1]))
while recording.recorder.problem is None:
    recording.looks(1)
recording.recorder.lost("no answer")
recording.recorder.close()
print(len(recording.shown), recording.recorder.problem)
"""


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_stops_the_recording_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path)
    recording.looks(5)

    with monkeypatch.context() as full:
        full.setattr(recorder_module, "os", SimpleNamespace(**{**vars(os), "write": no_space}))
        recording.looks(1)

    path = recording.recorder.path
    assert recording.recorder.problem == f"{path}: recording has stopped: No space left on device"
    assert_nothing_more_is_recorded(recording)
    assert len(seal(tmp_path).files) == 1
    assert seen_in(tmp_path) == all_to_the_millisecond(recording.shown[:5])


def test_a_disk_that_takes_half_a_line_loses_that_line_only(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", UNTIL_TOO_LARGE, tmp_path / "limited"],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    count, problem = ended.stdout.strip().split(" ", 1)

    (file,) = files_in(tmp_path)
    assert problem == f"{file.parent}: recording has stopped: File too large"
    assert file.stat().st_size == MOST_BYTES
    unlimited = Recording(tmp_path / "unlimited")
    unlimited.looks(int(count))
    seen = [each.observation for each in happenings(file) if isinstance(each, PlayedPoll)]
    assert int(count) - len(seen) in {0, 1}, "of the last line its end alone may be missing"
    assert seen == all_to_the_millisecond(unlimited.shown[: len(seen)])


def test_a_disk_that_is_full_from_the_start_stops_the_recording_and_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(recorder_module, "os", SimpleNamespace(**{**vars(os), "write": no_space}))
        recording.looks(1)

    assert recording.recorder.problem == (
        f"{tmp_path}: recording has stopped: No space left on device"
    )
    (file,) = files_in(tmp_path)
    with file.open("rb") as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert_nothing_more_is_recorded(recording)


def test_a_recording_stops_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path)
    recording.looks(5)

    with monkeypatch.context() as nearly_full:
        little_space = SimpleNamespace(f_bavail=255, f_frsize=1024 * 1024)
        nearly_full.setattr("ktui.recording.recorder.os.statvfs", lambda _: little_space)
        recording.looks(1)

    assert recording.recorder.problem is not None
    assert recording.recorder.problem.endswith("less than 256 MiB are free on its disk")
    (file,) = files_in(tmp_path)
    assert file.name == "000000.jsonl.gz"
    assert_nothing_more_is_recorded(recording)
    assert seen_in(tmp_path) == all_to_the_millisecond(recording.shown[:5])


def test_a_folder_that_cannot_be_created_stops_the_recording_without_an_error(
    tmp_path: Path,
) -> None:
    in_the_way = tmp_path / "recordings"
    in_the_way.write_text("a file")
    recording = Recording(in_the_way)
    recording.recorder.lost("no answer")

    recording.looks(3)
    recording.recorder.close()

    assert recording.recorder.path is None
    assert recording.recorder.problem == f"{in_the_way}: recording has stopped: Not a directory"


def test_a_folder_that_is_deleted_stops_the_recording_without_an_error(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "recordings")
    recording.looks(3)
    (file,) = files_in(tmp_path)
    file.unlink()
    file.parent.rmdir()

    recording.looks(3)
    recording.recorder.close()

    assert recording.recorder.problem is not None
    assert recording.recorder.problem.endswith("recording has stopped: No such file or directory")


def assert_nothing_more_is_recorded(recording: Recording) -> None:
    before = {file: file.read_bytes() for file in files_in(recording.folder)}
    recording.looks(2)
    recording.recorder.lost("no answer")
    recording.recorder.close()

    assert {file: file.read_bytes() for file in files_in(recording.folder)} == before


PAGE = (Path(__file__).parents[3] / "docs" / "recording.md").read_text(encoding="utf-8")
KINDS = [Head, PollLine, LostPollLine, RunLine, End, CensusLine]
WITHIN = [Broker, BrokerConfig, LogDir, TopicConfig, Failure]


@pytest.mark.parametrize("kind", [*KINDS, *WITHIN], ids=lambda kind: kind.__name__)
def test_every_field_of_the_format_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}

    assert fields <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_example_on_the_page_is_a_recording(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "000000.jsonl.gz"
    file.write_bytes(gzip.compress(example.encode()))

    played = happenings(file)

    assert [type(each) for each in played] == [PlayedPoll, RunLine, PlayedPoll, LostPollLine, End]
    first, _, second, *_ = played
    assert isinstance(first, PlayedPoll)
    assert isinstance(second, PlayedPoll)
    ends = {replica.broker: reading.value for replica, reading in second.observation.ends.items()}
    assert second.line.ms - first.line.ms == 1_004
    assert ends == {1: 1_000_120, 4: 252_100}
    assert second.observation.partitions[ORDERS].target == (4, 2, 3)
    assert second.observation.partitions[ORDERS].original == (2, 3, 1)
