"""A run is started and changed from the view in a real terminal, and continues without it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.kafka.workload import delete_topics
from ktui.lab.layout import Lab
from support.kafka.slow_topic import SlowTopic
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
