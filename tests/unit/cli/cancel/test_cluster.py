"""`ktui cancel --cluster`: what others reassign is named, cancelled, watched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.context.errors import BadInput
from ktui.execution.errors import RunProblem
from ktui.simulated import events
from support.cli.cancel_office import CancelOffice, lines, rows, told
from support.simulated.moving_clusters import move

OFF_3 = (1, 2, 4)


class Late:
    """A writer whose cancels take a minute to arrive."""

    def __init__(self, office: CancelOffice) -> None:
        self._writer, self._clock = office.cluster.writer(), office.clock

    async def alter_reassignments(self, targets: Any, **how: Any) -> Any:
        await self._clock.sleep(60.0)
        return await self._writer.alter_reassignments(targets, **how)

    async def aclose(self) -> None:
        await self._writer.aclose()


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CancelOffice:
    return CancelOffice(tmp_path, monkeypatch)


def test_what_others_reassign_is_named_one_by_one_and_cancelled(office: CancelOffice) -> None:
    office.others_move("orders-0", "orders-1")
    office.others_move("payments-1", target=(5, 6, 7))

    result = office.cancel("--stop", "--all")

    assert result.exit_code == 0, result.output
    shown = lines(result)
    assert "orders-0 not known 2,3,1 4,2,3" in shown
    assert "payments-1 not known 1,2,3 5,6,7" in shown
    assert "orders-0 stopped 2,3,1 3" in shown
    assert "payments-1 stopped 1,2,3 3" in shown
    assert shown[-1] == "3 reassignments: 3 stopped"
    assert not office.moving


def test_only_what_is_named_is_cancelled(office: CancelOffice) -> None:
    office.others_move("orders-0", "orders-1", "payments-0", "payments-1")

    answer = told(
        office.cancel("--stop", "--topic", "payments", "--partition", "orders:1", "--json")
    )

    assert rows(answer, "outcome") == [
        ("orders-1", "stopped"), ("payments-0", "stopped"), ("payments-1", "stopped"),
    ]  # fmt: skip
    assert office.moving == {"orders-0"}
    assert office.gate.state() is None


def test_scripts_are_told_from_where_to_where_and_what_came_of_it(office: CancelOffice) -> None:
    office.others_move("orders-2", target=(5, 2, 3, 6))

    answer = told(office.cancel("--stop", "--all", "--json"))

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


def test_a_dry_run_names_them_and_changes_nothing(office: CancelOffice) -> None:
    office.others_move("orders-0")
    office.live("drain", {"payments-0": OFF_3})

    result = office.cancel("--stop", "--all", "--dry-run")

    assert result.exit_code == 0
    shown = lines(result)
    assert "orders-0 not known 2,3,1 4,2,3" in shown
    assert "run drain cancels its own partitions: 1 in flight is cancelled" in shown
    assert shown[-1] == "nothing was sent"
    assert "would be shut" in result.stdout
    assert office.moving == {"orders-0", "payments-0"}
    assert office.gate.state() is None
    assert not office.log


def test_all_shuts_the_cancel_gate_and_says_how_it_is_opened(office: CancelOffice) -> None:
    result = office.cancel("--stop", "--all")

    assert result.exit_code == 0
    shut = office.gate.state()
    assert shut is not None
    assert shut.reason == "stop everything on the cluster"
    assert "ktui cancel --cluster --remove-cancel --state-dir" in result.stdout
    assert lines(result)[2] == "nothing is being reassigned"


def test_a_roll_back_says_that_the_order_from_before_is_not_known(office: CancelOffice) -> None:
    office.others_move("orders-0")

    result = office.cancel("--rollback", "--partition", "orders:0")

    assert result.exit_code == 0
    assert "Kafka has forgotten the order from before the reassignment" in result.stdout
    assert "For these, a rollback is no more than a cancel" in result.stdout
    assert not office.moving


def test_what_was_done_to_others_is_written_down_before_and_after(office: CancelOffice) -> None:
    office.others_move("orders-0", "orders-1")

    office.cancel("--stop", "--partition", "orders:0")
    office.cancel("--stop", "--all")

    told = [(line["partition"], line["outcome"], line["from"], line["to"]) for line in office.log]
    assert told == [
        (n, outcome, [2, 3, 1], [4, 2, 3]) for n in (0, 1) for outcome in ("asked", "stopped")
    ]
    assert all("@" in line["who"] for line in office.log)
    assert office.log[1]["replicas"] == [2, 3, 1]


def test_the_last_replica_in_sync_is_kept_and_the_reason_told(office: CancelOffice) -> None:
    for slow in (5, 6):
        office.cluster.do(events.Slow(slow, 0.01))
    office.others_move("orders-0", target=(4, 5, 6))
    office.clock.pass_time(25.0)
    for broker in (1, 2, 3):
        office.cluster.do(events.Kill(broker))
        office.clock.pass_time(15.0)

    answer = told(office.cancel("--stop", "--partition", "orders:0", "--json"), 3)

    (partition,) = answer["partitions"]
    assert partition["outcome"] == "refused"
    assert "no replica would be in sync" in partition["refused"]
    assert office.moving == {"orders-0"}
    assert not office.log


def test_what_would_be_under_min_isr_is_said_and_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {"min.insync.replicas": "3"}
    office = CancelOffice(tmp_path, monkeypatch, configs=configs, messages=100_000)
    office.others_move("orders-0", target=(1, 2, 4))
    office.cluster.do(events.Kill(3))
    office.clock.pass_time(20.0)

    result = office.cancel("--stop", "--partition", "orders:0")

    assert result.exit_code == 0, result.output
    assert "2 would stay in sync, fewer than min.insync.replicas (3)" in result.stdout
    assert not office.moving


def test_what_completes_before_the_cancel_came_is_told_so(office: CancelOffice) -> None:
    office.others_move("orders-0")
    office.writer = lambda: Late(office)  # type: ignore[assignment,return-value] # half of one

    result = office.cancel("--stop", "--all")

    assert result.exit_code == 3
    assert "orders-0 completed 4,2,3 3 before the cancel arrived" in lines(result)


@pytest.mark.parametrize(
    "act", [events.LoseAnswer(), events.LoseRequest(), events.DelayRequest(20.0)]
)
def test_a_lost_answer_is_settled_by_looking_again(
    office: CancelOffice, act: events.OutsideEvent
) -> None:
    office.others_move("orders-0", target=(5, 6, 7))
    office.cluster.do(events.Slow(5, 0.01))
    office.cluster.do(act)

    answer = told(office.cancel("--stop", "--all", "--json"))

    assert rows(answer, "outcome", "replicas") == [("orders-0", "stopped", [1, 2, 3])]
    assert not office.moving


def test_what_others_begin_meanwhile_is_told_and_left(office: CancelOffice) -> None:
    office.others_move("orders-0")
    office.befalls(4.0, move("orders-1", 4, 2, 3))
    office.cluster.do(events.LoseAnswer())

    result = office.cancel("--stop", "--topic", "orders")

    assert result.exit_code == 3
    assert (
        "begun by others meanwhile, and not cancelled: orders-1. Run this command again"
        in result.stdout
    )
    assert office.cancel("--stop", "--topic", "orders").exit_code == 0


def test_a_cluster_that_is_lost_meanwhile_leaves_it_unknown(office: CancelOffice) -> None:
    office.others_move("orders-0", target=(5, 6, 7))
    office.cluster.do(events.LoseRequest())
    office.befalls(5.0, *map(events.Kill, range(1, 10)))

    result = office.cancel("--stop", "--all")

    assert result.exit_code == 3, result.exception
    assert "orders-0 unknown - - its end was not seen. Check it: ktui list" in lines(result)


def test_an_interrupt_says_what_goes_on(
    office: CancelOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.others_move("orders-0", "orders-1")
    office.cluster.do(events.DelayRequest(50.0))
    sleep, naps = office.clock.sleep, []

    async def interrupted(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) > 8:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await sleep(seconds)

    monkeypatch.setattr(office.clock, "sleep", interrupted)

    result = office.cancel("--stop", "--all")

    assert result.exit_code == 130
    assert "interrupted: cancels already sent still take effect" in result.stdout
    assert [line["outcome"] for line in office.log] == ["asked", "asked", "unknown", "unknown"]


def test_nothing_is_cancelled_that_cannot_be_written_down(office: CancelOffice) -> None:
    office.others_move("orders-0")
    (office.state.path / "cancels.jsonl").mkdir(parents=True)

    result = office.cancel("--stop", "--partition", "orders:0")

    assert isinstance(result.exception, RunProblem)
    assert "cancels.jsonl: cannot be written: Is a directory" in str(result.exception)
    assert office.moving == {"orders-0"}


def test_what_is_named_and_not_there_is_told_and_nothing_is_sent(office: CancelOffice) -> None:
    office.others_move("orders-0")

    result = office.cancel("--stop", "--topic", "ordres", "--partition", "orders:9")

    assert isinstance(result.exception, BadInput)
    assert "topic 'ordres'" in str(result.exception)
    assert "partition 9 of topic 'orders'" in str(result.exception)
    assert office.moving == {"orders-0"}


def test_what_is_named_and_not_moving_is_no_mistake(office: CancelOffice) -> None:
    office.others_move("orders-0")

    result = office.cancel("--stop", "--partition", "orders:1")

    assert result.exit_code == 0
    assert lines(result)[0] == "nothing in the scope you gave is being reassigned"
    assert office.moving == {"orders-0"}


def test_nothing_is_cancelled_where_the_context_may_not_be_changed(office: CancelOffice) -> None:
    office.others_move("orders-0")
    office.read_only = True

    refused = office.cancel("--stop", "--all")

    assert isinstance(refused.exception, BadInput)
    assert office.moving == {"orders-0"}
    assert office.cancel("--stop", "--all", "--dry-run").exit_code == 0
    assert office.moving == {"orders-0"}


def test_without_a_scope_nothing_is_done(office: CancelOffice) -> None:
    office.others_move("orders-0")

    assert isinstance(office.cancel("--stop").exception, BadInput)
    assert isinstance(office.cancel("--trim", "--all").exception, BadInput)
    assert office.moving == {"orders-0"}
