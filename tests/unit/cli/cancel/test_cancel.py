"""`ktui cancel RUN`: what it cancels of a run that is live, has lost its engine, or has ended."""

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
from ktui.execution.run.states import CancelKind, State
from ktui.simulated.layout import Kill
from support.cli.cancel_sandbox import MOVED, THREE, CancelledRun
from support.simulated.moving_clusters import tp

MakeRun = Callable[..., CancelledRun]


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    def make(**more: Any) -> CancelledRun:
        return CancelledRun(tmp_path, monkeypatch, **more)

    return make


@pytest.fixture
def abandoned(make_run: MakeRun) -> CancelledRun:
    """A run without an engine, with orders-0 and audit-0 in flight."""
    return make_run()


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("drain", "--all"), "--trim was given. Give one of them, or --remove-cancel"),
        (("drain", "--stop", "--trim", "--all"), "--trim exclude each other. Give one of them"),
        (("drain", "--stop"), "Give --topic T, --partition T:P, --broker ID, or --all"),
        (("drain", "--stop", "--all", "--topic", "orders"), "--all already covers every partition"),
        (("drain", "--stop", "--topic", "ordrs"), "did you mean 'orders'?"),
        (("drain", "--stop", "--partition", "orders:9"), "partition 9 of topic orders"),
        (("drian", "--stop", "--all"), "did you mean 'drain'?"),
        (("--stop", "--all"), "name a run, or give --cluster instead"),
        (("drain", "--cluster", "--stop", "--all"), "name a run, or give --cluster instead"),
        (("--cluster", "--trim", "--all"), "--trim needs a run"),
        (("--cluster", "--stop"), "no scope was given"),
        (("drain", "--stop", "--all", "--broker", "4"), "--all already covers every partition"),
        (
            ("drain", "--remove-cancel", "--broker", "4"),
            "cannot be combined with other cancel options",
        ),
        (("drain", "--remove-cancel", "--stop"), "--remove-cancel cannot be combined with"),
        (("drain", "--remove-cancel", "--dry-run"), "--remove-cancel cannot be combined with"),
    ],
)
def test_an_impossible_cancel_is_refused_with_the_fix(
    abandoned: CancelledRun, words: tuple[str, ...], fix: str
) -> None:
    assert fix in abandoned.refusal(*words)


def test_a_dry_run_lists_the_fate_of_each_partition_and_asks_for_nothing(
    abandoned: CancelledRun,
) -> None:
    result = abandoned.cancel("drain", "--stop", "--all", "--dry-run")

    assert result.exit_code == 0
    assert rows(result.stdout) == [
        "run drain: stop 3 partitions: 2 in flight are cancelled, 1 will not start",
        "PARTITION STATE REPLICAS SENT AFTER RF LEADER",
        "orders-0 adding 1,2,3 cancel 1,2,3 3 1",
        "audit-0 adding 2,3,1 cancel 2,3,1 3 2",
        "orders-1 queued 1,2,3 nothing 1,2,3 3 1",
        "Run drain has no engine. This cancel would start an engine.",
        "It would also shut the cluster's cancel gate: runs submit nothing else.",
        "Nothing was changed.",
    ]
    assert (abandoned.asked, abandoned.started, abandoned.gate.state()) == ([], [], None)


def test_json_of_a_dry_run_lists_every_partition_with_its_steps(abandoned: CancelledRun) -> None:
    result = abandoned.json("drain", "--rollback", "--topic", "orders", "--dry-run")

    assert next(iter(result)) == "schema_version"
    assert (result["run"], result["kind"], result["dry_run"]) == ("drain", "rollback", True)
    assert (result["acts"]["cancel"], result["acts"]["dequeue"]) == (1, 1)
    assert (result["answer"], result["gate"], result["shuts_gate"]) == (None, None, False)
    first, second = result["partitions"]
    assert (first["topic"], first["partition"], first["state"]) == ("orders", 0, "adding")
    assert (first["act"], first["cancels"], first["steps"]) == ("cancel", True, [])
    assert (first["replicas"], first["leader"]) == ([1, 2, 3], 1)
    assert (first["refused"], first["way_out"], first["danger"]) == (None, None, None)
    assert (second["partition"], second["act"]) == (1, "dequeue")


def test_a_preview_shows_forty_partitions_and_counts_the_rest(make_run: MakeRun) -> None:
    ways = {f"orders-{n}": (THREE, (4, 5, 6)) for n in range(60)}
    run = make_run(ways=ways)

    result = rows(run.cancel("drain", "--stop", "--all", "--dry-run").stdout)

    shown = [line for line in result if line.startswith("orders-")]
    assert len(shown) == 40
    assert "cancel" in shown[0]
    assert "and 20 more: 20 nothing" in result
    every = run.json("drain", "--stop", "--all", "--dry-run")["partitions"]
    assert len(every) == 60


def test_a_preview_shows_extra_replicas_with_the_trim_that_drops_them(make_run: MakeRun) -> None:
    run = make_run(left_s=15.0)

    result = run.cancel("drain", "--stop", "--partition", "orders:0", "--dry-run").stdout

    state = f" --state-dir {run.state.path}"
    assert (
        "orders-0 (4, plan 3) keeps more replicas than planned. Drop them too: "
        f"ktui cancel drain --trim --partition orders:0{state}"
    ) in result


def test_a_preview_warns_of_partitions_that_would_fall_below_min_isr(make_run: MakeRun) -> None:
    run = make_run(cluster={"configs": {"min.insync.replicas": "2"}, "messages": 100_000})
    for broker in (2, 3):
        run.cluster.do(Kill(broker))
    run.story.clock.pass_time(20.0)
    run.cluster.catch_up()

    result = run.cancel("drain", "--stop", "--partition", "orders:0", "--dry-run").stdout

    assert "danger: orders-0: 1 would stay in sync, fewer than min.insync.replicas (2)" in result


def test_cancelling_a_live_run_prints_its_answer(abandoned: CancelledRun) -> None:
    with abandoned.alive():
        result = abandoned.cancel("drain", "--stop", "--topic", "orders")

    assert result.exit_code == 0, result.output
    assert "run drain: 1 in flight is cancelled, 1 will not start\n" in result.stdout
    assert "follow the result: ktui status drain" in result.stdout
    assert [each.command for each in abandoned.asked] == [CancelMoves(CancelKind.STOP, ("orders",))]
    assert abandoned.started == []
    assert abandoned.gate.state() is None
    assert abandoned.state_of("orders-0") is State.STOPPED
    assert abandoned.state_of("audit-0") is State.DONE


def test_what_comes_to_or_goes_from_a_broker_is_cancelled_and_nothing_else(
    make_run: MakeRun,
) -> None:
    run = make_run(ways={"orders-0": (THREE, (4, 2, 3)), "orders-1": (THREE, (1, 5, 3))})

    with run.alive():
        result = run.cancel("drain", "--rollback", "--broker", "4")

    assert result.exit_code == 0, (result.output, result.exception)
    asked = [each.command for each in run.asked]
    assert asked == [CancelMoves(CancelKind.ROLLBACK, partitions=(tp("orders-0"),))]
    assert (run.replicas("orders-0"), run.replicas("orders-1")) == (THREE, (1, 5, 3))


def test_a_broker_without_any_partition_of_the_run_cancels_nothing(abandoned: CancelledRun) -> None:
    assert "on broker 9" in abandoned.refusal("drain", "--stop", "--broker", "9")


def test_the_trim_that_follows_a_stop_on_a_broker_names_the_partitions(make_run: MakeRun) -> None:
    run = make_run(left_s=15.0)

    output = run.cancel("drain", "--stop", "--broker", "5", "--dry-run").stdout

    trims = [line for line in output.splitlines() if "Drop them too" in line]
    assert all("--broker" not in line for line in trims)
    assert any("--trim --partition " in line for line in trims)


def test_json_holds_the_answer_of_the_run_with_the_preview(abandoned: CancelledRun) -> None:
    with abandoned.alive():
        result = abandoned.json("drain", "--rollback", "--partition", "orders:0")

    assert result["answer"]["accepted"] is True
    assert result["answer"]["words"] == "1 in flight is cancelled"
    assert result["partitions"][0]["cancels"] is True
    assert abandoned.replicas("orders-0") == THREE


def test_cancelling_all_of_a_live_run_shuts_the_gate_before_asking_it(
    abandoned: CancelledRun,
) -> None:
    with abandoned.alive():
        result = abandoned.cancel("drain", "--rollback", "--all")

    assert result.exit_code == 0, result.output
    shut = abandoned.gate.state()
    assert shut is not None
    assert shut.reason == "roll back all of run drain"
    (asked,) = abandoned.asked
    assert (asked.command, asked.who) == (CancelMoves(CancelKind.ROLLBACK), shut.who)
    assert shut.at <= asked.at
    assert f"is shut, by {shut.words}" in result.stdout
    assert "ktui cancel drain --remove-cancel" in result.stdout
    assert {name: abandoned.replicas(name) for name in MOVED} == {
        name: original for name, (original, _) in MOVED.items()
    }


def test_cancelling_part_of_a_run_without_an_engine_pauses_the_rest_first(
    abandoned: CancelledRun,
) -> None:
    abandoned.until_s = 100.0

    result = abandoned.cancel("drain", "--rollback", "--partition", "orders:0")

    assert result.exit_code == 0, result.output
    assert "Starting one; the rest of the run is paused first" in result.stderr
    assert "the rest of the run is paused. Continue it: ktui continue drain" in result.stderr
    assert [each.command for each in abandoned.asked] == [
        Pause(),
        CancelMoves(CancelKind.ROLLBACK, (), (tp("orders-0"),)),
    ]
    assert len(abandoned.started) == 1
    assert abandoned.state_of("orders-0") is State.ROLLED_BACK
    assert abandoned.state_of("orders-1") is State.QUEUED
    assert abandoned.run.pauses.reason is not None


def test_cancelling_all_of_a_run_without_an_engine_pauses_nothing(
    abandoned: CancelledRun,
) -> None:
    result = abandoned.cancel("drain", "--stop", "--all")

    assert result.exit_code == 0, result.output
    assert "paused" not in result.stderr
    assert [each.command for each in abandoned.asked] == [CancelMoves(CancelKind.STOP)]
    assert abandoned.gate.state() is not None
    assert abandoned.run.ended
    assert abandoned.run.counts[State.STOPPED] == 3


def test_a_dry_run_of_a_rollback_names_the_bytes_to_copy_back(make_run: MakeRun) -> None:
    run = make_run(left_s=1_000.0)
    result = run.cancel("drain", "--rollback", "--dry-run")
    # three replicas of each of three partitions, 10 MB each
    head = result.stdout.splitlines()[0]
    assert head == "run drain: roll back 3 partitions: 3 are rolled back, 86 MiB to copy back"
    stopped = run.cancel("drain", "--rollback", "--partition", "orders:0", "--dry-run")
    assert stopped.stdout.splitlines()[0].endswith("29 MiB to copy back")
    assert run.asked == []


def test_an_ended_run_is_rolled_back_as_a_whole(make_run: MakeRun) -> None:
    run = make_run(left_s=1_000.0)
    assert run.run.counts[State.DONE] == 3

    result = run.cancel("drain", "--rollback")

    assert result.exit_code == 0, result.output
    assert "run drain: 3 are rolled back" in result.stdout
    assert run.run.counts[State.ROLLED_BACK] == 3
    assert run.replicas("audit-0") == (2, 3, 1)
    assert run.gate.state() is None


def test_an_ended_run_cannot_be_stopped(make_run: MakeRun) -> None:
    run = make_run(left_s=1_000.0)

    assert "has ended, so there is nothing to stop. Undo it with --rollback" in run.refusal(
        "drain", "--stop", "--all"
    )


def test_a_dry_run_warns_that_the_rest_of_a_run_without_an_engine_would_be_paused(
    abandoned: CancelledRun,
) -> None:
    result = abandoned.cancel("drain", "--stop", "--topic", "orders", "--dry-run").stdout

    assert "This cancel would start an engine and pause the rest of the run" in result


def test_a_rollback_that_lost_its_engine_resumes_when_requested_again(
    make_run: MakeRun,
) -> None:
    run = make_run(left_s=1_000.0)
    run.until_s = 5.0
    run.cancel("drain", "--rollback")
    assert run.state_of("orders-0") is State.ROLLING_BACK
    run.until_s = 1_000.0

    again = run.cancel("drain", "--rollback", "--all")

    assert again.exit_code == 0, again.output
    result = rows(again.stdout)
    assert result[0] == "run drain: roll back 3 partitions: 3 already cancelled"
    assert "audit-0 rolling back 5,6,4 nothing 2,3,1 3 2" in result
    assert len(run.started) == 2
    assert run.run.counts[State.ROLLED_BACK] == 3


def test_a_cancel_with_nothing_left_to_do_starts_no_engine(make_run: MakeRun) -> None:
    run = make_run(left_s=1_000.0)
    run.cancel("drain", "--rollback")
    asked = len(run.asked)

    again = run.cancel("drain", "--rollback")

    assert again.exit_code == 0
    assert "3 already ended" in again.stdout
    assert again.stdout.endswith("Nothing was changed.\n")
    assert (len(run.started), len(run.asked)) == (1, asked)


def test_a_live_run_can_be_stopped_while_the_cluster_is_unreachable(
    abandoned: CancelledRun,
) -> None:
    make_unreachable(abandoned)
    with abandoned.alive():
        result = abandoned.cancel("drain", "--stop", "--topic", "orders")

    assert result.exit_code == 0, result.output
    assert "no preview of the partitions: " in result.stdout
    assert [each.command for each in abandoned.asked] == [CancelMoves(CancelKind.STOP, ("orders",))]


def make_unreachable(run: CancelledRun) -> None:
    class UnreachableReader:
        async def describe_cluster(self) -> None:
            raise Unreachable("no broker answers")

        async def aclose(self) -> None:
            pass

    run.reader = UnreachableReader  # type: ignore[assignment]


def test_an_unreachable_cluster_starts_no_cancel_of_a_run_without_an_engine(
    abandoned: CancelledRun,
) -> None:
    make_unreachable(abandoned)

    for more in ((), ("--dry-run",)):
        error = abandoned.cancel("drain", "--stop", "--all", *more).exception
        assert isinstance(error, ClusterError)
    assert (abandoned.asked, abandoned.started, abandoned.gate.state()) == ([], [], None)


def test_a_cancel_on_the_wrong_cluster_is_refused_with_both_clusters_named(
    abandoned: CancelledRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CancelledRun(tmp_path / "other", monkeypatch, cluster={"name": "elsewhere"})
    abandoned.reader = other.cluster.reader
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", abandoned._choose)

    refused = abandoned.cancel("drain", "--stop", "--all")

    assert isinstance(refused.exception, RunRefused)
    expected = "prod-eu is cluster elsewhere, but run drain belongs to cluster simulated"
    assert expected in str(refused.exception)
    assert (abandoned.asked, abandoned.gate.state()) == ([], None)


def test_a_read_only_context_allows_a_dry_run_and_refuses_a_cancel(abandoned: CancelledRun) -> None:
    abandoned.context = Context(read_only=True)

    refused = abandoned.cancel("drain", "--stop", "--all")
    dry_run = abandoned.cancel("drain", "--stop", "--all", "--dry-run")

    assert isinstance(refused.exception, BadInput)
    assert "is read_only" in str(refused.exception)
    assert dry_run.exit_code == 0
    assert abandoned.asked == []


def test_an_engine_that_dies_at_once_leaves_the_command_to_the_next_one(
    abandoned: CancelledRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise RunProblem("the engine of run drain has died: no space left")

    monkeypatch.setattr("ktui.cli.process.launch.start_engine", die)

    error = abandoned.cancel("drain", "--stop", "--all").exception

    assert isinstance(error, RunProblem)
    assert "no space left. Your command is in the journal" in str(error)
    assert "ktui resume drain" in str(error)
    assert [each.answer for each in abandoned.asked] == [None]
