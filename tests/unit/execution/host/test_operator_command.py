"""Commands of the operator: bounded in what they print, and gone when their engine is."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

import pytest

from ktui.execution.host.operator_command import (
    HelperThread,
    command_output,
    exit_text,
    run_command,
)
from ktui.kafka.connection.secret import fetch_value

LONG_S = 60.0


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def an_engine(words: list[str], outlives_s: int = 0) -> subprocess.Popen[bytes]:
    """Return a process that runs a command, and waits for it by now."""
    waits = (
        "from ktui.execution.host import operator_command as commands\n"
        "follow = commands._follow\n"
        "commands._follow = lambda *how: print('waits', flush=True) or follow(*how)\n"
        f"commands.run_command({words!r}, 600, outlives_s={outlives_s})\n"
    )
    process = subprocess.Popen(python(waits), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"waits\n"
    return process


def test_of_what_a_command_prints_only_the_end_is_kept_and_nothing_goes_to_a_disk() -> None:
    prints = "print('x' * 5_000_000); print(7)"
    smallest_files = f"ulimit -f 1; exec {shlex.join(python(prints))}"

    output, problem = command_output(["sh", "-c", smallest_files], LONG_S)

    assert problem is None
    assert output.endswith("x\n7\n")
    assert len(output) <= 4096


def test_a_command_that_prints_without_an_end_is_killed_in_time() -> None:
    assert command_output(["yes"], 0.5) == ("", "took longer than 0.5 s and was killed")


def test_nothing_waits_for_a_child_that_a_command_leaves_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    leaves = f"echo 5; cat {tmp_path / 'gate'} &"

    assert command_output(["sh", "-c", leaves], LONG_S) == ("5\n", None)
    with (tmp_path / "gate").open("w"):
        pass  # the child ends


@pytest.mark.parametrize(
    ("code", "text"),
    [(3, "exit code 3"), (-9, "SIGKILL"), (-40, "signal 40"), (-1000, "signal 1000")],
)
def test_every_end_of_a_process_can_be_named(code: int, text: str) -> None:
    assert exit_text(code) == text


@pytest.mark.skipif(sys.platform != "linux", reason="a real-time signal")
def test_a_command_that_dies_of_an_unusual_signal_has_failed() -> None:
    words = python("import os; os.kill(os.getpid(), 40)")

    assert run_command(words, LONG_S) == "ended with signal 40"


def test_a_command_and_its_children_end_with_an_engine_that_is_killed(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    hangs = ["sh", "-c", f"(exec 3> {held}; sleep 600) & exec 3> {held}; echo here >&3; sleep 600"]
    process = an_engine(hangs)
    with held.open() as file:
        assert file.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
        assert file.read() == ""  # which comes once nothing of the command is left
    process.communicate()


def test_a_command_that_hands_a_notice_on_may_still_do_so_once_its_engine_is_killed(
    tmp_path: Path,
) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    for path in (gate, out):
        os.mkfifo(path)
    hands_on = ["sh", "-c", f"exec 3> {out}; echo begun >&3; cat {gate}; echo handed on >&3"]
    process = an_engine(hands_on, outlives_s=600)
    with out.open() as file:
        assert file.readline() == "begun\n"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with gate.open("w"):
            pass
        assert file.read() == "handed on\n"


def test_a_command_does_not_get_the_variables_that_hold_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_PASSWORD_OF_A_TEST", "hidden")
    monkeypatch.setenv("NO_PASSWORD_OF_A_TEST", "shown")
    assert fetch_value({"env": "A_PASSWORD_OF_A_TEST"}, "", "sasl.password", tmp_path) == "hidden"

    output, _ = command_output(["env"], LONG_S)

    assert "NO_PASSWORD_OF_A_TEST=shown" in output.splitlines()
    assert "hidden" not in output


def test_a_helper_thread_that_died_or_could_not_begin_is_begun_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    threads: Queue[threading.Thread] = Queue()

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    helper = HelperThread(lambda: threads.put(threading.current_thread()))
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_thread)
        assert helper.keep_alive() == "can't start new thread"
    assert helper.keep_alive() == ""
    first = threads.get()
    first.join()
    assert not caplog.messages
    assert helper.keep_alive() == ""
    assert caplog.messages == [f"the helper thread {first.name} has died, and is begun again"]
    assert threads.get() is not first
