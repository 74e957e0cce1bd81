"""The JSON of a preview is a contract: each verb prints what its golden file has."""

from __future__ import annotations

import json

import pytest

from support.cli.golden import GOLDEN, assert_golden
from support.cli.made_plan import cluster, plan
from support.cli.plan_sandbox import PlanSandbox, check
from support.cli.start_sandbox import StartSandbox
from support.simulated.moving_clusters import a_cluster


def test_plan_check_prints_the_preview_itself(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    file = plan_sandbox.plan(orders_0=(4, 2, 3, 5))

    result = check(file, "--json", "--steps")

    assert result.exit_code == 2
    assert_golden("check", result.stdout, file)


def test_a_dry_run_prints_the_same_preview_with_its_batches(sandbox: StartSandbox) -> None:
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    file = sandbox.plan(orders_0=(4, 2, 3))

    result = sandbox.start(file, "--dry-run", "--json", "--throttle", "10MB")

    assert_golden("dry-run", result.stdout, file)


def test_a_plan_that_is_made_comes_with_the_same_preview(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(cluster())

    result = plan("drain", "3", "--topics", "payments", "--max-moves", "1", "--json")

    assert result.exit_code == 3, result.output
    assert_golden("drain", result.stdout, "drain-3.json")


@pytest.mark.parametrize("name", ["check", "dry-run", "drain", "add"])
def test_every_preview_has_the_keys_of_a_check(name: str) -> None:
    shown = json.loads((GOLDEN / f"{name}.json").read_text())
    keys = json.loads((GOLDEN / "check.json").read_text()).keys() - {"partitions"}

    assert keys <= shown.get("preview", shown).keys()
