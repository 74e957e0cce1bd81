"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.plan_desk import Desk
from support.cli.start_desk import Office


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk) -> Office:
    def start(*_: object) -> None:
        raise AssertionError("no engine is to be started")

    monkeypatch.setattr("ktui.cli.process.launch.start_engine", start)
    return Office(tmp_path, monkeypatch, desk)
