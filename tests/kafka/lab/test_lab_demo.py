"""`ktui lab demo`: a reassignment to watch, and nothing left of it afterwards."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.lab import layout, nodes
from ktui.lab.down import down
from ktui.lab.layout import Lab
from support.views.terminal import Terminal

pytestmark = pytest.mark.kafka


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "demo"
    yield folder
    if layout.exists(folder):
        down(layout.load(folder), keep=False)


def demo(folder: Path) -> Terminal:
    words = ["-m", "ktui", "lab", "demo", "--brokers", "4", "--dir", str(folder)]
    return Terminal([sys.executable, *words])


def seen_moving(terminal: Terminal, folder: Path) -> Lab:
    terminal.wait_for("filling the topic", seconds=180)
    terminal.wait_for(lambda text: "orders-0" in text and "payments-0" in text, seconds=120)
    return layout.load(folder)


def test_it_shows_a_reassignment_and_leaving_the_view_takes_the_lab_down(folder: Path) -> None:
    with demo(folder) as terminal:
        lab = seen_moving(terminal, folder)
        terminal.send("q")
        assert terminal.wait_for_exit(seconds=60) == 0
    assert nodes.running(lab) == {}
    assert not folder.exists()


def test_a_closed_terminal_takes_the_lab_down_too(folder: Path) -> None:
    with demo(folder) as terminal:
        lab = seen_moving(terminal, folder)
        os.kill(terminal._process.pid, signal.SIGHUP)
        assert terminal.wait_for_exit(seconds=60) == 128 + signal.SIGHUP
    assert nodes.running(lab) == {}
    assert not folder.exists()


def test_ctrl_c_while_it_is_set_up_takes_the_lab_down(folder: Path) -> None:
    with demo(folder) as terminal:
        terminal.wait_for("filling the topic", seconds=180)
        lab = layout.load(folder)
        os.killpg(terminal._process.pid, signal.SIGINT)
        assert terminal.wait_for_exit(seconds=60) == 130
    assert nodes.running(lab) == {}
    assert not folder.exists()
