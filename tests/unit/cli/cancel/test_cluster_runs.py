"""`ktui cancel --cluster` beside runs: each is asked for what is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktui.cli.cancel.cluster_runs import RunOnCluster
from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel.foreign_outcome import ListedReassignment
from ktui.execution.host.ownership import this_process
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import CancelAsked
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from support.cli.cancel_office import CancelOffice, lines, rows, told
from support.simulated.moving_clusters import tp

OFF_3 = (1, 2, 4)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CancelOffice:
    return CancelOffice(tmp_path, monkeypatch)


def test_a_live_run_is_asked_to_stop_what_is_its_own_and_its_queue(office: CancelOffice) -> None:
    office.others_move("payments-0")
    run = office.live("drain", {f"orders-{n}": OFF_3 for n in range(4)})

    answer = told(office.cancel("--stop", "--all", "--json"))

    assert rows(answer, "run", "live", "outcome") == [
        ("orders-0", "drain", True, "stopped"),
        ("orders-1", "drain", True, "stopped"),
        ("payments-0", None, False, "stopped"),
    ]
    (asked,) = answer["runs"]
    assert asked["answer"]["accepted"]
    assert asked["answer"]["words"] == "2 in flight are cancelled, 2 go no further"
    assert run.run.counts[State.STOPPED] == 4
    assert not office.moving
    assert {line["topic"] for line in office.log} == {"payments"}


def test_a_live_run_rolls_back_itself_what_is_in_flight(office: CancelOffice) -> None:
    run = office.live("drain", {"orders-0": OFF_3, "orders-1": OFF_3})

    answer = told(office.cancel("--rollback", "--topic", "orders", "--json"))

    assert [outcome for _, outcome in rows(answer, "outcome")] == ["rolling back"] * 2
    assert {track.cancel for track in run.run.tracks.values()} == {CancelKind.ROLLBACK}
    assert not office.log


def test_partitions_of_a_run_outside_of_the_scope_go_on(office: CancelOffice) -> None:
    run = office.live("drain", {"orders-0": OFF_3, "payments-0": OFF_3})

    told(office.cancel("--stop", "--topic", "payments", "--json"))

    assert run.run.tracks[tp("orders-0")].cancel is None
    assert run.run.tracks[tp("payments-0")].state is State.STOPPED
    assert office.moving == {"orders-0"}


def test_what_someone_else_moves_of_a_run_is_not_the_runs(office: CancelOffice) -> None:
    office.others_move("orders-0", target=(5, 2, 3))
    run = office.live("drain", {"orders-0": OFF_3, "orders-1": OFF_3})

    answer = told(office.cancel("--stop", "--all", "--json"))

    assert rows(answer, "run", "outcome") == [
        ("orders-0", None, "stopped"),
        ("orders-1", "drain", "stopped"),
    ]
    assert run.run.counts[State.STOPPED] == 2
    assert [line["partition"] for line in office.log] == [0, 0]


def test_a_run_that_nobody_carries_on_is_told_and_its_steps_are_cancelled(
    office: CancelOffice,
) -> None:
    run = office.waiting("drain", {f"orders-{n}": OFF_3 for n in range(4)})
    assert office.moving == {"orders-0", "orders-1"}

    result = office.cancel("--stop", "--all")

    assert result.exit_code == 0, result.output
    assert "orders-0 run drain 1,2,3 1,2,3,4" in lines(result)
    assert "takes effect when you resume the run: ktui resume drain" in result.stdout
    assert not office.moving
    with run.opened() as journal:
        (asked,) = journal.asked()
    assert "orders" in str(asked.command)


def test_a_resumed_run_takes_the_cancel_for_its_own_and_goes_on_with_the_rest(
    office: CancelOffice,
) -> None:
    run = office.waiting("drain", {f"orders-{n}": OFF_3 for n in range(4)})
    told(office.cancel("--stop", "--all", "--json"))

    asyncio.run(run.carry_on())

    states = [run.run.tracks[tp(f"orders-{n}")].state for n in range(4)]
    assert states == [State.STOPPED, State.STOPPED, State.DONE, State.DONE]
    (called_off,) = [event for event in run.events if isinstance(event, CancelAsked)]
    assert called_off.partitions == (tp("orders-0"), tp("orders-1"))


def test_a_run_whose_process_dies_before_it_answers_is_told(
    office: CancelOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.others_move("payments-0")
    run = office.waiting("drain", {"orders-0": OFF_3})
    holders = iter([this_process()])
    for place in ("ktui.execution.host.catalog", "ktui.cli.cancel.cluster_runs"):
        monkeypatch.setattr(f"{place}.holder", lambda _: next(holders, None))

    result = office.cancel("--stop", "--all")

    assert result.exit_code == 3
    assert "run drain: the engine ended before it answered" in result.stdout
    assert office.moving == {"orders-0"}  # a run's own is left to it
    with run.opened() as journal:
        assert len(journal.asked()) == 1


def test_what_a_run_has_done_already_is_not_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = CancelOffice(tmp_path, monkeypatch, messages=2_000)
    targets = {"orders-0": OFF_3, "orders-1": OFF_3}
    run = office.live("drain", targets, limits=Limits(replicas=1, partitions=1))

    told(office.cancel("--rollback", "--all", "--json"))

    assert run.run.tracks[tp("orders-0")].state is State.DONE
    assert run.run.tracks[tp("orders-1")].cancel is CancelKind.ROLLBACK


def test_a_step_that_someone_else_has_given_another_target_is_theirs(office: CancelOffice) -> None:
    run = office.waiting("drain", {"orders-0": OFF_3})
    office.others_move("orders-0", target=(5, 2, 3))

    answer = told(office.cancel("--stop", "--partition", "orders:0", "--json"))

    assert rows(answer, "run", "to", "outcome") == [("orders-0", None, [5, 2, 3], "stopped")]
    assert answer["runs"] == []
    with run.opened() as journal:
        assert not journal.asked()


def test_a_step_that_a_run_begins_just_after_its_journal_was_read_is_left_to_it(
    office: CancelOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = office.live("drain", {"orders-0": OFF_3})
    take_in = RunOnCluster.take_in

    def too_early(run: RunOnCluster, listed: Mapping[TopicPartition, ListedReassignment]) -> None:
        take_in(run, listed)
        run.listed = {}

    monkeypatch.setattr(RunOnCluster, "take_in", too_early)

    told(office.cancel("--stop", "--all", "--json"))

    assert not office.log
    assert run.run.tracks[tp("orders-0")].state is State.STOPPED
