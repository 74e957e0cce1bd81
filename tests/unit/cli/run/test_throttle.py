"""`ktui throttle`: the throttle of a run, shown and changed from any shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from ktui.cli.context.errors import BadInput
from ktui.cli.run import throttle
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, SetThrottle
from ktui.execution.journal.journal import Journal
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from support.cli.named_cluster import NamedCluster
from support.cli.owned_run import owned_run
from support.journals.journals import a_start, ended
from support.journals.throttled_journals import (
    BROKER_4,
    a_run,
    all_over,
    call,
    json_of,
    lines,
    run_of,
    throttled,
)
from support.simulated.moving_clusters import a_cluster


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDir]:
    """A run with an engine: one for all tests."""
    with owned_run(StateDir(tmp_path_factory.mktemp("state"))) as run:
        yield run


def refusal(result: Result) -> str:
    assert isinstance(result.exception, BadInput | RunRefused), result.output
    return str(result.exception)


def asked(run: RunDir) -> int:
    with Journal.open(run.journal, VirtualClock(), read_only=True) as journal:
        return len(journal.asked(unanswered=False))


def test_ktui_throttle_of_a_run_without_one_prints_none(live: RunDir) -> None:
    call(live, "none")

    assert lines(call(live))[0] == (
        "throttle of drain-b3: none; not set on any broker or topic now"
    )


def test_a_new_rate_takes_effect_at_once_and_none_lifts_it(live: RunDir) -> None:
    answer = json_of(call(live, "50MB,4=20MiB", "--json"))

    assert answer["accepted"] is True
    assert run_of(live).throttled.rates == parse_throttle_rates("50MB,4=20MiB")
    assert call(live, "none").stdout == ("run drain-b3: lifted: what was set is being put back\n")
    assert run_of(live).throttled.rates == NO_THROTTLE


def test_an_undo_puts_the_last_rate_back(live: RunDir) -> None:
    call(live, "50MB,4=20MiB")
    call(live, "none")

    assert json_of(call(live, "--undo", "--json"))["accepted"] is True
    assert run_of(live).throttled.rates == parse_throttle_rates("50MB,4=20MiB")
    call(live, "--undo")
    assert run_of(live).throttled.rates == NO_THROTTLE
    assert "takes no RATE" in refusal(call(live, "5MB", "--undo"))


@pytest.mark.parametrize("rate", ["fast", "0", "x=5MB", "3=1MB,3=2MB", "5MB,6MB", ""])
def test_a_malformed_rate_is_refused_and_not_sent(live: RunDir, rate: str) -> None:
    before = asked(live)

    assert refusal(call(live, rate)).startswith("RATE: ")
    assert asked(live) == before


def test_leave_behind_is_refused_while_partitions_move(live: RunDir) -> None:
    before = asked(live)

    words = refusal(call(live, "--leave-behind"))

    assert words.startswith("--leave-behind: run drain-b3 still moves partitions")
    assert "ktui throttle drain-b3 none" in words
    assert asked(live) == before


def test_leaving_a_throttle_on_a_broker_names_it_and_exits_with_a_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, *throttled(), *all_over())
    answer = Answer(accepted=True, words="left behind")
    monkeypatch.setattr(RunClient, "send", lambda *_: (1, answer))

    with own_run(run):
        result = call(run, "--leave-behind")

    assert result.exit_code == 3
    assert "broker 4 may keep the throttle" in result.stderr
    assert "ktui doctor --clear-throttles" in result.stderr


def test_a_rate_and_leave_behind_exclude_each_other(live: RunDir) -> None:
    assert "takes no RATE" in refusal(call(live, "5MB", "--leave-behind"))


@pytest.mark.parametrize("arguments", [("5MB",), ("--leave-behind",)])
def test_a_run_without_an_engine_must_be_resumed_first(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    run = a_run(tmp_path, *throttled(), *all_over())

    assert "ktui resume drain-b3" in refusal(call(run, *arguments))


def test_throttling_an_ended_run_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path, *a_start(2), ended(2))

    assert "run drain-b3 has ended" in refusal(call(run, "5MB"))


def test_a_rate_under_which_no_copy_ends_is_not_asked_for_unless_the_operator_insists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}, inbound_s=2_000)
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock._leaping = True
    monkeypatch.setattr("ktui.cli.context.cluster.SystemClock", lambda: cluster.clock)
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    begun, *more = a_start(2)
    where = {"bootstrap_server": "a:9092"}
    begun = msgspec.structs.replace(begun, connection=where, cluster_id=cluster.spec.name)
    run = a_run(tmp_path, begun, *more)
    sent: list[SetThrottle] = []

    def send(_client: RunClient, command: SetThrottle, *_: object) -> tuple[int, Answer]:
        sent.append(command)
        return 1, Answer(accepted=True, words="in force")

    monkeypatch.setattr(RunClient, "send", send)
    with own_run(run):
        refused = refusal(call(run, "50"))
        assert sent == []
        call(run, "50", "--allow-slow")
        call(run, "50MB")

    assert refused.startswith("run drain-b3 is unchanged: at 50 B/s into broker")
    assert refused.endswith(" Did you mean 50MB? To insist: --allow-slow")
    assert [command.rates.every for command in sent] == [50, 50_000_000]


@pytest.mark.parametrize(("rate", "waits"), [("60MB", False), ("none", False), ("40MB", True)])
def test_only_a_lower_rate_waits_for_a_look_at_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: str, *, waits: bool
) -> None:
    result = given_to_a_slow_cluster(tmp_path, monkeypatch, rate)

    assert ("did not answer within 5 s" in result.stderr) is waits
    assert "in force" in result.stdout


def test_a_cluster_that_is_slow_to_answer_does_not_hold_back_a_lower_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = given_to_a_slow_cluster(tmp_path, monkeypatch, "40MB")

    assert "warning: ktui could not check whether a copy ends under this rate" in result.stderr
    assert "in force" in result.stdout


def given_to_a_slow_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: str) -> Result:
    """Give a rate to a live run under 50 MB/s whose cluster does not answer in time."""

    async def late(*_: object) -> None:
        raise TimeoutError

    cluster = a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]})
    begun, *more = throttled()
    where = {"bootstrap_server": "a:9092"}
    begun = msgspec.structs.replace(begun, connection=where, cluster_id=cluster.spec.name)
    run = a_run(tmp_path, begun, *more)
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setattr(throttle, "check_throttle_permitted", lambda *_: None)
    monkeypatch.setattr(throttle, "_read", late)
    answer = Answer(accepted=True, words="in force")
    monkeypatch.setattr(RunClient, "send", lambda *_: (1, answer))
    with own_run(run):
        return call(run, rate)


def test_the_throttle_shows_what_others_have_set_since_the_run_last_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]})
    theirs = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, "300000")
    cluster.do(layout.AlterConfigs((theirs,)))
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    begun, *more = throttled()
    begun = msgspec.structs.replace(
        begun, connection={"bootstrap_server": "a:9092"}, cluster_id=cluster.spec.name
    )
    run = a_run(tmp_path, begun, *more)

    with own_run(run):
        shown = lines(call(run))

    (rate,) = (line for line in shown if "broker 4" in line)
    assert "none: somebody else set 300000 (300 kB/s)" in rate


def test_the_throttle_shows_that_somebody_has_deleted_a_rate_since_the_run_last_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]})  # no rate is set on its brokers
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    begun, *more = throttled()
    where = {"bootstrap_server": "a:9092"}
    begun = msgspec.structs.replace(begun, connection=where, cluster_id=cluster.spec.name)
    run = a_run(tmp_path, begun, *more)

    with own_run(run):
        shown = lines(call(run))

    (rate,) = (line for line in shown if "broker 4" in line)
    assert "none: somebody else deleted it" in rate


@pytest.mark.parametrize(
    ("rate", "lifted"),
    [
        (("20MB",), "; no longer in force: 400 MB/s in all\n"),
        (("20MB", "--budget", "300MB"), "in flight\n"),
        (("--budget", "none"), "; no longer in force: 400 MB/s in all\n"),
    ],
)
def test_a_rate_that_also_lifts_the_budget_says_so(
    live: RunDir, rate: tuple[str, ...], lifted: str
) -> None:
    call(live, "50MB,total=400MB")

    assert call(live, *rate).stdout.endswith(lifted)
