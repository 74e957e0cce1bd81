"""The cancel gate on the command line: each refusal names who shut it and how to open it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.host.state_dir import StateDir
from support.cli.start_sandbox import PlanSandbox, StartSandbox
from support.journals.journals import a_start, written
from support.simulated.moving_clusters import a_cluster

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
WHO = "ada@ops1 (4711)"


def shut(state: StateDir, cluster_id: str = "simulated") -> CancelGateFile:
    gate = CancelGateFile(state, cluster_id)
    gate.shut(AT, WHO, "stop all of run drain")
    return gate


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    state = StateDir(tmp_path / "state")
    written(state.create_run("drain").journal, a_start()).close()
    return state


def call(state: StateDir, *words: str) -> str:
    result = CliRunner().invoke(ktui, [*words, "--state-dir", str(state.path)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_a_start_is_refused_while_the_cancel_gate_is_shut(sandbox: StartSandbox) -> None:
    shut(sandbox.state)

    refused = sandbox.refusal(sandbox.plan(), "--bootstrap-server", "b1:9092")

    assert refused.startswith("nothing new is begun: the cancel gate of cluster simulated is shut")
    assert WHO in refused
    command = "ktui cancel --cluster --bootstrap-server b1:9092 --remove-cancel"
    assert f"Open it with: {command} --state-dir {sandbox.state.path}" in refused
    assert sandbox.runs == []


def test_a_dry_run_of_a_start_warns_of_a_shut_cancel_gate(sandbox: StartSandbox) -> None:
    shut(sandbox.state)

    outcome = sandbox.start(sandbox.plan(), "--dry-run")

    assert outcome.exit_code == 0
    assert "warning: nothing new is begun: the cancel gate of cluster simulated" in outcome.stdout


def test_plan_check_warns_of_a_shut_cancel_gate(plan_sandbox: PlanSandbox, tmp_path: Path) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    state = StateDir(tmp_path / "state")
    words = ("plan", "check", plan_sandbox.plan(orders_0=(4, 2, 3)), "--context", "prod")

    before = call(state, *words)
    shut(state)
    after = call(state, *words)
    found = json.loads(call(state, *words, "--json"))["findings"]

    assert "cancel gate" not in before
    assert f"shut, by {WHO}" in after
    assert "ktui cancel --cluster --context prod --remove-cancel" in after
    assert "cancel gate shut" in [finding["kind"] for finding in found]


def test_runs_and_status_ignore_the_cancel_gate_of_another_cluster(here: StateDir) -> None:
    shut(here, "another")

    assert "gate" not in call(here, "runs")
    assert json.loads(call(here, "status", "drain", "--json"))["cancel_gate"] is None
