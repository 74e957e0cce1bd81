"""`ktui cancel RUN`: what is called off, of a run that lives, was left, or has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cluster.errors import ClusterError, Unreachable
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.journal.commands import CancelMoves, Pause
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.states import State
from ktui.simulated.events import Kill
from support.cli.cancelled_run import MOVED, THREE, CancelledRun
from support.simulated.moving_clusters import tp

Made = Callable[..., CancelledRun]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    def make(**more: Any) -> CancelledRun:
        return CancelledRun(tmp_path, monkeypatch, **more)

    return make


@pytest.fixture
def left(made: Made) -> CancelledRun:
    """Give a run of which orders-0 and audit-0 are in flight, and nobody carries on."""
    return made()


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("drain", "--all"), "--trim was given. Give one of them, or --remove-cancel"),
        (("drain", "--stop", "--trim", "--all"), "--trim exclude each other. Give one of them"),
        (("drain", "--stop"), "Give --topic T, --partition T:P, or --all"),
        (("drain", "--stop", "--all", "--topic", "orders"), "--all already covers every partition"),
        (("drain", "--stop", "--topic", "ordrs"), "did you mean 'orders'?"),
        (("drain", "--stop", "--partition", "orders:9"), "partition 9 of topic orders"),
        (("drian", "--stop", "--all"), "did you mean 'drain'?"),
        (("--stop", "--all"), "name a run, or give --cluster instead"),
        (("drain", "--cluster", "--stop", "--all"), "name a run, or give --cluster instead"),
        (("--cluster", "--trim", "--all"), "--trim needs a run"),
        (("--cluster", "--stop"), "no scope was given"),
        (("drain", "--remove-cancel", "--stop"), "--remove-cancel takes no other cancel option"),
        (("drain", "--remove-cancel", "--dry-run"), "--remove-cancel takes no other cancel option"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_fix(
    left: CancelledRun, words: tuple[str, ...], fix: str
) -> None:
    assert fix in left.refusal(*words)


def test_a_dry_run_says_what_becomes_of_each_and_asks_for_nothing(left: CancelledRun) -> None:
    told = left.cancel("drain", "--stop", "--all", "--dry-run")

    assert told.exit_code == 0
    assert rows(told.stdout) == [
        "run drain: stop 3 partitions: 2 in flight are cancelled, 1 goes no further",
        "PARTITION STATE REPLICAS SENT AFTER RF LEADER",
        "orders-0 adding 1,2,3 cancel 1,2,3 3 1",
        "audit-0 adding 2,3,1 cancel 2,3,1 3 2",
        "orders-1 queued 1,2,3 nothing 1,2,3 3 1",
        "Run drain has no engine. This cancel would start an engine.",
        "It would also shut the cluster's cancel gate: runs submit nothing else.",
        "Nothing was changed.",
    ]
    assert (left.asked, left.started, left.gate.state()) == ([], [], None)


def test_scripts_get_every_partition_with_its_steps(left: CancelledRun) -> None:
    told = left.json("drain", "--rollback", "--topic", "orders", "--dry-run")

    assert next(iter(told)) == "schema_version"
    assert (told["run"], told["kind"], told["dry_run"]) == ("drain", "rollback", True)
    assert (told["acts"]["cancel"], told["acts"]["dequeue"]) == (1, 1)
    assert (told["answer"], told["gate"], told["shuts_gate"]) == (None, None, False)
    first, second = told["partitions"]
    assert (first["topic"], first["partition"], first["state"]) == ("orders", 0, "adding")
    assert (first["act"], first["cancels"], first["steps"]) == ("cancel", True, [])
    assert (first["replicas"], first["leader"]) == ([1, 2, 3], 1)
    assert (first["refused"], first["way_out"], first["danger"]) == (None, None, None)
    assert (second["partition"], second["act"]) == (1, "dequeue")


def test_forty_partitions_are_shown_and_the_rest_is_counted(made: Made) -> None:
    ways = {f"orders-{n}": (THREE, (4, 5, 6)) for n in range(60)}
    run = made(ways=ways)

    told = rows(run.cancel("drain", "--stop", "--all", "--dry-run").stdout)

    shown = [line for line in told if line.startswith("orders-")]
    assert len(shown) == 40
    assert "cancel" in shown[0]
    assert "and 20 more: 20 nothing" in told
    every = run.json("drain", "--stop", "--all", "--dry-run")["partitions"]
    assert len(every) == 60


def test_replicas_beyond_the_plan_are_told_with_the_trim_that_drops_them(made: Made) -> None:
    run = made(left_s=15.0)

    told = run.cancel("drain", "--stop", "--partition", "orders:0", "--dry-run").stdout

    state = f" --state-dir {run.state.path}"
    assert (
        "orders-0 (4, plan 3) keeps more replicas than planned. Drop them too: "
        f"ktui cancel drain --trim --partition orders:0{state}"
    ) in told


def test_what_is_refused_and_what_is_risked_is_told_with_the_partitions(made: Made) -> None:
    run = made(cluster={"configs": {"min.insync.replicas": "2"}, "messages": 100_000})
    for broker in (2, 3):
        run.cluster.do(Kill(broker))
    run.story.clock.pass_time(20.0)
    run.cluster.catch_up()

    told = run.cancel("drain", "--stop", "--partition", "orders:0", "--dry-run").stdout

    assert "danger: orders-0: 1 would stay in sync, fewer than min.insync.replicas (2)" in told


def test_a_live_run_answers_and_its_words_are_printed(left: CancelledRun) -> None:
    with left.alive():
        told = left.cancel("drain", "--stop", "--topic", "orders")

    assert told.exit_code == 0, told.output
    assert "run drain: 1 in flight is cancelled, 1 goes no further\n" in told.stdout
    assert "follow the result: ktui status drain" in told.stdout
    assert [each.command for each in left.asked] == [CancelMoves(CancelKind.STOP, ("orders",))]
    assert left.started == []
    assert left.gate.state() is None
    assert left.state_of("orders-0") is State.STOPPED
    assert left.state_of("audit-0") is State.DONE


def test_scripts_get_the_answer_with_what_was_foreseen(left: CancelledRun) -> None:
    with left.alive():
        told = left.json("drain", "--rollback", "--partition", "orders:0")

    assert told["answer"]["accepted"] is True
    assert told["answer"]["words"] == "1 in flight is cancelled"
    assert told["partitions"][0]["cancels"] is True
    assert left.replicas("orders-0") == THREE


def test_everything_of_a_live_run_shuts_the_gate_before_it_is_asked(left: CancelledRun) -> None:
    with left.alive():
        told = left.cancel("drain", "--rollback", "--all")

    assert told.exit_code == 0, told.output
    shut = left.gate.state()
    assert shut is not None
    assert shut.reason == "roll back all of run drain"
    (asked,) = left.asked
    assert (asked.command, asked.who) == (CancelMoves(CancelKind.ROLLBACK), shut.who)
    assert shut.at <= asked.at
    assert f"is shut, by {shut.words}" in told.stdout
    assert "ktui cancel drain --remove-cancel" in told.stdout
    assert {name: left.replicas(name) for name in MOVED} == {
        name: original for name, (original, _) in MOVED.items()
    }


def test_of_a_run_that_nobody_carries_on_the_rest_is_paused_first(left: CancelledRun) -> None:
    left.until_s = 100.0

    told = left.cancel("drain", "--rollback", "--partition", "orders:0")

    assert told.exit_code == 0, told.output
    assert "Starting one; the rest of the run is paused first" in told.stderr
    assert "the rest of the run is paused. Continue it: ktui continue drain" in told.stderr
    assert [each.command for each in left.asked] == [
        Pause(),
        CancelMoves(CancelKind.ROLLBACK, (), (tp("orders-0"),)),
    ]
    assert len(left.started) == 1
    assert left.state_of("orders-0") is State.ROLLED_BACK
    assert left.state_of("orders-1") is State.QUEUED
    assert left.run.pauses.reason is not None


def test_of_a_run_that_nobody_carries_on_nothing_is_left_to_pause_when_all_is_called_off(
    left: CancelledRun,
) -> None:
    told = left.cancel("drain", "--stop", "--all")

    assert told.exit_code == 0, told.output
    assert "paused" not in told.stderr
    assert [each.command for each in left.asked] == [CancelMoves(CancelKind.STOP)]
    assert left.gate.state() is not None
    assert left.run.ended
    assert left.run.counts[State.STOPPED] == 3


def test_a_run_that_has_ended_is_rolled_back_as_a_whole(made: Made) -> None:
    run = made(left_s=1_000.0)
    assert run.run.counts[State.DONE] == 3

    told = run.cancel("drain", "--rollback")

    assert told.exit_code == 0, told.output
    assert "run drain: 3 go back" in told.stdout
    assert run.run.counts[State.ROLLED_BACK] == 3
    assert run.replicas("audit-0") == (2, 3, 1)
    assert run.gate.state() is None


def test_a_run_that_has_ended_cannot_be_stopped(made: Made) -> None:
    run = made(left_s=1_000.0)

    assert "has ended, so there is nothing to stop. Undo it with --rollback" in run.refusal(
        "drain", "--stop", "--all"
    )


def test_a_dry_run_says_that_the_rest_of_a_run_without_a_process_would_be_paused(
    left: CancelledRun,
) -> None:
    told = left.cancel("drain", "--stop", "--topic", "orders", "--dry-run").stdout

    assert "This cancel would start an engine and pause the rest of the run" in told


def test_a_rollback_that_lost_its_process_is_taken_up_when_it_is_asked_for_again(
    made: Made,
) -> None:
    run = made(left_s=1_000.0)
    run.until_s = 5.0
    run.cancel("drain", "--rollback")
    assert run.state_of("orders-0") is State.ROLLING_BACK
    run.until_s = 1_000.0

    again = run.cancel("drain", "--rollback", "--all")

    assert again.exit_code == 0, again.output
    told = rows(again.stdout)
    assert told[0] == "run drain: roll back 3 partitions: 3 are cancelled already"
    assert "audit-0 rolling back 5,6,4 nothing 2,3,1 3 2" in told
    assert len(run.started) == 2
    assert run.run.counts[State.ROLLED_BACK] == 3


def test_where_nothing_is_left_to_do_no_process_is_started(made: Made) -> None:
    run = made(left_s=1_000.0)
    run.cancel("drain", "--rollback")
    asked = len(run.asked)

    again = run.cancel("drain", "--rollback")

    assert again.exit_code == 0
    assert "3 are over already" in again.stdout
    assert again.stdout.endswith("Nothing was changed.\n")
    assert (len(run.started), len(run.asked)) == (1, asked)


def test_a_cluster_that_is_away_keeps_nobody_from_stopping_a_live_run(left: CancelledRun) -> None:
    away(left)
    with left.alive():
        told = left.cancel("drain", "--stop", "--topic", "orders")

    assert told.exit_code == 0, told.output
    assert "no preview of the partitions: " in told.stdout
    assert [each.command for each in left.asked] == [CancelMoves(CancelKind.STOP, ("orders",))]


def away(run: CancelledRun) -> None:
    class Away:
        async def describe_cluster(self) -> None:
            raise Unreachable("no broker answers")

        async def aclose(self) -> None:
            pass

    run.reader = Away  # type: ignore[assignment]


def test_without_the_cluster_nothing_is_begun_for_a_run_that_nobody_carries_on(
    left: CancelledRun,
) -> None:
    away(left)

    for more in ((), ("--dry-run",)):
        error = left.cancel("drain", "--stop", "--all", *more).exception
        assert isinstance(error, ClusterError)
    assert (left.asked, left.started, left.gate.state()) == ([], [], None)


def test_another_cluster_is_refused_with_both_named(
    left: CancelledRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CancelledRun(tmp_path / "other", monkeypatch, cluster={"name": "elsewhere"})
    left.reader = other.cluster.reader
    monkeypatch.setattr("ktui.cli.context.target.choose_cluster", left._choose)

    refused = left.cancel("drain", "--stop", "--all")

    assert isinstance(refused.exception, RunRefused)
    expected = "prod-eu is cluster elsewhere, but run drain belongs to cluster simulated"
    assert expected in str(refused.exception)
    assert (left.asked, left.gate.state()) == ([], None)


def test_in_a_read_only_context_it_is_only_said_what_would_come_of_it(left: CancelledRun) -> None:
    left.context = Context(read_only=True)

    refused = left.cancel("drain", "--stop", "--all")
    said = left.cancel("drain", "--stop", "--all", "--dry-run")

    assert isinstance(refused.exception, BadInput)
    assert "is read_only" in str(refused.exception)
    assert said.exit_code == 0
    assert left.asked == []


def test_a_process_that_dies_at_once_leaves_what_was_asked_to_the_next(
    left: CancelledRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise RunProblem("the engine of run drain has died: no space left")

    monkeypatch.setattr("ktui.cli.process.launch.start_engine", die)

    error = left.cancel("drain", "--stop", "--all").exception

    assert isinstance(error, RunProblem)
    assert "no space left. Your command is in the journal" in str(error)
    assert "ktui resume drain" in str(error)
    assert [each.answer for each in left.asked] == [None]
