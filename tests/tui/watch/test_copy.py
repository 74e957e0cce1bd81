"""`y` hands a partition to the clipboard, in the form that was chosen."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest

from ktui.tui.screens.questions import copy_text
from support.simulated.moving_clusters import a_cluster
from support.views.terminal import Terminal
from support.views.watching import SMALL, a_quiet_cluster, moved, watching, watching_run

STAND_IN = """#!/bin/sh
printf '%s\\n' "$*" > {folder}/arguments
cat > {folder}/buffer
exit {status}
"""


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TERM_PROGRAM", raising=False)


def in_tmux(folder: Path, monkeypatch: pytest.MonkeyPatch, *, status: int = 0) -> None:
    """Put the app into a tmux that keeps its buffer in a file."""
    tmux = folder / "tmux"
    tmux.write_text(STAND_IN.format(folder=folder, status=status))
    tmux.chmod(0o755)
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")  # noqa: S108 - only its presence counts
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def test_each_form_of_a_moving_partition_is_sent_to_the_terminal(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0"), size=SMALL) as watch:
        await watch.press("y")
        assert "copy a-0" in watch.text
        await watch.press("n")
        assert watch.app.clipboard == "a-0"
        assert "Sent to the terminal: 3 characters." in watch.text

        await watch.press("y", "j")
        copied = json.loads(watch.app.clipboard)
        assert copied["partition"] == 0
        assert copied["adding"] == [4]

        await watch.press("y", "down", "enter")
        assert watch.app.clipboard.split()[:3] == ["a-0", "step", "1/4"]

        await watch.press("enter", "y", "k")  # in the detail
        plan, command = watch.app.clipboard.splitlines()
        assert '"replicas": [4, 5, 6]' in plan
        assert command.startswith("kafka-reassign-partitions.sh --bootstrap-server ")
        assert command.endswith("--execute --reassignment-json-file move.json --additional")


async def test_a_settled_partition_has_no_command_and_y_says_so() -> None:
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "k")
        assert "Nothing moves it" in watch.text
        await watch.press("escape")
        assert not watch.app.clipboard


async def test_in_tmux_the_text_becomes_its_newest_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_tmux(tmp_path, monkeypatch)
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "n")
        await watch.until(lambda: "Sent to the terminal by tmux" in watch.text)
    assert (tmp_path / "arguments").read_text() == "load-buffer -w -\n"
    assert (tmp_path / "buffer").read_text() == "a-0"


async def test_what_would_drive_the_terminal_is_escaped_on_its_way_out() -> None:
    async with watching(a_cluster(resting=["a-0"])) as watch:
        await copy_text(watch.app, "a\x1b]0;b\u202e\nc")
        assert watch.app.clipboard == r"a\x1b]0;b\u202e" + "\nc"


async def test_an_old_tmux_without_that_option_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_tmux(tmp_path, monkeypatch, status=1)
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "n")
        await watch.until(lambda: "Sent to the terminal: 3 characters." in watch.text)
        assert watch.app.clipboard == "a-0"


async def test_a_terminal_that_takes_no_copies_shows_the_text_to_select_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "Apple_Terminal")
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "j")
        assert "this terminal does not let programs copy" in watch.text
        assert '"topic": "a"' in watch.text
        await watch.press("escape")
        assert not watch.app.clipboard


def test_the_bytes_that_reach_the_terminal_are_one_osc_52() -> None:
    story = [sys.executable, "-m", "ktui", "demo"]
    with Terminal(story, env={"TMUX": "", "TERM_PROGRAM": ""}) as terminal:
        terminal.wait_for("↵ detail")
        terminal.wait_for("▌")
        terminal.send("y")
        name = terminal.wait_for("copy ").split("copy ", 1)[1].split()[0]
        terminal.send("n")
        terminal.wait_for("Sent to the terminal")
        sequence = b"\x1b]52;c;" + base64.b64encode(name.encode()) + b"\a"
        assert terminal.output.count(sequence) == 1
