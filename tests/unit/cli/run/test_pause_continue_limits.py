"""Commands to a run whose engine is another process: sent and answered, from any shell."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunProblem
from ktui.execution.host import client
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import LimitsChanged
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits, Shape
from ktui.simulated.clock import VirtualClock
from support.cli.shell import owned_run
from support.journals.journals import a_start, read, written


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDir]:
    """A run with an engine: one for all tests, each of which leaves it running."""
    with owned_run(StateDir(tmp_path_factory.mktemp("state"))) as run:
        yield run


@pytest.fixture
def abandoned(tmp_path: Path) -> RunDir:
    """A run without an engine."""
    run = StateDir(tmp_path / "left").create_run("audit")
    written(run.journal, a_start()).close()
    return run


def call(run: RunDir, verb: str, *arguments: str, name: str | None = None) -> Result:
    state = str(run.path.parent.parent)
    return CliRunner().invoke(ktui, [verb, name or run.name, "--state-dir", state, *arguments])


def parsed(result: Result, exit_code: int = 0) -> Any:
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def run_of(run: RunDir) -> Run:
    with RunFollower(run.journal) as follower:
        follower.refresh()
    return follower.run


def test_new_limits_are_confirmed_with_the_decision_from_which_they_bind(live: RunDir) -> None:
    before = run_of(live)

    answer = parsed(call(live, "limits", "--partitions", "3", "--per-broker", "9", "--json"))

    assert list(answer) == ["schema_version", "run", "command", "accepted", "words", "batch"]
    assert (answer["run"], answer["accepted"]) == ("drain-b3", True)
    assert answer["batch"] == before.batch + 1
    assert f"they bind from decision {answer['batch']} on" in answer["words"]
    after = run_of(live)
    assert (after.limits.partitions, after.limits.per_broker) == (3, 9)
    assert after.limits.replicas == before.limits.replicas
    (changed,) = [e.event for e in read(live.journal)[0] if isinstance(e.event, LimitsChanged)][-1:]
    assert changed.command == answer["command"]
    assert parsed(call(live, "limits", "--json"))["since_batch"] == answer["batch"]


def test_the_value_none_lifts_a_limit(live: RunDir) -> None:
    call(live, "limits", "--per-broker", "9")

    assert call(live, "limits", "--per-broker", "none").exit_code == 0
    assert run_of(live).limits.per_broker is None


def commands(run: RunDir, options: list[str]) -> int:
    with Journal.open(run.journal, VirtualClock(), read_only=True) as journal:
        asked = journal.asked(unanswered=False)
    wanted = {options[0]: options[1]}
    return sum(getattr(each.command, "options", None) == wanted for each in asked)


def test_an_undo_puts_the_last_limits_back_and_a_second_one_the_change(live: RunDir) -> None:
    call(live, "limits", "--partitions", "7", "--replicas", "1")
    call(live, "limits", "--partitions", "8", "--replicas", "2")

    for expected in ((7, 1), (8, 2)):
        assert parsed(call(live, "limits", "--undo", "--json"))["accepted"] is True
        limits = run_of(live).limits
        assert (limits.partitions, limits.replicas) == expected
    both = call(live, "limits", "--undo", "--partitions", "1")
    assert str(both.exception).startswith("--undo: takes no other limits")


def test_one_broker_gets_limits_of_its_own_and_an_undo_takes_them_back(live: RunDir) -> None:
    call(live, "limits", "--per-broker", "4", "--per-leader", "none")
    given = ("--broker", "3", "--per-broker", "1", "--bytes-per-broker", "8MiB")
    assert parsed(call(live, "limits", *given, "--json"))["accepted"] is True
    assert run_of(live).limits.per_broker == 4
    assert parsed(call(live, "limits", "--json"))["limits"]["brokers"] == [
        {"broker": 3, "per_broker": 1, "bytes_per_broker": 8 * 1024**2}
    ]
    assert "--broker 3 --per-broker        1" in call(live, "limits").output
    status = CliRunner().invoke(
        ktui, ["status", live.name, "--state-dir", str(live.path.parent.parent), "--events"]
    )
    assert "B 4 -> 4 (broker 3: 1)" in status.output

    call(live, "limits", "--broker", "3", "--broker", "4", "--per-broker", "none")
    assert call(live, "limits", "--undo").exit_code == 0
    assert run_of(live).limits.own_of("per-broker") == {3: 1}
    lift = ("--per-broker", "run", "--bytes-per-broker", "run")
    assert call(live, "limits", "--broker", "3", *lift).exit_code == 0
    assert run_of(live).limits.brokers == ()


def test_limits_that_conflict_with_those_in_force_are_refused_and_not_written(
    tmp_path: Path,
) -> None:
    limits = Limits(replicas=2, shape=Shape.KIP_435)
    with owned_run(StateDir(tmp_path), limits=limits) as run:
        refused = call(run, "limits", "--extra-replicas", "1")

        assert isinstance(refused.exception, BadInput)
        assert "--extra-replicas: it has no effect in shape kip-435" in str(refused.exception)
        assert commands(run, ["extra-replicas", "1"]) == 0


def test_a_live_run_is_paused_and_continued(live: RunDir) -> None:
    paused = call(live, "pause")

    assert paused.exit_code == 0
    assert paused.stdout.startswith("run drain-b3: paused: nothing new is submitted; ")
    assert run_of(live).pauses.reason is not None

    assert call(live, "continue").stdout == "run drain-b3: it goes on\n"
    assert run_of(live).pauses.reason is None


def test_topics_and_partitions_are_paused_by_name(live: RunDir) -> None:
    scope = ("--topic", "orders", "--partition", "orders:2", "--partition", "orders:3")

    answer = parsed(call(live, "pause", *scope, "--json"))

    assert answer["accepted"] is True
    assert run_of(live).pauses.topics == {"orders"}
    assert run_of(live).pauses.partitions == {TopicPartition("orders", n) for n in (2, 3)}
    assert call(live, "continue", *scope).exit_code == 0
    assert run_of(live).pauses.topics == set()


def test_everything_that_comes_to_or_goes_from_a_broker_is_paused_and_continued(
    live: RunDir,
) -> None:
    assert parsed(call(live, "pause", "--broker", "4", "--json"))["accepted"] is True
    assert run_of(live).pauses.partitions == {TopicPartition("orders", n) for n in range(4)}
    assert run_of(live).pauses.whole == {}

    assert call(live, "continue", "--broker", "3").exit_code == 0
    assert run_of(live).pauses.partitions == set()


def test_an_engine_that_does_not_answer_is_named_with_the_fate_of_the_command(
    abandoned: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.0)
    with own_run(abandoned) as owned:
        ignored = call(abandoned, "pause")

    assert isinstance(ignored.exception, RunProblem)
    assert f"no answer within 0 s from process {owned.holder.pid}" in str(ignored.exception)
    assert "takes effect when that process reads it" in str(ignored.exception)
    with Journal.open(abandoned.journal, VirtualClock()) as journal:
        assert len(journal.asked()) == 1


def test_an_engine_that_ends_before_it_answers_is_reported(
    abandoned: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = own_run(abandoned)
    ask = Journal.ask

    def ask_and_go(*arguments: Any) -> int:
        number = ask(*arguments)
        owned.release()
        return number

    monkeypatch.setattr(Journal, "ask", ask_and_go)

    failed = call(abandoned, "pause")

    assert isinstance(failed.exception, RunProblem)
    assert "ended before it answered" in str(failed.exception)
    assert "ktui resume audit" in str(failed.exception)


def test_the_journal_records_who_gave_a_command(live: RunDir) -> None:
    number = parsed(call(live, "continue", "--json"))["command"]

    with Journal.open(live.journal, VirtualClock(), read_only=True) as journal:
        who = journal.answer_to(number).who
    assert "@" in who
    assert who.endswith(")")
