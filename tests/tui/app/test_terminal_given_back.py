"""However the live view ends, it restores the terminal."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from support.views.terminal import Terminal

LEAVE_ALTERNATE_SCREEN, SHOW_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"


def test_a_view_ends_when_its_terminal_is_gone_even_without_a_signal() -> None:
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", "127.0.0.1:1"]
    with Terminal(command) as terminal:
        terminal.wait_for("connection refused")

        terminal.hang_up()

        assert terminal._process.wait(timeout=60) == -signal.SIGHUP


def test_a_demo_that_is_hung_up_leaves_no_folder_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ktui", "demo"]
    with Terminal(command, env={"TMPDIR": str(tmp_path)}) as terminal:
        terminal.wait_for("SIMULATED")
        assert list(tmp_path.glob("ktui-demo-*"))

        terminal.hang_up()

        assert terminal._process.wait(timeout=60) == -signal.SIGHUP
    assert not list(tmp_path.glob("ktui-demo-*"))


def test_a_view_terminated_by_another_process_restores_the_terminal() -> None:
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", "127.0.0.1:1"]
    with Terminal(command) as terminal:
        terminal.wait_for("connection refused")
        os.kill(terminal._process.pid, signal.SIGTERM)
        terminal.wait_for_exit()

        assert terminal.attributes == terminal.attributes_before
        assert LEAVE_ALTERNATE_SCREEN in terminal.output
        assert SHOW_CURSOR in terminal.output
