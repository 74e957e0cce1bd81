"""`ktui cancel --cluster`: the reassignments of others are listed, cancelled and watched."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.execution import RunProblem
from ktui.simulated import layout
from support.cli.cancel_sandbox import CancelSandbox, lines, parsed, rows
from support.simulated.moving_clusters import tp


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


def test_a_broker_that_has_nothing_to_do_with_a_live_run_cancels_nothing_of_it(
    sandbox: CancelSandbox,
) -> None:
    run = sandbox.live("drain", {"orders-0": (4, 2, 3)})
    sandbox.others_move("payments-1", target=(5, 6, 7))

    sandbox.cancel("--stop", "--broker", "7")

    assert run.run.tracks[tp("orders-0")].cancel is None
    assert "payments-1" not in sandbox.moving


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


def test_losing_the_cluster_during_a_cancel_leaves_its_outcome_unknown(
    sandbox: CancelSandbox,
) -> None:
    sandbox.others_move("orders-0", target=(5, 6, 7))
    sandbox.cluster.do(layout.LoseRequest())
    sandbox.schedule(5.0, *map(layout.Kill, range(1, 10)))

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 3, result.exception
    assert "orders-0 unknown - - its end was not seen. Check it: ktui list" in lines(result)


def test_a_poll_that_cannot_be_read_is_taken_again_before_anything_is_sent(
    sandbox: CancelSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.others_move("orders-0")
    poll, polls = Observer.poll, list[Interest]()

    async def garbled(self: Observer, interest: Interest) -> Observation:
        polls.append(interest)
        if len(polls) == 2:  # the first one shows what would be cancelled
            raise KeyError("partitions")
        return await poll(self, interest)

    monkeypatch.setattr(Observer, "poll", garbled)

    result = sandbox.cancel("--stop", "--all")

    assert result.exit_code == 0, result.exception
    assert not sandbox.moving


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
