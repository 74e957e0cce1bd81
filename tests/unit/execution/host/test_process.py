"""The engine's process: its last words are those of the error."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ktui.execution.errors import RunProblem
from ktui.execution.host.process import EngineProcess, start_engine
from ktui.execution.host.state_dir import RunDir, StateDir
from support.journals.journals import a_start, written

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
