"""Recordings are copied, and runs recorded."""

import gzip
import json
import logging
import stat
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from click.testing import CliRunner, Result

from ktui.cli.engine_log import EngineLog
from ktui.cli.main import ktui
from ktui.cli.options.outward import redaction
from ktui.cli.process import Launch
from ktui.cli.record_prune import record_run
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Interest
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Started
from ktui.execution.run.events import Recording as EventsRecording
from ktui.execution.run.run import Run
from ktui.inputfile import FileProblem
from ktui.recording.reading import BadLine, GoodLine, find_sessions, read_lines
from ktui.recording.segments import AnyLine, RunLine
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import CLUSTER, a_start, written
from support.recordings.recordings import Recording, the_session
from support.recordings.recordings import Recording as ARecording
from support.simulated.moving_clusters import a_cluster
from support.views.watching import Looks


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A recording of two files."""
    recording = Recording(tmp_path / "source", cluster="prod-eu", longest_s=5.0)
    recording.looks(8)
    recording.recorder.close()
    return recording.folder


def copy(state: StateDir, source: Path, to: Path, *more: str) -> Result:
    words = ["--from", str(source), "--to", str(to), "--redact", "--state-dir", str(state.path)]
    return CliRunner().invoke(ktui, ["record", *words, *more])


def texts(folder: Path) -> list[str]:
    files = [file for session in find_sessions(folder) for file in session.files]
    read = [each for file in files for each in read_lines(file)]
    assert not [each for each in read if isinstance(each, BadLine)]
    return [each.text.decode() for each in read if isinstance(each, GoodLine)]


def test_a_copy_has_every_line_and_no_name(state: StateDir, source: Path, tmp_path: Path) -> None:
    done = copy(state, source, tmp_path / "given")

    assert done.exit_code == 0, done.output
    before, after = texts(source), texts(tmp_path / "given")
    assert len(after) == len(before)
    assert "orders" in "".join(before)
    names = ("orders", "a-cluster", "prod-eu", "127.0.0.1")
    assert [name for name in names for text in after if name in text] == []
    assert done.stdout == (
        f"copied 1 session, {len(after)} lines, with names hidden: {tmp_path / 'given'}\n"
    )
    original, copied = the_session(source), the_session(tmp_path / "given")
    assert [file.name for file in copied.files] == [file.name for file in original.files]
    assert len(copied.files) > 1
    assert copied.head.session != original.head.session


def test_a_hostile_file_is_left_out_and_the_others_are_copied(
    state: StateDir, source: Path, tmp_path: Path
) -> None:
    """Twenty megabytes of line feeds, each of which was once reported on its own."""
    first, second = the_session(source).files
    lines_in_good_files = len(list(read_lines(second)))
    first.write_bytes(first.read_bytes() + gzip.compress(b"\n" * 20_000_000, 9))
    (source / "empty.jsonl.gz").touch()

    done = copy(state, source, tmp_path / "given", "--json")

    assert done.exit_code == 0, done.output
    left_out = json.loads(done.stdout)["left_out"]
    assert len(left_out) == 1_002
    assert (
        left_out[0]
        == f"{source}/empty.jsonl.gz:1: not a readable recording: there is nothing in it"
    )
    assert left_out[-1].endswith(": after 1,000 bad lines the rest is skipped")
    assert len(texts(tmp_path / "given")) > lines_in_good_files
    assert "left out: 992 more places" in done.stderr


def test_a_damaged_place_is_left_out_and_reported(
    state: StateDir, source: Path, tmp_path: Path
) -> None:
    first = the_session(source).files[0]
    first.write_bytes(first.read_bytes()[:-40])

    done = copy(state, source, tmp_path / "given", "--json")

    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert (printed["sessions"], printed["files"]) == (1, 2)
    (damaged_place,) = printed["left_out"]
    assert damaged_place.startswith(f"{first}:")
    assert f"left out: {damaged_place}" in done.stderr
    assert texts(tmp_path / "given")


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(b'{"event":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"x":' + b"[" * 900 + b"]" * 900 + b"}", id="nested"),
        pytest.param(b'{"event":"left","x":1e400}', id="no number"),
    ],
)
def test_a_malformed_event_is_left_out_and_its_line_reported(
    state: StateDir, source: Path, tmp_path: Path, event: bytes
) -> None:
    first, lines_in_good_files = the_session(source).files[0], len(texts(source))
    written = gzip.decompress(first.read_bytes()).splitlines(keepends=True)
    line = (
        b'{"kind":"run","seq":1,"at":1770000000000,"ms":1,"run":"x","run_id":"x","entry":1,"event":'
    )
    line += event
    written.insert(1, line + b',"crc":"%08x"}\n' % crc32(line))
    first.write_bytes(gzip.compress(b"".join(written)))

    done = copy(state, source, tmp_path / "given")

    assert done.exit_code == 0, done.output
    assert f"left out: {first}:2: the line cannot be read: " in done.stderr
    assert len(texts(tmp_path / "given")) == lines_in_good_files


def test_an_existing_copy_is_not_overwritten(state: StateDir, source: Path, tmp_path: Path) -> None:
    copy(state, source, tmp_path / "given")

    error = copy(state, source, tmp_path / "given").exception

    assert isinstance(error, FileProblem)
    assert "already exists. Name another folder with --to DIR" in str(error)


def test_copying_from_a_folder_without_a_recording_is_refused(
    state: StateDir, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()

    error = copy(state, tmp_path / "empty", tmp_path / "given").exception

    assert isinstance(error, FileProblem)
    assert "there is no recording in it" in str(error)


def test_the_redaction_key_is_made_once_for_its_owner_and_hides_names_consistently(
    state: StateDir,
) -> None:
    hidden = redaction(state).hide("topic", "orders")

    assert stat.S_IMODE(state.redaction_key.stat().st_mode) == 0o600
    assert [path.name for path in state.path.iterdir()] == [state.redaction_key.name]
    assert redaction(state).hide("topic", "orders") == hidden
    assert hidden.startswith("topic-")


def test_another_state_directory_hides_names_differently(state: StateDir, tmp_path: Path) -> None:
    other = StateDir(tmp_path / "other")

    assert redaction(state).hide("topic", "orders") != redaction(other).hide("topic", "orders")


@pytest.mark.parametrize("text", ["", "no key", "abcd"])
def test_a_damaged_redaction_key_is_named_with_the_fix(state: StateDir, text: str) -> None:
    state.make(state.path)
    state.redaction_key.write_text(text)

    with pytest.raises(FileProblem, match=r"is not a key of 32 bytes.*Remove the file"):
        redaction(state)


STOPPED = EventsRecording(on=False, reason="/disk: recording has stopped: no space left on device")


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def a_run(here: StateDir, *more: AnyRunEvent) -> RunDir:
    run = here.create_run("drain")
    written(run.journal, [*a_start(), *more]).close()
    return run


def entries(run: RunDir) -> list[JournalEntry]:
    with Journal.open(run.journal, SystemClock(), read_only=True) as journal:
        return list(journal.entries())


def folded(run: RunDir) -> Run:
    return Run(run.name).fold(entries(run))


def shown(here: StateDir, *words: str) -> Any:
    done = CliRunner().invoke(ktui, [*words, "--state-dir", str(here.path)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in words else done.stdout


def read(run: RunDir) -> list[AnyLine]:
    files = [file for session in find_sessions(run.recording) for file in session.files]
    return [each.line for file in files for each in read_lines(file) if isinstance(each, GoodLine)]


async def test_an_engines_polls_and_its_whole_journal_are_recorded(here: StateDir) -> None:
    run, cluster = a_run(here), a_cluster(moving=["orders-0"], name=CLUSTER)
    polls, run_so_far = Looks(cluster), folded(run)

    with record_run(here, run_so_far, "prod-eu", cluster.clock, record=None) as recorded:
        recorded.take(entries(run))
        await recorded.through(polls).poll(Interest())
        assert recorded.state() == EventsRecording(on=True)
    await polls.aclose()

    (session,) = find_sessions(run.recording)
    assert session.head.cluster == "prod-eu"
    assert [line.entry for line in read(run) if isinstance(line, RunLine)] == [1, 2, 3]


async def test_a_run_with_recording_off_leaves_no_folder(here: StateDir) -> None:
    run, cluster = a_run(here), a_cluster()
    polls, run_so_far = Looks(cluster), folded(run)

    with record_run(here, run_so_far, "prod-eu", cluster.clock, record=False) as recorded:
        assert recorded.through(polls) is polls
        assert recorded.state() == EventsRecording(on=False)

    assert not run.recording.exists()


def test_the_next_engine_repairs_a_recording_that_was_cut_off(here: StateDir) -> None:
    run, cluster = a_run(here), a_cluster()
    run_so_far = folded(run)
    killed = ARecording(run.recording)
    killed.looks(3)
    killed.die()
    assert list(run.recording.rglob("*.tmp"))

    with record_run(here, run_so_far, "prod-eu", cluster.clock, record=False):
        assert not list(run.recording.rglob("*.tmp"))

    assert len(read(run)) == 4


def test_status_and_runs_show_a_recording_that_had_to_stop(here: StateDir) -> None:
    run = a_run(here, EventsRecording(on=True), STOPPED)

    with own_run(run):
        (of_runs,) = shown(here, "runs", "--json")["runs"]
        assert of_runs["recording"] == {"on": False, "reason": STOPPED.reason}
        assert shown(here, "status", "drain", "--json")["recording"] == of_runs["recording"]
        assert f"recording  {STOPPED.reason}" in shown(here, "status", "drain")


def test_a_run_is_shown_as_recorded_only_while_an_engine_owns_it(here: StateDir) -> None:
    run = a_run(here, EventsRecording(on=True))

    assert shown(here, "status", "drain", "--json")["recording"] == {"on": False, "reason": ""}
    with own_run(run):
        assert shown(here, "status", "drain", "--json")["recording"]["on"]
        assert "recording  on" in " ".join(shown(here, "status", "drain").split("\n"))


def test_the_engine_log_warns_of_a_recording_that_had_to_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, run = a_cluster().clock.now(), Run("drain")
    run_events = [*a_start(), EventsRecording(on=True), STOPPED]
    shown = [JournalEntry(n, now, event) for n, event in enumerate(run_events, start=1)]
    run.fold(shown)

    with caplog.at_level(logging.INFO, "ktui.cli.engine_log"):
        EngineLog(run).write(shown[-2:])

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "the engine records what it observes"),
        ("WARNING", STOPPED.reason),
    ]


@pytest.mark.parametrize(("words", "record"), [([], True), (["--no-record"], False)])
def test_the_journal_keeps_whether_the_run_is_recorded(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch, words: list[str], *, record: bool
) -> None:
    monkeypatch.setattr("ktui.execution.host.launch.shutil.rmtree", lambda *_, **__: None)

    sandbox.start(sandbox.plan(), "--headless", *words)

    (name,) = sandbox.runs
    run_so_far = entries(sandbox.state.run(name))[0].event
    assert isinstance(run_so_far, Started)
    assert run_so_far.options.record is record


@pytest.mark.parametrize("record", [None, True, False])
def test_an_engine_gets_a_recording_option_only_where_it_differs_from_the_run(
    here: StateDir, *, record: bool | None
) -> None:
    launch = Launch(
        state=here, name="drain", cluster_id="a", names={}, until=None, concurrent=False,
        record=record,
    )  # fmt: skip

    shown = [word for word in launch.arguments if word.startswith("--") and "record" in word]

    assert shown == ([] if record is None else ["--record" if record else "--no-record"])
