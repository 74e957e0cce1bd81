"""Fixtures that the tests of the command line share."""

from pathlib import Path

import pytest

from support.cli.start_sandbox import PlanSandbox, StartSandbox


@pytest.fixture
def plan_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlanSandbox:
    return PlanSandbox(tmp_path, monkeypatch)


@pytest.fixture
def sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
) -> StartSandbox:
    def start(*_: object) -> None:
        raise AssertionError("no engine is to be started")

    monkeypatch.setattr("ktui.cli.process.start_engine", start)
    return StartSandbox(tmp_path, monkeypatch, plan_sandbox)
