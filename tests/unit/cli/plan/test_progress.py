"""`ktui progress` shows how far each replica of a plan is (KIP-179)."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cli.plan.progress import status_text
from ktui.cluster.partition import TopicPartition
from ktui.progress.summary import ReplicaProgress, ReplicaStatus
from support.cli.plan_sandbox import PlanSandbox, answer
from support.simulated.moving_clusters import a_cluster


def progress(*arguments: str) -> Result:
    return CliRunner().invoke(ktui, ["progress", *arguments])


@pytest.fixture
def plan(plan_sandbox: PlanSandbox) -> str:
    """Return a plan of which orders-0 has begun to move to broker 4."""
    plan_sandbox.cluster(a_cluster(moving=["orders-0"], resting=["orders-1"], messages=10_000))
    return plan_sandbox.plan(orders_0=(4, 2), orders_1=(1, 5, 77), orders_7=(1,), nothing_0=(1,))


def test_each_replica_has_a_line_with_its_status(plan: str) -> None:
    result = progress(plan)

    assert result.exit_code == 0, result.output
    header, *rows = (line.split("  ") for line in result.stdout.splitlines())
    assert header[0] == "Topic"
    shown = [[cell.strip() for cell in row if cell.strip()][:4] for row in rows]
    behind = shown.pop(0)
    assert behind[:3] == ["orders", "0", "4"]
    assert behind[3].startswith("Behind: ")
    assert behind[3].endswith(" messages behind")
    assert shown == [
        ["orders", "0", "2", "In sync"],
        ["orders", "1", "1", "In sync"],
        ["orders", "1", "5", "Broker does not host this partition"],
        ["orders", "1", "77", "Unknown broker"],
        ["orders", "7", "1", "Unknown partition"],
        ["nothing", "0", "1", "Unknown topic"],
    ]


def test_json_names_each_replica_and_leaves_out_nothing(plan: str) -> None:
    shown = answer(progress(plan, "--json"))

    assert list(shown) == ["schema_version", "cluster", "at", "replicas"]
    behind, in_sync, *_ = shown["replicas"]
    assert (behind["broker"], behind["status"]) == (4, "Behind")
    assert 0 < behind["messages"] <= 10_000
    assert in_sync == {
        "topic": "orders",
        "partition": 0,
        "broker": 2,
        "status": "In sync",
        "messages": None,
        "bytes": None,
        "rate_bytes_s": None,
        "left_s": None,
    }


def test_watching_ends_once_all_is_in_sync(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))

    result = progress(plan_sandbox.plan(orders_0=(3, 2, 1)), "--watch", "--json")

    assert [each["status"] for each in answer(result)["replicas"]] == ["In sync"] * 3


def test_a_lag_that_could_not_be_read_is_said_to_be_unknown() -> None:
    behind = ReplicaProgress(
        tp=TopicPartition("orders", 0), broker=4, status=ReplicaStatus.BEHIND, messages=None
    )

    assert status_text(behind) == "Behind: an unknown number of messages behind"
