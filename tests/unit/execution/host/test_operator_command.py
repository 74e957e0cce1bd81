"""Commands of the operator's that a run starts."""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.host import operator_command
from ktui.execution.host.operator_command import (
    MOST_WAITING,
    CommandProblem,
    EventCommand,
    HelperThread,
    WhileCommand,
    exit_text,
    resolve_command,
    run_command,
)
from ktui.kafka.connection.properties import fetch_value

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

    output, problem = run_command(["sh", "-c", smallest_files], LONG_S)

    assert problem is None
    assert output.endswith("x\n7\n")
    assert len(output) <= 4096


def test_a_command_that_prints_without_an_end_is_killed_in_time() -> None:
    assert run_command(["yes"], 0.5) == ("", "took longer than 0.5 s and was killed")


def test_nothing_waits_for_a_child_that_a_command_leaves_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    leaves = f"echo 5; cat {tmp_path / 'gate'} &"

    assert run_command(["sh", "-c", leaves], LONG_S) == ("5\n", None)
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

    assert run_command(words, LONG_S) == ("", "ended with signal 40")


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

    output, _ = run_command(["env"], LONG_S)

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


def script(folder: Path, text: str) -> str:
    """Return the command line of a Python program in a folder with a space in its name."""
    folder = folder / "my scripts"
    folder.mkdir(exist_ok=True)
    path = folder / "page.py"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return resolve_command(f"'{path}' 'a b'")


def appending(to: Path) -> str:
    return f"import sys\nopen({str(to)!r}, 'a').write(sys.argv[1] + ':' + sys.stdin.read())\n"


def test_the_command_gets_each_notice_whole_and_in_order_without_a_shell(tmp_path: Path) -> None:
    command = EventCommand(script(tmp_path, appending(tmp_path / "out")))
    notices = [f"{n} $(touch {tmp_path}/never); {'x' * 100_000}\n" for n in range(3)]

    for notice in notices:
        command.send(notice.encode())

    assert command.close(LONG_S) == []
    assert (tmp_path / "out").read_text() == "".join(f"a b:{notice}" for notice in notices)
    assert not (tmp_path / "never").exists()


def test_a_command_that_hangs_is_killed_with_its_children_and_reported(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    hanging = f"import os, time\nos.fork()\nfile = open({str(held)!r}, 'w')\ntime.sleep(600)\n"
    command = EventCommand(script(tmp_path, hanging), timeout_s=3.0)

    command.send(b"{}")
    with held.open() as file:
        file.read()  # ends once nothing of the command is left

    assert command.close(LONG_S) == ["--on-event page.py took longer than 3 s and was killed"]


def test_a_command_that_fails_is_reported_with_its_last_words_cleaned(tmp_path: Path) -> None:
    failing = "import sys\nsys.exit('no route\\x1b[2J to the pager')\n"
    command = EventCommand(script(tmp_path, failing))
    command.send(b"{}")

    (failure,) = command.close(LONG_S)

    assert failure == "--on-event page.py ended with exit code 1: no route\\x1b[2J to the pager"


def test_a_command_that_disappears_is_reported_and_raises_nothing(tmp_path: Path) -> None:
    line = script(tmp_path, "")
    (tmp_path / "my scripts" / "page.py").unlink()
    command = EventCommand(line)
    command.send(b"{}")

    assert command.close(LONG_S) == ["--on-event page.py cannot be run: No such file or directory"]


def test_a_failure_of_an_unknown_kind_is_reported_and_the_next_notice_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    command = EventCommand(script(tmp_path, appending(out)))

    def breaks(*_: object, **__: object) -> tuple[str, str | None]:
        raise KeyError("odd")

    with monkeypatch.context() as broken:
        broken.setattr(operator_command, "run_command", breaks)
        command.send(b"first;")
        assert command.close(LONG_S) == ["--on-event page.py failed: KeyError('odd')"]

    command.send(b"second;")

    assert command.close(LONG_S) == []
    assert out.read_text() == "a b:second;"


def test_notices_that_come_too_fast_are_dropped_oldest_first_and_counted(tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    os.mkfifo(gate)
    command = EventCommand(
        script(tmp_path, f"open({str(gate)!r}).read()\n{appending(out)}"), timeout_s=LONG_S
    )

    command.send(b"0;")
    with gate.open("w"):  # the first one is being taken now
        for n in range(1, MOST_WAITING + 4):
            command.send(b"%d;" % n)
    dropped = command.failures()
    command.close(0.0)

    assert dropped == ["--on-event page.py is too slow: 3 notices dropped, the oldest first"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no program"),
        ("page 'it", "no closing quotation"),
        ("no-such-program-here --now", "no-such-program-here: no such program"),
        ("/", "no such program, or it may not be run"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(CommandProblem, match=why):
        resolve_command(text)


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
def test_arguments_reach_the_command_as_they_were_given(arguments: list[str]) -> None:
    resolved = resolve_command(shlex.join([sys.executable, *arguments]))

    assert shlex.split(resolved)[1:] == arguments


class Check:
    """A command that waits, each time it has begun, until the test lets it go on."""

    def __init__(self, path: Path, text: str = "") -> None:
        self._gate = path.with_suffix(".gate")
        os.mkfifo(self._gate)
        path.write_text(f"#!{sys.executable}\nopen({str(self._gate)!r}, 'w').close()\n{text}")
        path.chmod(0o755)
        self.command = resolve_command(f"'{path}'")

    def runs(self) -> None:
        """Let the run that has begun end, and wait until the next one has begun."""
        for _ in range(2):
            self._gate.read_text()


@pytest.fixture
def checks() -> Iterator[WhileCommand]:
    checks = WhileCommand(every_s=0.0, timeout_s=60.0)
    yield checks
    checks.forbids("")


def test_steps_may_begin_from_its_success_until_it_fails_and_again_after_that(
    tmp_path: Path, checks: WhileCommand
) -> None:
    slow = tmp_path / "slow"
    text = f"import os, sys\nif os.path.exists({str(slow)!r}):\n    sys.exit('p99 is 300 ms')\n"
    check = Check(tmp_path / "check", text)

    assert checks.forbids(check.command) == "--while check has not ended yet"
    check.runs()
    assert checks.forbids(check.command) is None
    slow.touch()
    check.runs()
    why = checks.forbids(check.command)
    assert why == "--while check ended with exit code 1: p99 is 300 ms"
    slow.unlink()
    check.runs()
    assert checks.forbids(check.command) is None


def test_one_that_hangs_is_killed_and_has_failed(tmp_path: Path) -> None:
    checks = WhileCommand(every_s=0.0, timeout_s=0.5)
    check = Check(tmp_path / "check", "import time\ntime.sleep(600)\n")
    checks.forbids(check.command)

    check.runs()

    assert checks.forbids(check.command) == "--while check took longer than 0.5 s and was killed"
    checks.forbids("")


def test_another_command_begins_anew_and_none_forbids_nothing(
    tmp_path: Path, checks: WhileCommand
) -> None:
    good, bad = Check(tmp_path / "good"), Check(tmp_path / "bad", "raise SystemExit(3)\n")
    checks.forbids(good.command)
    good.runs()

    assert checks.forbids(bad.command) == "--while bad has not ended yet"
    bad.runs()
    assert checks.forbids(bad.command) == "--while bad ended with exit code 3"
    assert checks.forbids("") is None


def test_one_that_cannot_be_read_forbids_steps(checks: WhileCommand) -> None:
    assert "closing quotation" in (checks.forbids("'open") or "")


def test_a_command_that_cannot_be_run_has_failed(tmp_path: Path) -> None:
    gone = [str(tmp_path / "gone")]

    assert run_command(gone, 1.0) == ("", "cannot be run: No such file or directory")


def test_what_goes_wrong_in_an_unknown_way_shuts_the_gate_and_the_command_is_run_again(
    monkeypatch: pytest.MonkeyPatch, checks: WhileCommand
) -> None:
    ends: Queue[str | Exception | None] = Queue()
    begun: Queue[None] = Queue()

    def runs(*_: object, **__: object) -> tuple[str, str | None]:
        begun.put(None)
        end = ends.get()
        if isinstance(end, Exception):
            raise end
        return "", end

    monkeypatch.setattr(operator_command, "run_command", runs)
    checks.forbids("check")
    begun.get()
    for end, why in (
        (None, None),
        (
            ValueError("40 is not a valid Signals"),
            "failed: ValueError('40 is not a valid Signals')",
        ),
        (None, None),
    ):
        ends.put(end)
        begun.get()
        assert checks.forbids("check") == (why and f"--while check {why}")
    checks.forbids("")
    ends.put(None)


def test_a_success_of_long_ago_lets_no_step_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = WhileCommand(every_s=5.0, timeout_s=10.0)
    ended = threading.Event()

    def succeeds(*_: object, **__: object) -> tuple[str, str | None]:
        ended.set()
        return "", None

    monkeypatch.setattr(operator_command, "run_command", succeeds)
    checks.forbids("check")
    ended.wait()
    while checks.forbids("check") is not None:
        pass
    now_s = time.monotonic()

    monkeypatch.setattr(time, "monotonic", lambda: now_s + 60.0)

    assert checks.forbids("check") == "--while check has given no answer for 1m"
    checks.forbids("")
