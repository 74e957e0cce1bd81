"""What no verb does, whatever is typed, named or pressed."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from ktui.cli.follow import follow
from ktui.execution.host.process import EngineProcess
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import EngineLeft, Paused, PauseOrigin
from ktui.simulated.clock import VirtualClock
from support.cli.call_ktui import Done, call_ktui, call_ktui_process
from support.journals.journals import a_start, over, step


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    return tmp_path


def ktui(config_dir: Path, *arguments: str) -> Done:
    return call_ktui(*arguments, KTUI_CONFIG_DIR=str(config_dir))


@pytest.fixture
def not_kafka() -> Iterator[str]:
    """The address of a server that answers every connection as a web server would."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.recv(1024)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join()


@pytest.fixture
def closed_port() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("verb", ["list", "doctor"])
def test_an_unreachable_cluster_is_named_with_the_reason(
    config_dir: Path, closed_port: str, verb: str
) -> None:
    done = call_ktui_process(
        verb, "--bootstrap-server", closed_port, KTUI_CONFIG_DIR=str(config_dir)
    )

    assert done.returncode == 1
    assert closed_port in done.stdout + done.stderr
    assert "connection refused" in done.stdout + done.stderr


def test_a_port_that_does_not_speak_kafka_is_recognised(config_dir: Path, not_kafka: str) -> None:
    done = call_ktui_process(
        "list", "--bootstrap-server", not_kafka, KTUI_CONFIG_DIR=str(config_dir)
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert not_kafka in done.stderr
    assert "this is not Kafka's" in done.stderr


def test_a_config_folder_that_is_a_file_is_named(config_dir: Path) -> None:
    (config_dir / "file").touch()

    done = ktui(config_dir / "file", "list")

    assert done.returncode == 2
    assert f"{config_dir / 'file' / 'config.yaml'}: cannot be read" in done.stderr


def test_a_reader_that_closes_the_pipe_gets_no_traceback(config_dir: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ktui", "--help"]
    env = {**os.environ, "KTUI_CONFIG_DIR": str(config_dir)}
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, env=env)
    finally:
        os.close(write)

    assert done.stderr == b""


@pytest.mark.parametrize("verb", ["", "watch", "list", "doctor", "lab", "demo", "plan"])
def test_every_verb_has_a_help_page(config_dir: Path, verb: str) -> None:
    done = ktui(config_dir, *filter(None, (verb, "--help")))

    assert done.returncode == 0
    assert "Usage: " in done.stdout


def test_the_version_is_printed() -> None:
    done = call_ktui_process("--version")

    assert done.returncode == 0
    assert done.stdout.startswith("ktui, version ")


def test_a_defect_of_its_own_is_one_sentence(
    config_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.cli.main.ktui", lambda **_: 1 // 0)

    done = ktui(config_dir)

    assert done.returncode == 1
    assert "this is a defect in ktui: ZeroDivisionError" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_traceback_of_a_defect_is_shown_on_request() -> None:
    broken = "import ktui.cli.main as m; m.ktui = lambda **_: 1 // 0; m.main()"
    done = subprocess.run(
        [sys.executable, "-c", broken],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KTUI_DEBUG": "1"},
    )

    assert done.returncode == 1
    assert "Traceback" in done.stderr


ASKED = "interrupted: pausing the run. Interrupt again to leave at once"
PAUSED = "paused: nothing more is submitted, and 1 step in flight may finish"


class ScriptedEngine:
    """An engine that follows a script, one step each time it is polled."""

    def __init__(self, run: RunDir, script: Iterator[None]) -> None:
        self.run = run
        self.last_words = ""
        self._script = script

    @property
    def gone(self) -> bool:
        return next(self._script, self) is self


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def test_ctrl_c_reports_the_run_paused_once_it_is(
    state: StateDir, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.cli.follow._POLL_S", 0.0)
    printed = ""

    def output() -> str:
        nonlocal printed
        printed += capsys.readouterr().err
        return printed

    run = state.create_run("drain")
    with Journal.create(run.journal, VirtualClock()) as journal:
        journal.append([*a_start(), step(0), step(1)])

        def engine_script() -> Iterator[None]:
            signal.raise_signal(signal.SIGINT)
            yield
            (asked,) = journal.asked()
            assert ASKED in output()
            journal.append([over(0), Paused(by=PauseOrigin.OPERATOR)])
            yield
            assert "nothing more is submitted" not in output()
            journal.append([Paused(by=PauseOrigin.SIGNAL, command=asked.id)])
            journal.answer(asked.id, Answer(accepted=True, words="paused"))
            yield
            assert PAUSED in output()
            journal.append([over(1), EngineLeft(reason="interrupted")])

        start = cast("Callable[[], EngineProcess]", lambda: ScriptedEngine(run, engine_script()))
        code = follow(start, state, json=False)

    assert code == 130
    assert "to resume it: ktui resume drain" in output()
    assert output().count(PAUSED) == 1
