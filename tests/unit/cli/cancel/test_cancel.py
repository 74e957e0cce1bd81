"""`ktui cancel RUN`: what it cancels of a run that is live, has lost its engine, or has ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.errors import ClusterError, Unreachable
from ktui.execution import RunProblem, RunRefused
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind, State
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


def test_a_rollback_that_lost_its_engine_resumes_when_requested_again(make_run: MakeRun) -> None:
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
    expected = "prod-eu is cluster elsewhere, but the run belongs to cluster simulated"
    assert expected in str(refused.exception)
    assert (abandoned.asked, abandoned.gate.state()) == ([], None)


def test_an_engine_that_dies_at_once_leaves_the_command_to_the_next_one(
    abandoned: CancelledRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise RunProblem("the engine of run drain has died: no space left")

    monkeypatch.setattr("ktui.cli.process.start_engine", die)

    error = abandoned.cancel("drain", "--stop", "--all").exception

    assert isinstance(error, RunProblem)
    assert "no space left. Your command is in the journal" in str(error)
    assert "ktui resume drain" in str(error)
    assert [each.answer for each in abandoned.asked] == [None]
