"""Runs on real brokers that are killed and suspended while operators issue commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.lab.layout import Lab
from support.kafka.labs import a_lab
from support.schedules.nodes import WANTED
from support.schedules.schedule import COUNT
from support.schedules.soak import Soak, in_words, never_fired

SCHEDULES = os.environ.get("KTUI_SCHEDULES", f"0 {COUNT}")
"""The first schedule and their number; all of them take more than an hour."""


@pytest.fixture
def three_of_each(tmp_path: Path) -> Iterator[Lab]:
    """Three controllers and three brokers whose clients must log in again every 5 s."""
    yield from a_lab(tmp_path / "lab", WANTED)


@pytest.mark.soak
@pytest.mark.kafka
def test_schedules_of_faults_and_commands_lose_nothing_and_break_no_rule(
    three_of_each: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, count = map(int, SCHEDULES.split())
    soak = Soak(three_of_each, tmp_path)
    for number in range(first, first + count):
        verdict = soak.played(number)
        with capsys.disabled():
            print("\n".join(in_words(verdict)), flush=True)

    problems = [f"{one.number}: {each}" for one in soak.verdicts for each in one.problems]
    assert not problems, "\n".join(problems)
    assert not soak.late()
    if count >= COUNT:
        assert not never_fired(soak.verdicts)
