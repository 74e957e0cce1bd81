"""`ktui replay` lists what it can replay, and explains what it cannot."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ktui.cli.context.terminal import BadInput
from ktui.cli.replay import Playable, choose_recording, join_sessions, replay_app
from ktui.cluster.observation import Observation
from ktui.cluster.text import is_simulated
from ktui.execution.host.kept import RunRecording
from ktui.execution.run.events import JournalEntry
from ktui.recording.reading import find_sessions
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import Tape
from ktui.rehearsal.compare import BranchPoint
from ktui.simulated.clock import VirtualClock
from ktui.simulated.twin import ClusterTwin
from ktui.tui.replay.app import ReplayApp
from support.cli.call_ktui import Done, call_ktui
from support.journals.journals import a_start
from support.recordings.recordings import a_recording
from support.simulated.observations import START, a_move, an_observation

RUN = [JournalEntry(number, START, event) for number, event in enumerate(a_start(), start=1)]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have moments of this machine's time zone be those of the recordings."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def replay(*arguments: str, state: Path) -> Done:
    return call_ktui("replay", *arguments, KTUI_STATE_DIR=str(state))


def polls(first_s: int = 0, count: int = 30) -> Iterator[Observation]:
    return (an_observation([a_move()], float(first_s + n)) for n in range(count))


def a_run_recorded(folder: Path, name: str, first_s: int, count: int = 30) -> None:
    """Record polls as the engine of a run does: the entries of its journal come first."""
    clock = VirtualClock(START)
    clock.pass_time(first_s)
    recorder = Recorder(folder, clock, program="a test", cluster="prod-eu")
    RunRecording(recorder, name).take(RUN)
    for poll in polls(first_s, count):
        recorder.poll(poll)
        clock.pass_time(1)
    recorder.close()


def test_help_of_the_verb_is_printed(tmp_path: Path) -> None:
    done = replay("--help", state=tmp_path)
    assert done.returncode == 0
    assert "FILE is a segment of a recording, DIR a folder of recordings" in done.stdout
    assert "--session" in done.stdout


def test_the_name_of_a_run_opens_its_recording(tmp_path: Path) -> None:
    a_run_recorded(tmp_path / "runs" / "drain-3" / "recording", "drain-3", 0)
    done = replay("drain-3", state=tmp_path)
    assert "the live view needs a terminal" in done.stderr


def test_several_recordings_are_listed_and_one_must_be_chosen(tmp_path: Path) -> None:
    a_recording(tmp_path, polls())
    a_run_recorded(tmp_path, "drain-3", 100)
    done = replay(str(tmp_path), state=tmp_path)
    assert done.returncode == 2
    assert "there are several recordings. Choose one with --session:" in done.stderr
    *_, header, first, second = done.stderr.splitlines()
    assert header.split() == ["SESSION", "BEGAN", "CLUSTER", "RUN", "LENGTH"]
    assert first.split()[1:] == ["2026-01-01", "12:00:00", "a-cluster", "-", "29", "s"]
    assert second.split()[1:] == ["2026-01-01", "12:01:40", "prod-eu", "drain-3", "30", "s"]
    chosen = replay(str(tmp_path), "--session", second.split()[0], state=tmp_path)
    assert "the live view needs a terminal" in chosen.stderr


def test_a_branch_is_opened_at_once_and_then_the_replay_stands_at_its_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run_recorded(tmp_path / "runs" / "drain-3" / "recording", "drain-3", 0)
    branches: list[tuple[BranchPoint, ClusterTwin]] = []
    begun: list[float] = []
    shown: list[ReplayApp] = []

    def replays(tape: Tape, at_s: float, **how: Any) -> AbstractContextManager[ReplayApp]:
        begun.append(at_s - tape.from_s)
        return replay_app(tape, at_s, **how)

    async def show(app: ReplayApp) -> None:
        shown.append(app)

    monkeypatch.setattr("ktui.cli.replay.need_terminal", lambda _: None)
    monkeypatch.setattr("ktui.cli.replay.replay_app", replays)
    monkeypatch.setattr("ktui.cli.replay.show_app", show)
    monkeypatch.setattr("ktui.cli.replay.show_branch", lambda *of: branches.append(of[:2]))

    done = replay("drain-3", "--at", "+20s", "--branch", state=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    ((point, twin),) = branches
    assert (point.at, point.at_s) == (START + timedelta(seconds=20), 20.0)
    assert [run.name for run in point.runs] == ["drain-3"]
    assert is_simulated(twin.spec.name)
    assert begun == [20.0]
    assert [app.plays for app in shown] == [False]


def test_a_branch_of_a_moment_before_the_first_poll_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock(START)
    recorder = Recorder(tmp_path, clock, program="a test")
    recorder.begin("a-cluster")
    clock.pass_time(10)
    recorder.poll(next(polls(10)))
    recorder.close()
    monkeypatch.setattr("ktui.cli.replay.need_terminal", lambda _: None)

    done = replay(str(tmp_path), "--at", "+5s", "--branch", state=tmp_path)

    assert done.returncode == 2
    assert "--branch: Nothing was polled before this moment" in done.stderr


def choose_at_a_terminal(known: list[Playable], answer: str) -> tuple[Playable, str]:
    """Choose as an operator at a terminal does; return the choice and the output."""
    chosen: list[Playable] = []

    @click.command()
    def command() -> None:
        chosen.append(choose_recording(known, None, ask=True))

    printed = CliRunner().invoke(command, input=answer)
    assert printed.exception is None
    return chosen[0], printed.output


def test_ktui_replay_at_a_terminal_lists_recordings_and_asks_for_one(tmp_path: Path) -> None:
    a_recording(tmp_path, polls())
    a_run_recorded(tmp_path, "drain-3", 100)
    known = join_sessions(find_sessions(tmp_path))
    first, printed = choose_at_a_terminal(known, "1\n")
    assert first is known[0]
    assert "drain-3" in printed
    assert choose_at_a_terminal(known, "7\n\n")[0] is known[1]


def test_sessions_of_a_run_are_replayed_one_after_another(tmp_path: Path) -> None:
    a_run_recorded(tmp_path, "drain-3", 0)
    a_run_recorded(tmp_path, "drain-3", 100)
    (only,) = join_sessions(find_sessions(tmp_path))
    assert [session.head.at for session in only.sessions] == sorted(
        session.head.at for session in only.sessions
    )
    assert len(only.sessions) == 2
    assert choose_recording([only], None, ask=False) is only


def test_sessions_of_a_run_recorded_at_the_same_time_are_not_joined(tmp_path: Path) -> None:
    a_run_recorded(tmp_path, "drain-3", 0)
    a_run_recorded(tmp_path, "drain-3", 10)
    assert [len(each.sessions) for each in join_sessions(find_sessions(tmp_path))] == [1, 1]


def test_a_session_is_chosen_by_its_id(tmp_path: Path) -> None:
    a_recording(tmp_path, polls())
    a_recording(tmp_path, polls(100))
    known = join_sessions(find_sessions(tmp_path))
    for each in known:
        assert choose_recording(known, each.session, ask=False) is each
    with pytest.raises(BadInput, match="no such session"):
        choose_recording(known, "", ask=False)
