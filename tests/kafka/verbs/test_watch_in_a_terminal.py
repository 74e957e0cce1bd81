"""An operator's session in a real terminal, on a real cluster, with a real move."""

from __future__ import annotations

import re
import sys

import pytest

from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.kafka.slow_topic import slow_move
from support.views.terminal import Terminal

UNITS = {"": 1.0, "k": 1e3, "M": 1e6}
ENTER, LEAVE_ALTERNATE_SCREEN, SHOW_CURSOR = "\r", b"\x1b[?1049l", b"\x1b[?25h"


def lag_on(screen: str, partition: str) -> float | None:
    """Read the lag of a partition's row, in messages."""
    for line in screen.splitlines():
        if partition in line:
            found = re.search(r"([\d.]+) ?([kM]?) msg", line)
            return None if found is None else float(found[1]) * UNITS[found[2]]
    return None


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=["80x24", "140x40"])
def test_a_session_shows_a_moves_falling_lag_and_lanes_and_restores_the_terminal(
    lab: Lab, topic_name: str, size: tuple[int, int]
) -> None:
    topic = topic_name[-12:]
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", lab.bootstrap_servers]
    with (
        slow_move(Connection.to(lab.bootstrap_servers), topic) as (tp, *_),
        Terminal(command, columns=size[0], rows=size[1]) as terminal,
    ):
        screen = terminal.wait_for(lambda text: lag_on(text, str(tp)), why="the move with its lag")
        row = next(line for line in screen.splitlines() if str(tp) in line)
        assert "+4" in row
        assert "-2" in row
        first = lag_on(screen, str(tp))
        assert first is not None
        terminal.wait_for(
            lambda text: (lag_on(text, str(tp)) or first) < first, why="the lag falling"
        )

        terminal.send(ENTER)
        detail = terminal.wait_for("adding", why="the detail with its lanes")
        assert str(tp) in detail
        assert "in sync" in detail

        terminal.send("\x1b")
        terminal.wait_for(lambda text: lag_on(text, str(tp)) is not None, why="the list again")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        assert terminal.attributes == terminal.attributes_before
        assert LEAVE_ALTERNATE_SCREEN in terminal.output
        assert SHOW_CURSOR in terminal.output


def test_ctrl_c_restores_the_terminal_like_q(lab: Lab) -> None:
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", lab.bootstrap_servers]
    with Terminal(command) as terminal:
        terminal.wait_for("Nothing is being reassigned")
        terminal.send("\x03")
        terminal.wait_for_exit()
        assert terminal.attributes == terminal.attributes_before
        assert LEAVE_ALTERNATE_SCREEN in terminal.output
