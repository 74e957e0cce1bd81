"""The view in a real terminal, on a real cluster: moves watched, and a run started from it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import delete_topics
from ktui.lab.layout import Lab
from support.kafka.slow_topic import SlowTopic, slow_move
from support.views.terminal import Terminal

ENTER, ESCAPE, DOWN = "\r", "\x1b", "\x1b[B"


@pytest.fixture
def topic(lab: Lab, topic_name: str) -> Iterator[SlowTopic]:
    topic = SlowTopic(lab, topic_name[-12:])
    yield topic
    topic.let_go()
    delete_topics(topic.connection, [topic.name])


def enter_until(terminal: Terminal, words: str) -> None:
    """Press enter until it goes on: while the preview is being computed, it does not."""

    def goes_on(text: str) -> bool:
        if words not in text:
            terminal.send(ENTER)
        return words in text

    terminal.wait_for(goes_on, why=words)


def test_a_run_is_started_and_changed_from_the_view_and_continues_without_it(
    lab: Lab, topic: SlowTopic, tmp_path: Path
) -> None:
    plan = tmp_path / "drain.json"
    plan.write_text(json.dumps({"version": 1, "partitions": topic.targets}), encoding="utf-8")
    state = str(tmp_path / "state")
    view = [sys.executable, "-m", "ktui", "watch", "--state-dir", state]
    view += ["--bootstrap-server", lab.bootstrap_servers]

    with Terminal([*view, "--write"], columns=150, rows=45) as terminal:
        terminal.wait_for("Nothing is being reassigned")
        terminal.send("n")
        terminal.wait_for("plan's file")
        terminal.send(f"{plan}{ENTER}")
        terminal.wait_for("The plan is read")
        terminal.send(ENTER)
        terminal.wait_for("▸2 limits")
        terminal.send(DOWN)
        terminal.wait_for("partitions begun but not ended")
        terminal.send(f"1{ENTER}")
        terminal.wait_for("▸3 throttle")
        terminal.send(ENTER)
        terminal.wait_for("▸4 check")
        enter_until(terminal, "▸5 start")
        terminal.send(f"drain{ENTER}")
        terminal.wait_for("RUNNING")
        terminal.wait_for("step 1/2")
        terminal.send("l")
        terminal.wait_for("limits of run drain")
        terminal.send(DOWN)
        terminal.wait_for("P partitions: partitions begun")
        terminal.send(f"2{ENTER}")
        terminal.wait_for("in force: they bind from decision")
        terminal.send(ESCAPE)
        terminal.wait_for("l limits")  # among the keys, once no dialog is open
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        assert b"Run drain goes on without it" in terminal.output

    with Terminal(view, columns=150, rows=45) as terminal:
        terminal.wait_for("READ-ONLY")
        terminal.wait_for("Attached to run drain.")
        topic.let_go()
        terminal.wait_for("ENDED")
        terminal.wait_for("done 4/4")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


LIST = "─ partitions 1"
UNITS = {"": 1.0, "k": 1e3, "M": 1e6}
RETURN, LEAVE_ALTERNATE_SCREEN, SHOW_CURSOR = "\r", b"\x1b[?1049l", b"\x1b[?25h"


def lag_on(screen: str, partition: str) -> float | None:
    """Read the lag of a partition in messages: in its row, or under it where that is too narrow."""
    for line in screen.splitlines():
        if partition in line or "└ lag" in line:
            found = re.search(r"([\d.]+) ?([kM]?) msg", line)
            if found is not None:
                return float(found[1]) * UNITS[found[2]]
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

        terminal.send(RETURN)
        detail = terminal.wait_for(
            lambda text: "next leader" in text and "in sync" in text and LIST not in text,
            why="the detail with its lanes",
        )
        assert str(tp) in detail

        terminal.send("\x1b")
        terminal.wait_for(LIST, why="the list again")
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
