"""`ktui cancel --cluster` beside runs: each run cancels its own partitions."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.foreign_cancels import ListedReassignment
from ktui.execution.host.ownership import this_process
from ktui.execution.run.events import CancelAsked
from ktui.execution.run.states import CancelKind, State
from ktui.ops.cancel import RunOnCluster
from ktui.pacing.limits import Limits
from support.cli.cancel_sandbox import CancelSandbox, lines, parsed, rows
from support.simulated.moving_clusters import tp

OFF_3 = (1, 2, 4)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CancelSandbox:
    return CancelSandbox(tmp_path, monkeypatch)


def test_a_live_run_rolls_back_its_own_partitions_in_flight(sandbox: CancelSandbox) -> None:
    run = sandbox.live("drain", {"orders-0": OFF_3, "orders-1": OFF_3})

    answer = parsed(sandbox.cancel("--rollback", "--topic", "orders", "--json"))

    assert [outcome for _, outcome in rows(answer, "outcome")] == ["rolling back"] * 2
    assert {track.cancel for track in run.run.tracks.values()} == {CancelKind.ROLLBACK}
    assert not sandbox.log


def test_partitions_of_a_run_outside_the_scope_keep_moving(sandbox: CancelSandbox) -> None:
    run = sandbox.live("drain", {"orders-0": OFF_3, "payments-0": OFF_3})

    parsed(sandbox.cancel("--stop", "--topic", "payments", "--json"))

    assert run.run.tracks[tp("orders-0")].cancel is None
    assert run.run.tracks[tp("payments-0")].state is State.STOPPED
    assert sandbox.moving == {"orders-0"}


def test_a_runs_partition_that_someone_else_moves_is_not_counted_as_the_runs(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0", target=(5, 2, 3))
    run = sandbox.live("drain", {"orders-0": OFF_3, "orders-1": OFF_3})

    answer = parsed(sandbox.cancel("--stop", "--all", "--json"))

    assert rows(answer, "run", "outcome") == [
        ("orders-0", None, "stopped"),
        ("orders-1", "drain", "stopped"),
    ]
    assert run.run.counts[State.STOPPED] == 2
    assert [line["partition"] for line in sandbox.log] == [0, 0]


def test_a_run_without_an_engine_is_left_the_command_and_its_steps_are_cancelled(
    sandbox: CancelSandbox,
) -> None:
    run = sandbox.waiting("drain", {f"orders-{n}": OFF_3 for n in range(4)})
    assert sandbox.moving == {"orders-0", "orders-1"}

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 0, result.output
    assert "orders-0 run drain 1,2,3 1,2,3,4" in lines(result)
    assert "takes effect when you resume the run: ktui resume drain" in result.stdout
    assert not sandbox.moving
    with run.opened() as journal:
        (asked,) = journal.asked()
    assert "orders" in str(asked.command)


def test_a_resumed_run_adopts_the_cancel_and_moves_the_rest(sandbox: CancelSandbox) -> None:
    run = sandbox.waiting("drain", {f"orders-{n}": OFF_3 for n in range(4)})
    parsed(sandbox.cancel("--stop", "--all", "--json"))

    asyncio.run(run.execute())

    states = [run.run.tracks[tp(f"orders-{n}")].state for n in range(4)]
    assert states == [State.STOPPED, State.STOPPED, State.DONE, State.DONE]
    (cancelled,) = [event for event in run.events if isinstance(event, CancelAsked)]
    assert cancelled.partitions == (tp("orders-0"), tp("orders-1"))


def test_a_run_whose_engine_dies_before_it_answers_is_reported(
    sandbox: CancelSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.others_move("payments-0")
    run = sandbox.waiting("drain", {"orders-0": OFF_3})
    holders = iter([this_process()])
    for module in ("ktui.execution.host.catalog", "ktui.ops.cancel"):
        monkeypatch.setattr(f"{module}.holder", lambda _: next(holders, None))

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 3
    assert "run drain: the engine ended before it answered" in result.stdout
    assert sandbox.moving == {"orders-0"}  # the run's own partition is left to the run
    with run.opened() as journal:
        assert len(journal.asked()) == 1


def test_a_cluster_rollback_leaves_a_runs_finished_partitions_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = CancelSandbox(tmp_path, monkeypatch, messages=2_000)
    targets = {"orders-0": OFF_3, "orders-1": OFF_3}
    run = sandbox.live("drain", targets, limits=Limits(replicas=1, partitions=1))

    parsed(sandbox.cancel("--rollback", "--all", "--json"))

    assert run.run.tracks[tp("orders-0")].state is State.DONE
    assert run.run.tracks[tp("orders-1")].cancel is CancelKind.ROLLBACK


def test_a_step_that_someone_else_retargeted_is_counted_as_theirs(sandbox: CancelSandbox) -> None:
    run = sandbox.waiting("drain", {"orders-0": OFF_3})
    sandbox.others_move("orders-0", target=(5, 2, 3))

    answer = parsed(sandbox.cancel("--stop", "--partition", "orders:0", "--json"))

    assert rows(answer, "run", "to", "outcome") == [("orders-0", None, [5, 2, 3], "stopped")]
    assert answer["runs"] == []
    with run.opened() as journal:
        assert not journal.asked()


def test_a_step_that_a_run_starts_after_its_journal_was_read_is_left_to_the_run(
    sandbox: CancelSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sandbox.live("drain", {"orders-0": OFF_3})
    find_own = RunOnCluster.find_own

    def find_nothing_in_flight(
        run: RunOnCluster, listed: Mapping[TopicPartition, ListedReassignment]
    ) -> None:
        find_own(run, listed)
        run.listed = {}

    monkeypatch.setattr(RunOnCluster, "find_own", find_nothing_in_flight)

    parsed(sandbox.cancel("--stop", "--all", "--json"))

    assert not sandbox.log
    assert run.run.tracks[tp("orders-0")].state is State.STOPPED
