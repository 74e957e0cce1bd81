"""docs/rehearsing.md: its check of a pull request passes, and all events are in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from ktui.rehearsal.faults import FAULT_FORMS, parse_fault
from ktui.rehearsal.twin import load_twin
from support.cli.call_ktui import call_ktui

PAGE = (Path(__file__).parents[4] / "docs" / "rehearsing.md").read_text(encoding="utf-8")
TWIN, JOB = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
(PLAN,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
BREAKING = PAGE.split("## Breaking it")[1].split("\n## ")[0]
EVENTS = re.findall(r"^\| `([^`]+)` \|", BREAKING, re.MULTILINE)


@pytest.fixture
def twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod.yaml").write_text(TWIN, encoding="utf-8")
    (tmp_path / "plan.json").write_text(PLAN, encoding="utf-8")
    return tmp_path / "prod.yaml"


def test_the_documented_check_of_a_pull_request_passes_with_the_documented_twin(
    twin: Path,
) -> None:
    assert twin.exists()
    steps = yaml.safe_load(JOB)["jobs"]["rehearse"]["steps"]
    command = shlex.split(steps[-1]["run"])

    done = call_ktui(*command[1:])

    assert command[:2] == ["ktui", "rehearse"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": holds ") == 4


@pytest.mark.parametrize("event", EVENTS)
def test_every_documented_event_can_be_used(event: str, twin: Path) -> None:
    assert parse_fault(f"{event} at 10%", load_twin(twin).spec).acts


def test_every_event_is_documented() -> None:
    verbs = {form.split()[0] for form in FAULT_FORMS if form != "KEY TOPIC=VALUE"}

    assert verbs == {event.split()[0] for event in EVENTS} - {"min.insync.replicas"}
