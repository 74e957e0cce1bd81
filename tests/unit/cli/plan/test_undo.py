"""`ktui plan undo`: what a run has changed is put back, and what others have changed is left."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.execution.errors import RunRefused
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.start_sandbox import StartSandbox
from support.runs.engine_runs import PlannedRun
from support.simulated.moving_clusters import Replicas, a_cluster, move, tp

MOVED: dict[str, Replicas] = {"orders-0": (2, 3, 1), "orders-1": (4, 3, 2), "audit-0": (1, 3)}


@pytest.fixture
def cluster(sandbox: StartSandbox) -> SimulatedCluster:
    """A cluster on which run "drain" has moved three of four partitions to their end."""
    cluster = a_cluster({"orders": [(1, 2, 3)] * 3, "audit": [(3, 1)]}, messages=1_000)
    sandbox.cluster(cluster)
    folder = sandbox.state.create_run("drain").path
    targets = {tp(name): target for name, target in MOVED.items()}
    asyncio.run(PlannedRun(cluster, folder, targets, Limits(replicas=1)).to_its_end())
    return cluster


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(seconds)


def undo(sandbox: StartSandbox, *options: str) -> Result:
    words = ["plan", "undo", "drain", "--state-dir", str(sandbox.state.path), *options]
    return CliRunner().invoke(ktui, words)


def planned(result: Result, exit_code: int = 0) -> dict[str, list[int]]:
    """Return the targets of the plan that was printed."""
    assert result.exit_code == exit_code, (result.output, result.exception)
    partitions = json.loads(result.stdout)["partitions"]
    return {f"{each['topic']}-{each['partition']}": each["replicas"] for each in partitions}


@pytest.mark.usefixtures("cluster")
def test_the_plan_has_the_replicas_from_before_the_run_in_their_order(
    sandbox: StartSandbox,
) -> None:
    result = undo(sandbox)

    assert planned(result) == {"orders-0": [1, 2, 3], "orders-1": [1, 2, 3], "audit-0": [3, 1]}
    assert json.loads(result.stdout)["partitions"][0]["original_replicas"] == [2, 3, 1]
    assert result.stderr == ""


def test_what_others_have_changed_since_is_named_with_the_reason_and_left_out(
    sandbox: StartSandbox, cluster: SimulatedCluster
) -> None:
    cluster.do(move("orders-0", 3, 2, 1))
    cluster.do(layout.DeleteTopic("audit"))
    cluster.do(move("orders-1", 4, 3, 5))
    wait(cluster, 0.5)

    result = undo(sandbox)

    assert isinstance(result.exception, RunRefused)
    assert result.stderr.splitlines() == [
        "left as it is: orders-0: its replicas are 3,2,1 rather than 2,3,1",
        "left as it is: orders-1: it is being reassigned",
        "left as it is: audit-0: its topic was deleted",
    ]


def test_a_plan_that_leaves_something_out_has_an_exit_code_of_its_own(
    sandbox: StartSandbox, cluster: SimulatedCluster
) -> None:
    cluster.do(layout.DeleteTopic("audit"))
    wait(cluster, 0.5)

    assert [*planned(undo(sandbox), exit_code=3)] == ["orders-0", "orders-1"]


def test_what_is_as_before_already_is_not_in_the_plan(
    sandbox: StartSandbox, cluster: SimulatedCluster
) -> None:
    cluster.do(move("orders-0", 1, 2, 3))

    assert [*planned(undo(sandbox))] == ["orders-1", "audit-0"]
