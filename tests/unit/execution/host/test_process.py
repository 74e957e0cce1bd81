"""The engine as a process, and its clients."""

import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution import RunProblem, RunRefused
from ktui.execution.engine.engine import Engine
from ktui.execution.host.catalog import OtherRuns, UnknownRun, find_movers
from ktui.execution.host.client import RunClient
from ktui.execution.host.kept import RunRecording
from ktui.execution.host.ownership import own_run
from ktui.execution.host.process import EngineProcess, engine_death, start_engine
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, Command, Pause
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, Owned, Recording, StateEntered
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import RecordingSource
from ktui.simulated.clock import VirtualClock
from support.journals.journals import (
    CLUSTER,
    a_start,
    accepted,
    ended,
    over,
    planned,
    started,
    step,
    written,
)
from support.runs.engine_runs import OWNER, PlannedRun
from support.simulated.moving_clusters import a_cluster, tp

LIMIT_S = 60.0


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    state = StateDir(tmp_path / "state")
    run = state.create_run("drain")
    written(run.journal, a_start()).close()
    return run


def words(run: RunDir, *more: str) -> list[str]:
    return ["engine", run.name, "--state-dir", str(run.path.parent.parent), *more]


def test_an_engine_that_cannot_start_is_reported_in_its_own_words(run: RunDir) -> None:
    run.log.write_text("what was said before\n")

    with pytest.raises(RunProblem) as died:
        start_engine(run, words(run, "--command-config", "/no/such.properties"))

    assert "the engine of run drain has died: ktui: " in str(died.value)
    assert "/no/such.properties" in str(died.value)
    assert "what was said before" not in str(died.value)
    assert "Traceback" not in run.log.read_text()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_a_link_in_place_of_the_log_is_reported_without_waiting(
    run: RunDir, kind: str
) -> None:
    if kind == "pipe":
        os.mkfifo(run.log)
    else:
        run.log.symlink_to(run.path / "elsewhere")

    with pytest.raises(RunProblem, match=r"engine\.log: cannot be written: it is "):
        EngineProcess(run, words(run))


def test_an_engine_that_was_killed_is_reported_with_the_signal(run: RunDir) -> None:
    engine = EngineProcess(run, words(run, "--bootstrap-server", "127.0.0.1:1"))
    os.kill(engine.pid, signal.SIGKILL)

    assert engine.wait(LIMIT_S)
    assert not engine.ended_well
    assert engine.last_words == "it was ended by SIGKILL"


def test_an_engine_that_is_slow_to_start_is_reported_as_possibly_still_starting(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.execution.host.process._PATIENCE_S", 0.0)

    with pytest.raises(RunProblem, match=r"and may still do so\. See: ktui status drain") as slow:
        start_engine(run, words(run, "--bootstrap-server", "127.0.0.1:1"))

    pid = int(str(slow.value).partition("process ")[2].partition(",")[0])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_an_engine_has_a_session_of_its_own_and_leaves_on_request(run: RunDir) -> None:
    engine = start_engine(run, words(run, "--bootstrap-server", "127.0.0.1:1"))

    assert os.getsid(engine.pid) == engine.pid != os.getsid(0)
    assert not engine.gone
    engine.leave()
    assert engine.wait(LIMIT_S)
    assert engine.ended_well
    assert "the engine has exited: its process got SIGTERM" in run.log.read_text()


def test_an_engine_inherits_no_open_files_of_its_caller(run: RunDir) -> None:
    end, pipe = os.pipe()
    os.set_inheritable(pipe, True)  # noqa: FBT003 - it takes no keywords
    os.set_blocking(end, False)
    engine = start_engine(run, words(run, "--bootstrap-server", "127.0.0.1:1"))
    os.close(pipe)  # as when the caller exits

    try:
        assert os.read(end, 1) == b"", "somebody has the pipe open still"
        assert not engine.gone
    finally:
        os.kill(engine.pid, signal.SIGKILL)
        os.close(end)
        assert engine.wait(LIMIT_S)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def client(state: StateDir) -> RunClient:
    written(state.create_run("drain").journal, a_start(4)).close()
    return RunClient.find(state, "drain")


def test_a_run_is_found_by_its_name_and_read_from_its_journal(client: RunClient) -> None:
    found, begun = client.read(), client.read_begun()

    assert (client.name, len(found.run.tracks), found.damage) == ("drain", 4, None)
    assert begun.begun == found.run.started
    assert client.first_entry() == found.entries[0]
    with pytest.raises(UnknownRun, match="did you mean 'drain'"):
        RunClient.find(StateDir(client.folder.path.parent.parent), "drains")


def test_a_run_whose_start_was_cut_off_cannot_be_continued(state: StateDir) -> None:
    run = state.create_run("cut")
    Journal.create(run.journal, VirtualClock()).close()

    with pytest.raises(RunProblem, match="the start of the run was cut off"):
        RunClient(run).read_begun()


def test_only_a_run_with_an_engine_takes_commands(client: RunClient) -> None:
    with pytest.raises(RunRefused, match="run drain has no engine"):
        client.read_live()

    with own_run(client.folder) as owned:
        assert client.owner == owned.holder
        assert client.read_live().name == "drain"

    with Journal.open(client.folder.journal, VirtualClock()) as journal:
        journal.append([ended(4)])
    with pytest.raises(RunRefused, match="run drain has ended"):
        client.read_live()


def test_a_command_is_kept_until_it_is_answered(client: RunClient) -> None:
    number = client.ask(Pause())

    assert client.unanswered() == [Pause()]
    with Journal.open(client.folder.journal, VirtualClock()) as journal:
        journal.answer(number, Answer(accepted=True, words="paused"))
    assert client.unanswered() == []
    assert client.wait_for_answer(number).words == "paused"


def test_a_command_is_sent_and_its_answer_read_over_one_opened_journal(
    client: RunClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, opened = Journal.ask, list[Journal]()

    def answered(journal: Journal, command: Command, who: str) -> int:
        opened.append(journal)
        number = ask(journal, command, who)
        journal.answer(number, Answer(accepted=False, words="not now"))
        return number

    monkeypatch.setattr(Journal, "ask", answered)
    number, answer = client.send(Pause())

    assert (answer.accepted, answer.words, len(opened)) == (False, "not now", 1)
    assert client.wait_for_answer(number) == answer


AT = "2026-11-28T15:27:22.521Z"
SHOWN = datetime(2026, 11, 28, 15, 27, 22, tzinfo=UTC).astimezone().strftime("%H:%M:%S")


@pytest.fixture
def dead(tmp_path: Path) -> tuple[RunDir, Run]:
    """Return a run that an engine owned, of which nothing is left."""
    folder = StateDir(tmp_path / "state").create_run("drain")
    with written(folder.journal, [*a_start(2), Owned(pid=1, host="here", user="ada")]) as journal:
        return folder, Run("drain").fold(journal.entries())


def said(dead: tuple[RunDir, Run], *lines: str) -> str:
    folder, run = dead
    folder.log.write_text("".join(f"{line}\n" for line in lines))
    return engine_death(folder, run)


@pytest.mark.parametrize("level", ["INFO throttle 2 -> 4 MB/s", "DEBUG a poll"])
def test_the_last_thing_that_an_engine_did_is_not_named_as_the_cause_of_its_death(
    dead: tuple[RunDir, Run], level: str
) -> None:
    words = said(dead, f"{AT} WARNING orders-1: stalled", f"{AT} {level}")

    assert words == f"it was killed, or its host went down; its log ends at {SHOWN}"


@pytest.mark.parametrize(
    "line",
    [
        f"{AT} WARNING the journal cannot be written",
        f"{AT} ERROR a defect",
        "ktui: journal.db: cannot be written: No space left on device",
        "MemoryError",
    ],
)
def test_a_warning_an_error_or_the_interpreters_words_at_the_end_are_the_cause(
    dead: tuple[RunDir, Run], line: str
) -> None:
    assert said(dead, f"{AT} INFO decision 1: 2 steps", line) == line


def test_without_a_log_the_time_of_the_last_poll_is_what_is_known(dead: tuple[RunDir, Run]) -> None:
    folder, run = dead
    folder.last_poll.touch()
    os.utime(folder.last_poll, (2e9, 2e9))
    shown = datetime.fromtimestamp(2e9).astimezone().strftime("%H:%M:%S")

    assert engine_death(folder, run) == f"it was killed, or its host went down, after {shown}"


def test_an_engine_that_ends_while_it_starts_is_explained_by_its_errors_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StateDir(tmp_path / "state").create_run("drain")
    code = f"print('{AT} INFO decision 1: 2 steps')\nprint('{AT} ERROR no brokers')\nexit(1)"
    monkeypatch.setattr("ktui.execution.host.process.PYTHON", ("python", "-c", code))
    engine = EngineProcess(folder, [])

    assert engine.wait(60.0)
    assert engine.last_words == f"{AT} ERROR no brokers"


async def recorded(run: PlannedRun, recorder: Recorder) -> list[Recording]:
    """Record a run to its end and return what it has noted about the recording."""
    await run.start()
    with run.opened() as journal:
        run.run = Run("run").fold(journal.entries())
        observer, ways = Observer(run.reader, run.clock), ClusterPorts(run.reader, run.writer)
        source = RecordingSource(observer, recorder)
        state = RunRecording(recorder, "run").state
        run.engine = Engine(run.run, journal, source, ways, run.clock, recording=state)
        await run.engine.execute(OWNER)
        await observer.aclose()
    recorder.close()
    return [event for event in run.events if isinstance(event, Recording)]


def a_run(folder: Path) -> PlannedRun:
    cluster = a_cluster(resting=["orders-0", "orders-1"], messages=3_000)
    cluster.clock._leaping = True  # type: ignore[attr-defined]  # it is a virtual one
    targets = {tp(name): (4, 2, 3) for name in ("orders-0", "orders-1")}
    return PlannedRun(cluster, folder, targets, Limits(replicas=1, partitions=1))


async def test_a_recorded_run_notes_that_once(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    recorder = Recorder(tmp_path / "recording", run.clock, program="ktui of a test")

    assert await recorded(run, recorder) == [Recording(on=True)]
    assert run.run.recording == Recording(on=True)
    assert recorder.path is not None


async def test_a_full_disk_stops_the_recording_but_not_the_run(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    recorder = Recorder(tmp_path / "recording", run.clock, program="ktui of a test")
    look, polls = recorder.poll, []

    def fill_the_disk(observation: object) -> None:
        polls.append(observation)
        if len(polls) == 3:
            recorder._stop("no space left on device")
        look(observation)  # type: ignore[arg-type]  # it is handed on

    recorder.poll = fill_the_disk  # type: ignore[method-assign]  # a disk of the test's own

    noted = await recorded(run, recorder)

    assert run.run.ended
    assert [event.on for event in noted] == [True, False]
    assert noted[-1].reason.endswith("recording has stopped: no space left on device")


async def test_an_unrecorded_run_notes_nothing_about_recording(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    await run.to_its_end()

    events: list[AnyRunEvent] = run.events
    assert not [event for event in events if isinstance(event, Recording)]


MOVED = TopicPartition("orders", 0)


def other_runs_a_run(state: StateDir, name: str, *more: AnyRunEvent) -> None:
    run = state.create_run(name)
    written(run.journal, [*a_start(2), *more]).close()


def test_a_run_moves_what_it_has_in_flight(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    other_runs_a_run(state, "drain", step(0), accepted(0))
    assert find_movers(state, CLUSTER) == {MOVED: "drain"}
    assert find_movers(state, CLUSTER, but="drain") == {}
    assert find_movers(state, "another-cluster") == {}


def test_steps_that_are_over_and_runs_that_have_ended_move_nothing(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    other_runs_a_run(state, "between", step(0), accepted(0), over(0))
    other_runs_a_run(state, "ended", step(0), accepted(0), ended(1))
    assert find_movers(state, CLUSTER) == {}


def test_a_later_look_reads_what_is_new(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    runs = OtherRuns(state, CLUSTER)
    assert runs.movers() == {}
    other_runs_a_run(state, "drain", step(0), accepted(0))
    assert runs.movers() == {MOVED: "drain"}
    runs.close()
    assert runs.movers() == {}


def test_an_unreadable_run_moves_nothing(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.create_run("broken").journal.write_bytes(b"no journal")
    other_runs_a_run(state, "drain", step(0), accepted(0))
    assert find_movers(state, CLUSTER) == {MOVED: "drain"}


def test_a_run_that_is_only_being_started_does_not_wait_for_resume(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    run = state.create_run("starting")
    written(run.journal, [started(2), planned(2)]).close()
    other_runs_a_run(state, "left")
    others = OtherRuns(state, CLUSTER)

    assert [each.name for each in others.alive()] == ["left"]

    others.close()


def test_a_run_counts_as_done_only_what_is_at_its_target(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    gone = StateEntered(topic="orders", partition=0, state=State.CHANGED_ELSEWHERE)
    other_runs_a_run(state, "drain", step(0), accepted(0), gone)
    others = OtherRuns(state, CLUSTER)

    (drain,) = others.alive()

    assert (drain.done, drain.partitions) == (0, 2)
    others.close()
