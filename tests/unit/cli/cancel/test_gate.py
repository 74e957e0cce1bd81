"""The cancel gate on the command line: who meets it is told who shut it and how it is opened."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.host.state_dir import StateDir
from support.cli.cancelled_run import CancelledRun
from support.cli.plan_desk import Desk
from support.cli.start_desk import Office
from support.journals.journals import CLUSTER, a_start, written
from support.simulated.moving_clusters import a_cluster

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
WHO = "ada@ops1 (4711)"


def shut(state: StateDir, cluster_id: str = "simulated") -> CancelGateFile:
    gate = CancelGateFile(state, cluster_id)
    gate.shut(AT, WHO, "stop all of run drain")
    return gate


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CancelledRun:
    return CancelledRun(tmp_path, monkeypatch)


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    state = StateDir(tmp_path / "state")
    written(state.create_run("drain").journal, a_start()).close()
    return state


def call(state: StateDir, *words: str) -> str:
    result = CliRunner().invoke(ktui, [*words, "--state-dir", str(state.path)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_it_is_opened_by_the_name_of_a_run_without_asking_the_cluster(here: StateDir) -> None:
    gate = shut(here, CLUSTER)

    opened = call(here, "cancel", "drain", "--remove-cancel")
    again = call(here, "cancel", "drain", "--remove-cancel")

    named = f"the cancel gate of cluster {CLUSTER}"
    assert opened.startswith(f"{named} is now open. It was shut by {WHO}")
    assert again == f"{named} was already open\n"
    assert gate.state() is None


def test_it_is_opened_by_naming_the_cluster(left: CancelledRun) -> None:
    gate = shut(left.state)

    opened = left.cancel("--cluster", "--remove-cancel", "--bootstrap-server", "b1:9092")

    assert opened.exit_code == 0, opened.output
    assert "cluster simulated is now open. It was shut by ada@ops1" in opened.stdout
    assert gate.state() is None


def test_scripts_are_told_who_had_shut_it(here: StateDir) -> None:
    shut(here, CLUSTER)

    opened = json.loads(call(here, "cancel", "drain", "--remove-cancel", "--json"))
    again = json.loads(call(here, "cancel", "drain", "--remove-cancel", "--json"))

    assert opened["had_shut"] == {
        "cluster_id": CLUSTER,
        "at": "2026-11-21T14:00:00.000Z",
        "who": WHO,
        "reason": "stop all of run drain",
    }
    assert again["had_shut"] is None


def test_nothing_is_started_while_it_is_shut(office: Office) -> None:
    shut(office.state)

    refused = office.refusal(office.plan(), "--bootstrap-server", "b1:9092")

    assert refused.startswith("nothing new is begun: the cancel gate of cluster simulated is shut")
    assert WHO in refused
    command = "ktui cancel --cluster --bootstrap-server b1:9092 --remove-cancel"
    assert f"Open it with: {command} --state-dir {office.state.path}" in refused
    assert office.runs == []


def test_a_dry_run_warns_of_it(office: Office) -> None:
    shut(office.state)

    told = office.start(office.plan(), "--dry-run")

    assert told.exit_code == 0
    assert "warning: nothing new is begun: the cancel gate of cluster simulated" in told.stdout


def test_the_check_of_a_plan_warns_of_it(desk: Desk, tmp_path: Path) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    state = StateDir(tmp_path / "state")
    words = ("plan", "check", desk.plan(orders_0=(4, 2, 3)), "--context", "prod")

    before = call(state, *words)
    shut(state)
    after = call(state, *words)
    found = json.loads(call(state, *words, "--json"))["warnings"]

    assert "cancel gate" not in before
    assert f"shut, by {WHO}" in after
    assert "ktui cancel --cluster --context prod --remove-cancel" in after
    assert "cancel gate shut" in [finding["kind"] for finding in found]


def test_a_run_is_resumed_under_it_and_told_that_it_waits(left: CancelledRun) -> None:
    shut(left.state)
    seen = []
    left.carry_on = lambda: seen.append("carried on")  # type: ignore[method-assign]

    told = CliRunner().invoke(ktui, ["resume", "drain", "--state-dir", str(left.state.path)])

    assert "Until then only cancels are submitted" in told.stderr
    assert "ktui cancel drain --remove-cancel" in told.stderr
    assert seen == ["carried on"]


def test_runs_and_status_show_it_with_the_command_that_opens_it(here: StateDir) -> None:
    shut(here, CLUSTER)
    opens = f"ktui cancel drain --remove-cancel --state-dir {here.path}"

    table, status = call(here, "runs"), call(here, "status", "drain")

    for text in (table, status):
        assert f"shut, by {WHO}" in text
        assert opens in text
    (gate,) = json.loads(call(here, "runs", "--json"))["cancel_gates"]
    assert gate == json.loads(call(here, "status", "drain", "--json"))["cancel_gate"]
    assert gate["who"] == WHO


def test_the_gate_of_another_cluster_is_no_matter_of_a_run(here: StateDir) -> None:
    shut(here, "another")

    assert "gate" not in call(here, "runs")
    assert json.loads(call(here, "status", "drain", "--json"))["cancel_gate"] is None
