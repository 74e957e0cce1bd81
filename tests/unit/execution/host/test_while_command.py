"""The command of `--while`: no step begins before it has succeeded, nor while it fails."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from ktui.execution.host import operator_command
from ktui.execution.host.operator_command import WhileCommand, resolve_command, run_command


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
    assert run_command([str(tmp_path / "gone")], 1.0) == "cannot be run: No such file or directory"


def test_what_goes_wrong_in_an_unknown_way_shuts_the_gate_and_the_command_is_run_again(
    monkeypatch: pytest.MonkeyPatch, checks: WhileCommand
) -> None:
    ends: Queue[str | Exception | None] = Queue()
    begun: Queue[None] = Queue()

    def runs(*_: object) -> str | None:
        begun.put(None)
        end = ends.get()
        if isinstance(end, Exception):
            raise end
        return end

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
    monkeypatch.setattr(operator_command, "run_command", lambda *_: ended.set())
    checks.forbids("check")
    ended.wait()
    while checks.forbids("check") is not None:
        pass
    now_s = time.monotonic()

    monkeypatch.setattr(time, "monotonic", lambda: now_s + 60.0)

    assert checks.forbids("check") == "--while check has given no answer for 1m"
    checks.forbids("")
