"""The command of `--on-event` gets every notice, and can neither stop nor slow a run."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.host import operator_command
from ktui.execution.host.operator_command import (
    MOST_WAITING,
    CommandProblem,
    EventCommand,
    resolve_command,
)

LONG_S = 60.0


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

    def breaks(*_: object, **__: object) -> str | None:
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
