"""docs/intents.md shows what `ktui plan drain` prints, and names every verb that makes a plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktui.cli.plan.make import COMMANDS
from support.cli.made_plan import cluster, plan
from support.cli.plan_sandbox import PlanSandbox

PAGE = (Path(__file__).parents[4] / "docs" / "intents.md").read_text(encoding="utf-8")


def test_plan_drain_prints_the_summary_that_the_page_shows(
    plan_sandbox: PlanSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_sandbox.cluster(cluster())
    monkeypatch.chdir(tmp_path)
    shown = re.search(r"```\n\$ ktui plan (drain [^\n]+)\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None

    result = plan(*shown[1].split())

    assert (result.exit_code, result.stderr) == (3, shown[2])


@pytest.mark.parametrize("verb", [command.name for command in COMMANDS])
def test_the_page_says_what_each_verb_promises(verb: str) -> None:
    assert f"| `ktui plan {verb}" in PAGE
    assert re.search(rf"\*\*`{verb}[ `]", PAGE)
