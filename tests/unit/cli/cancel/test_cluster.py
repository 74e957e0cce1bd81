"""`ktui cancel --cluster`: the reassignments of others are listed, cancelled and watched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.context.errors import BadInput
from ktui.execution.errors import RunProblem
from ktui.simulated import layout
from support.cli.cancel_sandbox import CancelSandbox, lines, parsed, rows
from support.simulated.moving_clusters import move, tp

OFF_3 = (1, 2, 4)


class SlowWriter:
    """A writer whose cancels take a minute to arrive."""

    def __init__(self, sandbox: CancelSandbox) -> None:
        self._writer, self._clock = sandbox.cluster.writer(), sandbox.clock

    async def alter_reassignments(self, targets: Any, **how: Any) -> Any:
        await self._clock.sleep(60.0)
        return await self._writer.alter_reassignments(targets, **how)

    async def aclose(self) -> None:
        await self._writer.aclose()


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CancelSandbox:
    return CancelSandbox(tmp_path, monkeypatch)


def test_reassignments_of_others_are_listed_one_by_one_and_cancelled(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0", "orders-1")
    sandbox.others_move("payments-1", target=(5, 6, 7))

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 0, result.output
    printed = lines(result)
    assert "orders-0 not known 2,3,1 4,2,3" in printed
    assert "payments-1 not known 1,2,3 5,6,7" in printed
    assert "orders-0 stopped 2,3,1 3" in printed
    assert "payments-1 stopped 1,2,3 3" in printed
    assert printed[-1] == "3 reassignments: 3 stopped"
    assert not sandbox.moving


def test_what_others_move_from_to_or_on_a_broker_is_cancelled_and_nothing_else(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")  # 2,3,1 to 4,2,3
    sandbox.others_move("payments-1", target=(5, 6, 7))  # from 1,2,3

    result = sandbox.cancel("--stop", "--broker", "4")

    assert result.exit_code == 0, result.output
    assert "1 reassignment: 1 stopped" in lines(result)[-1]
    assert sandbox.moving == {"payments-1"}


def test_a_broker_that_has_nothing_to_do_with_a_live_run_cancels_nothing_of_it(
    sandbox: CancelSandbox,
) -> None:
    run = sandbox.live("drain", {"orders-0": (4, 2, 3)})
    sandbox.others_move("payments-1", target=(5, 6, 7))

    sandbox.cancel("--stop", "--broker", "7")

    assert run.run.tracks[tp("orders-0")].cancel is None
    assert "payments-1" not in sandbox.moving


def test_a_broker_that_the_cluster_does_not_have_is_refused(sandbox: CancelSandbox) -> None:
    refused = sandbox.cancel("--stop", "--broker", "99")

    assert isinstance(refused.exception, BadInput)
    assert "the cluster does not have broker 99" in str(refused.exception)


def test_only_the_named_topics_and_partitions_are_cancelled(sandbox: CancelSandbox) -> None:
    sandbox.others_move("orders-0", "orders-1", "payments-0", "payments-1")

    answer = parsed(
        sandbox.cancel("--stop", "--topic", "payments", "--partition", "orders:1", "--json")
    )

    assert rows(answer, "outcome") == [
        ("orders-1", "stopped"), ("payments-0", "stopped"), ("payments-1", "stopped"),
    ]  # fmt: skip
    assert sandbox.moving == {"orders-0"}
    assert sandbox.gate.state() is None


def test_json_holds_the_replicas_before_and_after_and_the_outcome(sandbox: CancelSandbox) -> None:
    sandbox.others_move("orders-2", target=(5, 2, 3, 6))

    answer = parsed(sandbox.cancel("--stop", "--all", "--json"))

    assert list(answer) == [
        "schema_version", "cluster", "cluster_id", "kind", "dry_run", "shuts_gate", "partitions",
        "runs", "begun_meanwhile", "interrupted", "problem",
    ]  # fmt: skip
    (partition,) = answer["partitions"]
    assert partition | {"topic_id": None} == {
        "topic": "orders", "topic_id": None, "partition": 2, "run": None, "live": False,
        "from": [2, 3, 1], "to": [5, 2, 3, 6], "refused": None, "danger": None,
        "outcome": "stopped", "replicas": [2, 3, 1], "detail": "",
    }  # fmt: skip


def test_a_dry_run_of_a_cluster_cancel_lists_reassignments_and_changes_nothing(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")
    sandbox.live("drain", {"payments-0": OFF_3})

    result = sandbox.cancel("--stop", "--all", "--dry-run")

    assert result.exit_code == 0
    printed = lines(result)
    assert "orders-0 not known 2,3,1 4,2,3" in printed
    assert "run drain cancels its own partitions: 1 in flight is cancelled" in printed
    assert printed[-1] == "nothing was sent"
    assert "would be shut" in result.stdout
    assert sandbox.moving == {"orders-0", "payments-0"}
    assert sandbox.gate.state() is None
    assert not sandbox.log


def test_cancelling_all_shuts_the_cancel_gate_and_shows_how_to_open_it(
    sandbox: CancelSandbox,
) -> None:
    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 0
    shut = sandbox.gate.state()
    assert shut is not None
    assert shut.reason == "stop everything on the cluster"
    assert "ktui cancel --cluster --remove-cancel --state-dir" in result.stdout
    assert lines(result)[2] == "nothing is being reassigned"


def test_a_rollback_warns_that_the_original_replica_order_is_unknown(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")

    result = sandbox.cancel("--rollback", "--partition", "orders:0")

    assert result.exit_code == 0
    assert "Kafka has forgotten the order from before the reassignment" in result.stdout
    assert "For these, a rollback is no more than a cancel" in result.stdout
    assert not sandbox.moving


def test_cancels_of_others_reassignments_are_logged_before_and_after(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0", "orders-1")

    sandbox.cancel("--stop", "--partition", "orders:0")
    sandbox.cancel("--stop", "--all")

    parsed = [
        (line["partition"], line["outcome"], line["from"], line["to"]) for line in sandbox.log
    ]
    assert parsed == [
        (n, outcome, [2, 3, 1], [4, 2, 3]) for n in (0, 1) for outcome in ("asked", "stopped")
    ]
    assert all("@" in line["who"] for line in sandbox.log)
    assert sandbox.log[1]["replicas"] == [2, 3, 1]


def test_a_cancel_that_would_drop_the_last_in_sync_replica_is_refused_with_the_reason(
    sandbox: CancelSandbox,
) -> None:
    for slow in (5, 6):
        sandbox.cluster.do(layout.Slow(slow, 0.01))
    sandbox.others_move("orders-0", target=(4, 5, 6))
    sandbox.clock.pass_time(25.0)
    for broker in (1, 2, 3):
        sandbox.cluster.do(layout.Kill(broker))
        sandbox.clock.pass_time(15.0)

    answer = parsed(sandbox.cancel("--stop", "--partition", "orders:0", "--json"), 3)

    (partition,) = answer["partitions"]
    assert partition["outcome"] == "refused"
    assert "no replica would be in sync" in partition["refused"]
    assert sandbox.moving == {"orders-0"}
    assert not sandbox.log


def test_a_cancel_below_min_isr_warns_and_proceeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {"min.insync.replicas": "3"}
    sandbox = CancelSandbox(tmp_path, monkeypatch, configs=configs, messages=100_000)
    sandbox.others_move("orders-0", target=(1, 2, 4))
    sandbox.cluster.do(layout.Kill(3))
    sandbox.clock.pass_time(20.0)

    result = sandbox.cancel("--stop", "--partition", "orders:0")

    assert result.exit_code == 0, result.output
    assert "2 would stay in sync, fewer than min.insync.replicas (3)" in result.stdout
    assert not sandbox.moving


def test_a_reassignment_that_completes_before_the_cancel_is_reported_as_completed(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")
    sandbox.writer = lambda: SlowWriter(sandbox)  # type: ignore[assignment,return-value] # half of one

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 3
    assert "orders-0 completed 4,2,3 3 before the cancel arrived" in lines(result)


@pytest.mark.parametrize(
    "act", [layout.LoseAnswer(), layout.LoseRequest(), layout.DelayRequest(20.0)]
)
def test_a_lost_answer_to_a_cancel_is_settled_by_polling_again(
    sandbox: CancelSandbox, act: layout.OutsideEvent
) -> None:
    sandbox.others_move("orders-0", target=(5, 6, 7))
    sandbox.cluster.do(layout.Slow(5, 0.01))
    sandbox.cluster.do(act)

    answer = parsed(sandbox.cancel("--stop", "--all", "--json"))

    assert rows(answer, "outcome", "replicas") == [("orders-0", "stopped", [1, 2, 3])]
    assert not sandbox.moving


def test_reassignments_that_others_start_meanwhile_are_reported_and_left_alone(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")
    sandbox.schedule(4.0, move("orders-1", 4, 2, 3))
    sandbox.cluster.do(layout.LoseAnswer())

    result = sandbox.cancel("--stop", "--topic", "orders")

    assert result.exit_code == 3
    assert (
        "begun by others meanwhile, and not cancelled: orders-1. Run this command again"
        in result.stdout
    )
    assert sandbox.cancel("--stop", "--topic", "orders").exit_code == 0


def test_losing_the_cluster_during_a_cancel_leaves_its_outcome_unknown(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0", target=(5, 6, 7))
    sandbox.cluster.do(layout.LoseRequest())
    sandbox.schedule(5.0, *map(layout.Kill, range(1, 10)))

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 3, result.exception
    assert "orders-0 unknown - - its end was not seen. Check it: ktui list" in lines(result)


def test_an_interrupt_warns_that_sent_cancels_still_take_effect(
    sandbox: CancelSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.others_move("orders-0", "orders-1")
    sandbox.cluster.do(layout.DelayRequest(50.0))
    sleep, naps = sandbox.clock.sleep, []

    async def interrupted(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) > 8:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await sleep(seconds)

    monkeypatch.setattr(sandbox.clock, "sleep", interrupted)

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 130
    assert "interrupted: cancels already sent still take effect" in result.stdout
    assert [line["outcome"] for line in sandbox.log] == ["asked", "asked", "unknown", "unknown"]


def test_a_cancel_that_cannot_be_logged_is_not_sent(sandbox: CancelSandbox) -> None:
    sandbox.others_move("orders-0")
    (sandbox.state.path / "cancels.jsonl").mkdir(parents=True)

    result = sandbox.cancel("--stop", "--partition", "orders:0")

    assert isinstance(result.exception, RunProblem)
    assert "cancels.jsonl: cannot be written: Is a directory" in str(result.exception)
    assert sandbox.moving == {"orders-0"}


def test_unknown_topics_and_partitions_are_named_and_nothing_is_sent(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")

    result = sandbox.cancel("--stop", "--topic", "ordres", "--partition", "orders:9")

    assert isinstance(result.exception, BadInput)
    assert "topic 'ordres'" in str(result.exception)
    assert "partition 9 of topic 'orders'" in str(result.exception)
    assert sandbox.moving == {"orders-0"}


def test_naming_a_partition_that_is_not_moving_is_no_error(sandbox: CancelSandbox) -> None:
    sandbox.others_move("orders-0")

    result = sandbox.cancel("--stop", "--partition", "orders:1")

    assert result.exit_code == 0
    assert lines(result)[0] == "nothing in the scope you gave is being reassigned"
    assert sandbox.moving == {"orders-0"}


def test_a_read_only_context_refuses_a_cluster_cancel_and_allows_a_dry_run(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0")
    sandbox.read_only = True

    refused = sandbox.cancel("--stop", "--all")

    assert isinstance(refused.exception, BadInput)
    assert sandbox.moving == {"orders-0"}
    assert sandbox.cancel("--stop", "--all", "--dry-run").exit_code == 0
    assert sandbox.moving == {"orders-0"}


def test_a_cluster_cancel_without_a_scope_does_nothing(sandbox: CancelSandbox) -> None:
    sandbox.others_move("orders-0")

    assert isinstance(sandbox.cancel("--stop").exception, BadInput)
    assert isinstance(sandbox.cancel("--trim", "--all").exception, BadInput)
    assert sandbox.moving == {"orders-0"}
