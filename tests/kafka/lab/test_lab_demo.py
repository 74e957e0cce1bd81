"""`ktui lab demo`: a reassignment to watch, and nothing left behind afterwards."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.lab import layout, nodes
from ktui.lab.up import down
from support.views.terminal import Terminal

WITHOUT_KAFKA = """
import signal
from ktui.cli import lab_demo as demo
from ktui.cli.main import main
from ktui.lab import layout
from support.kafka.labs import written_lab

def up(folder, *_):
    lab = written_lab(folder)
    folder.mkdir()
    layout.save(lab)
    return lab

def set_in_motion(lab, connection, report):
    report("filling the topic")
    if {waits}:
        signal.pause()

demo.up, demo._set_in_motion = up, set_in_motion
main()
"""
"""The demo with a lab of which only the files are there, and nothing put in motion on it."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "demo"
    yield folder
    if layout.exists(folder):
        down(layout.load(folder), keep=False)


def demo(folder: Path, *python: str) -> Terminal:
    words = ["lab", "demo", "--brokers", "4", "--dir", str(folder)]
    paths = os.pathsep.join(map(str, sys.path))
    return Terminal([sys.executable, *python, *words], env={"PYTHONPATH": paths})


@pytest.mark.kafka
def test_the_lab_demo_shows_a_reassignment_and_quitting_takes_the_lab_down(folder: Path) -> None:
    with demo(folder, "-m", "ktui") as terminal:
        terminal.wait_for("filling the topic", seconds=180)
        terminal.wait_for(lambda text: "orders-0" in text and "payments-0" in text, seconds=240)
        lab = layout.load(folder)
        terminal.send("q")
        assert terminal.wait_for_exit(seconds=60) == 0
    assert nodes.running(lab) == {}
    assert not folder.exists()


def test_a_closed_terminal_takes_the_lab_down_too(folder: Path) -> None:
    with demo(folder, "-c", WITHOUT_KAFKA.format(waits=False)) as terminal:
        terminal.wait_for("127.0.0.1")
        assert folder.exists()
        os.kill(terminal._process.pid, signal.SIGHUP)
        assert terminal.wait_for_exit(seconds=60) == 128 + signal.SIGHUP
    assert not folder.exists()


def test_ctrl_c_during_setup_takes_the_lab_down(folder: Path) -> None:
    with demo(folder, "-c", WITHOUT_KAFKA.format(waits=True)) as terminal:
        terminal.wait_for("filling the topic")
        assert folder.exists()
        os.killpg(terminal._process.pid, signal.SIGINT)
        assert terminal.wait_for_exit(seconds=60) == 130
    assert not folder.exists()
