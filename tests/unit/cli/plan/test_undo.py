"""Plans made of another plan, and of words."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cli.plan.progress import status_text
from ktui.cli.process import Launch, launch_new_run
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import AnyRunEvent, CancelAsked, Started, StateEntered
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.planning.read import read_plan
from ktui.progress.summary import ReplicaProgress, ReplicaStatus
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.start_sandbox import PlanSandbox, StartSandbox, answer
from support.journals.journals import a_start, over, started, step, written
from support.journals.journals import planned as journals_planned
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


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def entered(partition: int, state: State) -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state)


def remaining(here: StateDir, *more: AnyRunEvent, options: tuple[str, ...] = ()) -> Result:
    run = here.create_run("drain")
    written(run.journal, [*a_start(5), *more]).close()
    words = ["plan", "remaining", "drain", "--state-dir", str(here.path), *options]
    return CliRunner().invoke(ktui, words)


def test_plan_remaining_includes_stopped_and_rolled_back_partitions(here: StateDir) -> None:
    both = tuple(TopicPartition("orders", n) for n in (0, 1))
    events = (
        entered(2, State.DONE), entered(3, State.DONE), entered(4, State.DONE), step(0),
        CancelAsked(kind=CancelKind.ROLLBACK, partitions=both), over(0), entered(0, State.DONE),
    )  # fmt: skip

    done = remaining(here, *events)

    assert [each["partition"] for each in json.loads(done.stdout)["partitions"]] == [0, 1]


def rollback(here: StateDir, *more: AnyRunEvent, options: tuple[str, ...] = ()) -> Result:
    run = here.create_run("drain")
    written(run.journal, [*a_start(3), *more]).close()
    words = ["plan", "rollback", "drain", "--state-dir", str(here.path), *options]
    return CliRunner().invoke(ktui, words)


def entry(partition: int, replicas: list[int]) -> dict[str, object]:
    return {
        "topic": "orders",
        "partition": partition,
        "replicas": replicas,
        "original_replicas": replicas,
    }


def test_plan_rollback_lists_the_original_replicas_in_their_order(here: StateDir) -> None:
    moved_by_others = msgspec.structs.replace(step(1), before=(3, 2, 1))

    result = rollback(here, step(0), moved_by_others)

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "version": 1,
        "partitions": [entry(0, [1, 2, 3]), entry(1, [3, 2, 1]), entry(2, [1, 2, 3])],
    }


class Spawned(Exception):
    """An engine would have been started."""


def launch_run(here: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(*_: object) -> None:
        raise Spawned

    monkeypatch.setattr("ktui.cli.process.start_engine", spawn)
    launch = Launch(
        state=here, name="drain", cluster_id="id", names={}, until=None, concurrent=False
    )
    first: list[AnyRunEvent] = [started(2), journals_planned(2)]
    assert isinstance(first[0], Started)
    launch_new_run(launch, first)


def test_a_new_run_has_its_rollback_plan_before_its_engine_starts(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Spawned):
        launch_run(here, monkeypatch)

    plan = here.run("drain").rollback
    assert json.loads(plan.read_text())["partitions"] == [entry(0, [1, 2, 3]), entry(1, [1, 2, 3])]
    assert len(read_plan(plan).partitions) == 2


def test_a_run_whose_rollback_plan_cannot_be_written_is_not_created(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunProblem("rollback.json: cannot be written: No space left on device")

    monkeypatch.setattr("ktui.execution.host.launch.write_rollback", full)

    with pytest.raises(RunProblem, match="No space left"):
        launch_run(here, monkeypatch)

    assert here.run_dirs() == []


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
