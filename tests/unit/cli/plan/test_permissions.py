"""A run that lacks a permission is refused by its name, before anything is made or sent."""

from __future__ import annotations

import pytest

from support.cli.plan_desk import Desk, answer, check
from support.cli.start_desk import Office
from support.simulated.moving_clusters import a_cluster

ON_BROKERS = [("cluster", "AlterConfigs")]


@pytest.mark.parametrize(
    ("not_granted", "named"),
    [
        (ON_BROKERS, "AlterConfigs on the cluster is not granted to this principal"),
        ([("cluster", "DescribeConfigs")], "DescribeConfigs on the cluster is not granted"),
        ([("orders", "AlterConfigs")], "AlterConfigs on topic orders is not granted"),
        ([("orders", "DescribeConfigs")], "DescribeConfigs on topic orders is not granted"),
        ([("cluster", "Alter")], "Alter on the cluster is not granted"),
    ],
)
def test_a_throttled_start_without_a_permission_for_it_is_refused_by_its_name(
    office: Office, not_granted: list[tuple[str, str]], named: str
) -> None:
    office.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=not_granted)

    told = office.start(office.plan(), "--throttle", "50MB")

    assert told.exit_code == 2
    (line,) = [line for line in told.stderr.splitlines() if "not granted" in line]
    assert named in line
    assert f"Grant it with kafka-acls --add --operation {named.split(maxsplit=1)[0]} --" in line
    assert told.stderr.endswith("nothing was sent\n")
    assert office.runs == []


def test_the_throttle_of_a_context_needs_the_same_permissions(office: Office) -> None:
    office.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=ON_BROKERS, throttle="50MB")

    assert office.start(office.plan()).exit_code == 2
    assert str(office.start(office.plan(), "--throttle", "none").exception) == (
        "no engine is to be started"
    )


def test_without_a_throttle_the_permissions_to_set_one_are_not_needed(office: Office) -> None:
    office.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=ON_BROKERS)

    told = office.start(office.plan())

    assert str(told.exception) == "no engine is to be started"
    assert "not granted" not in told.stderr


def test_a_check_tells_of_them_too_and_may_be_made_by_one_who_may_not_start(desk: Desk) -> None:
    plan = desk.plan(orders_0=(4, 2, 3))
    desk.cluster(
        a_cluster({"orders": [(1, 2, 3)]}), not_granted=[*ON_BROKERS, ("cluster", "Alter")]
    )

    throttled = answer(check(plan, "--json", "--throttle", "50MB"), exit_code=2)
    plain = answer(check(plan, "--json"))

    kinds = {key: [each["kind"] for each in throttled[key]] for key in ("problems", "warnings")}
    assert kinds["problems"] == ["not permitted"]
    assert "not permitted" in kinds["warnings"]
    assert plain["problems"] == []
    (alter,) = [each for each in plain["warnings"] if each["kind"] == "not permitted"]
    assert "this plan cannot be started" in alter["sentence"]
