"""A run that lacks a permission is refused with its name, before anything is created or sent."""

from __future__ import annotations

import pytest

from support.cli.plan_sandbox import PlanSandbox, answer, check, found
from support.cli.start_sandbox import StartSandbox
from support.simulated.moving_clusters import a_cluster

ON_BROKERS = [("cluster", "AlterConfigs")]


@pytest.mark.parametrize(
    ("not_granted", "permission"),
    [
        (ON_BROKERS, "AlterConfigs on the cluster is not granted to this principal"),
        ([("cluster", "DescribeConfigs")], "DescribeConfigs on the cluster is not granted"),
        ([("orders", "AlterConfigs")], "AlterConfigs on topic orders is not granted"),
        ([("orders", "DescribeConfigs")], "DescribeConfigs on topic orders is not granted"),
        ([("cluster", "Alter")], "Alter on the cluster is not granted"),
    ],
)
def test_a_throttled_start_that_lacks_a_permission_is_refused_with_its_name(
    sandbox: StartSandbox, not_granted: list[tuple[str, str]], permission: str
) -> None:
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=not_granted)

    result = sandbox.start(sandbox.plan(), "--throttle", "50MB")

    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if "not granted" in line]
    assert permission in line
    assert (
        f"Grant it with kafka-acls --add --operation {permission.split(maxsplit=1)[0]} --" in line
    )
    assert result.stderr.endswith("nothing was sent\n")
    assert sandbox.runs == []


def test_the_throttle_of_a_context_needs_the_same_permissions(sandbox: StartSandbox) -> None:
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=ON_BROKERS, throttle="50MB")

    assert sandbox.start(sandbox.plan()).exit_code == 2
    assert str(sandbox.start(sandbox.plan(), "--throttle", "none").exception) == (
        "no engine is to be started"
    )


def test_a_start_without_a_throttle_needs_no_permission_to_set_one(sandbox: StartSandbox) -> None:
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=ON_BROKERS)

    result = sandbox.start(sandbox.plan())

    assert str(result.exception) == "no engine is to be started"
    assert "not granted" not in result.stderr


def test_plan_check_reports_missing_permissions_to_a_user_who_may_not_start(
    plan_sandbox: PlanSandbox,
) -> None:
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))
    plan_sandbox.cluster(
        a_cluster({"orders": [(1, 2, 3)]}), not_granted=[*ON_BROKERS, ("cluster", "Alter")]
    )

    throttled = answer(check(plan, "--json", "--throttle", "50MB"), exit_code=2)
    plain = answer(check(plan, "--json"))

    assert [each["kind"] for each in found(throttled, "problem")] == ["throttle not permitted"]
    assert "not permitted" in [each["kind"] for each in found(throttled, "warning")]
    assert found(plain, "problem") == []
    (alter,) = [each for each in found(plain, "warning") if each["kind"] == "not permitted"]
    assert "this plan cannot be started" in alter["sentence"]


CANARY = ("--slo", "p99<150ms", "--canary", "--name", "night")


@pytest.mark.parametrize("lacking", [["Create"], ["Write", "Delete"]])
def test_a_start_whose_canary_lacks_a_permission_is_refused_before_anything_is_sent(
    sandbox: StartSandbox, lacking: list[str]
) -> None:
    not_granted = [("ktui-canary-night", operation) for operation in lacking]
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=not_granted)

    started = sandbox.start(sandbox.plan(), *CANARY)
    previewed = sandbox.start(sandbox.plan(), *CANARY, "--dry-run")

    options = " ".join(f"--operation {operation}" for operation in lacking)
    for words in (started.stderr, previewed.stdout):
        assert f"problem: {' and '.join(lacking)} on topic ktui-canary-night" in words
        assert f"kafka-acls --add {options} --topic ktui-canary- --resource-pattern" in words
    assert (started.exit_code, previewed.exit_code) == (2, 2)
    assert sandbox.runs == []


def test_a_start_whose_canary_has_no_use_of_its_topic_is_refused_with_the_reason(
    sandbox: StartSandbox,
) -> None:
    refusal = "POLICY_VIOLATION: topics have an owner"
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), canary_refusal=refusal)

    result = sandbox.start(sandbox.plan(), *CANARY)

    assert result.exit_code == 2
    assert f"problem: topic ktui-canary-night cannot be used: {refusal}" in result.stderr


def test_a_canary_without_an_objective_needs_no_permission_yet(sandbox: StartSandbox) -> None:
    not_granted = [("ktui-canary-drain", "Create")]
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=not_granted, canary=True)

    assert str(sandbox.start(sandbox.plan()).exception) == "no engine is to be started"


def test_plan_check_warns_of_a_canary_that_may_not_write(plan_sandbox: PlanSandbox) -> None:
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))
    topic = f"ktui-canary-{plan.rsplit('/', 1)[-1].removesuffix('.json')}"
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    plan_sandbox.cluster(cluster, not_granted=[(topic, "Write")])

    checked = answer(check(plan, "--json", "--slo", "p99<150ms", "--canary"))

    assert f"Write on topic {topic} is not granted" in " ".join(
        each["sentence"] for each in found(checked, "warning")
    )
