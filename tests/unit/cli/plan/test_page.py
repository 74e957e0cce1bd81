"""docs/plans.md shows what `ktui plan check` actually prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cli.plan_sandbox import PlanSandbox, check
from support.simulated.moving_clusters import a_cluster

PAGE = (Path(__file__).parents[4] / "docs" / "plans.md").read_text(encoding="utf-8")


def shown_below(first_line: str) -> str:
    """Return the output that the page shows below a command."""
    found = re.search(rf"```\n\$ {re.escape(first_line)}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_plan_check_prints_the_answer_that_the_page_shows(
    plan_sandbox: PlanSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    plan_sandbox.cluster(
        a_cluster(
            {"orders": orders, "payments": [(1, 2, 3)], "audit": [(1, 2)]}, brokers=range(1, 6)
        )
    )
    monkeypatch.chdir(tmp_path)
    plan = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert plan is not None
    Path("plan.json").write_text(plan[1], encoding="ascii")

    result = check("plan.json", "--steps")

    assert result.stdout == shown_below("ktui plan check plan.json --context prod-eu --steps")


def test_plan_check_prints_the_mistakes_that_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text(
        '{"version": 1, "partitions": [\n'
        '  {"topic": "orders", "partition": 0, "replica": [4, 2, 3]},\n'
        '  {"topic": "orders", "partition": 1, "replicas": [2, 2, 4]},\n'
        "]}\n",
        encoding="ascii",
    )

    assert check("bad.json").stderr == shown_below("ktui plan check bad.json")
