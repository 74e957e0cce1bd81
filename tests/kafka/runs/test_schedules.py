"""Runs on real brokers that are killed and suspended while operators change their minds."""

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
"""The first, and how many of them; all take more than an hour."""


@pytest.fixture
def three_of_each(tmp_path: Path) -> Iterator[Lab]:
    """Three controllers and three brokers, whose clients have to log in again every 5 s."""
    yield from a_lab(tmp_path / "lab", WANTED)


@pytest.mark.soak
@pytest.mark.kafka
def test_whatever_breaks_and_whatever_is_asked_nothing_is_lost_and_every_rule_is_kept(
    three_of_each: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, count = map(int, SCHEDULES.split())
    soak = Soak(three_of_each, tmp_path)
    for number in range(first, first + count):
        told = soak.played(number)
        with capsys.disabled():
            print("\n".join(in_words(told)), flush=True)

    problems = [f"{told.number}: {each}" for told in soak.verdicts for each in told.problems]
    assert not problems, "\n".join(problems)
    assert not soak.late()
    if count >= COUNT:
        assert not never_fired(soak.verdicts)
