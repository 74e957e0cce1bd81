"""`ktui broker cordon`, `demote` and their ways back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cluster.settings import CORDONED
from ktui.execution.errors import RunRefused
from ktui.ops.broker.runs import made_run
from ktui.simulated import layout
from ktui.simulated.layout import BrokerSpec
from support.cli.broker_sandbox import BrokerSandbox, RemovalSandbox
from support.cli.call_ktui import Done, call_ktui
from support.simulated.moving_clusters import move

FIRST, SECOND, THIRD = BrokerSpec(id=3, log_dirs=3).log_dir_paths


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerSandbox:
    return BrokerSandbox(tmp_path, monkeypatch)


def test_a_cordoned_broker_gets_no_new_partitions_until_it_is_uncordoned(
    sandbox: BrokerSandbox,
) -> None:
    assert sandbox.lines("cordon", "3") == [
        f"broker 3: {CORDONED}: not set -> *",
        f"broker 3 reports 1 of 1 log dir cordoned: {FIRST}",
    ]
    assert all(3 not in replicas for replicas in sandbox.added(20))
    assert sandbox.lines("status", "3")[0] == "broker 3: alive, rack r3, cordoned"

    assert sandbox.lines("uncordon", "3") == [
        f"broker 3: {CORDONED}: * -> not set",
        "broker 3 reports no cordoned log dir: new partitions may come to it",
    ]
    assert any(3 in replicas for replicas in sandbox.added(20))
    assert sandbox.settings == {}


def test_log_dirs_are_cordoned_one_after_the_other_and_no_cordon_lifts_another(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.cluster(log_dirs=3)

    sandbox.lines("cordon", "3", "--log-dir", THIRD)
    sandbox.lines("cordon", "3", "--log-dir", SECOND)

    assert sandbox.settings == {"3": f"{SECOND},{THIRD}"}
    assert any(3 in replicas for replicas in sandbox.added(20))
    sandbox.lines("cordon", "3")
    assert sandbox.settings == {"3": "*"}
    sandbox.lines("uncordon", "3")
    assert sandbox.settings == {}


def test_a_cordon_or_its_end_that_is_there_already_sends_nothing(sandbox: BrokerSandbox) -> None:
    assert sandbox.lines("uncordon", "3") == ["nothing to do: broker 3 has no cordon"]
    sandbox.cordon(3, "*")
    sandbox.do(layout.Deny("alter_configs"))

    assert sandbox.lines("cordon", "3")[0].startswith("nothing to do: broker 3 is cordoned already")


@pytest.mark.parametrize(
    ("verb", "before", "change"), [("cordon", "", "empty -> *"), ("uncordon", "*", "* -> not set")]
)
def test_a_dry_run_shows_the_change_and_sends_nothing(
    sandbox: BrokerSandbox, verb: str, before: str, change: str
) -> None:
    sandbox.cordon(3, before)
    sandbox.context = Context(read_only=True)

    assert sandbox.lines(verb, "3", "--dry-run") == [
        f"broker 3: {CORDONED}: {change}",
        "nothing was sent",
    ]
    assert sandbox.settings == {"3": before}


@pytest.mark.parametrize("verb", ["cordon", "uncordon"])
def test_a_read_only_context_is_refused(sandbox: BrokerSandbox, verb: str) -> None:
    sandbox.cordon(3, "/x" if verb == "cordon" else "*")
    sandbox.context = Context(read_only=True)

    assert "is read_only: nothing may be changed on it" in sandbox.refusal(verb, "3")


@pytest.mark.parametrize("before", [None, FIRST.removeprefix("/")])
def test_relative_log_dirs_are_an_error_and_the_setting_is_put_back(
    sandbox: BrokerSandbox, before: str | None
) -> None:
    sandbox.cluster(relative=True)
    if before is not None:
        sandbox.cordon(3, before)

    error = sandbox.refusal("cordon", "3")

    assert f"the broker does not report {FIRST} as cordoned" in error
    assert f"relative paths ({FIRST.removeprefix('/')})" in error
    assert "KAFKA-20901" in error
    assert error.endswith(f"The setting is as before: {before or 'not set'}")


def test_a_relative_log_dir_that_kafka_refuses_is_explained(sandbox: BrokerSandbox) -> None:
    sandbox.cluster(relative=True)

    error = sandbox.refusal("cordon", "3", "--log-dir", FIRST)

    assert "INVALID_REQUEST" in error
    assert "make them absolute" in error


@pytest.mark.parametrize("verb", ["cordon", "uncordon"])
def test_kafka_before_4_3_has_no_cordon(sandbox: BrokerSandbox, verb: str) -> None:
    sandbox.cluster(version="4.2")

    error = sandbox.refusal(verb, "3")

    assert "Kafka has no cordon before 4.3" in error
    assert "new topics and partitions may land on it" in error


def test_what_the_properties_file_cordons_is_not_lifted_and_said(sandbox: BrokerSandbox) -> None:
    sandbox.cluster(broker_configs={CORDONED: "*"})
    assert "the properties file of broker 3 cordons" in sandbox.refusal("uncordon", "3")
    sandbox.cordon(3, "*")

    error = str(sandbox.call("uncordon", "3").exception)

    assert error.startswith("the setting is removed, but the properties file of broker 3 cordons")
    assert sandbox.settings == {}


def test_a_log_dir_that_the_broker_does_not_have_is_refused(sandbox: BrokerSandbox) -> None:
    assert sandbox.refusal("cordon", "3", "--log-dir", "/x") == (
        f"--log-dir /x: broker 3 has {FIRST}"
    )


def test_a_broker_that_is_down_is_refused(sandbox: BrokerSandbox) -> None:
    sandbox.do(layout.Kill(3))
    sandbox.wait(30.0)

    assert "broker 3 is not up" in sandbox.refusal("cordon", "3")


def test_a_refusal_of_kafka_is_repeated(sandbox: BrokerSandbox) -> None:
    sandbox.do(layout.Deny("alter_configs"))

    assert "CLUSTER_AUTHORIZATION_FAILED" in sandbox.refusal("cordon", "3")


def test_an_answer_that_was_lost_is_found_by_reading_back(sandbox: BrokerSandbox) -> None:
    sandbox.simulated.do(layout.LoseAnswer())
    assert sandbox.lines("cordon", "3")[-1].endswith(FIRST)

    sandbox.simulated.do(layout.LoseRequest())
    error = sandbox.refusal("uncordon", "3")

    assert "the answer was lost" in error
    assert sandbox.settings == {"3": "*"}


@pytest.mark.parametrize("more", [(), ("--take-over",)])
def test_a_cluster_of_another_state_directory_is_left_alone_unless_it_is_taken_over(
    sandbox: BrokerSandbox, more: Sequence[str]
) -> None:
    sandbox.own_by_another()

    if more:
        sandbox.lines("cordon", "3", *more)
        assert sandbox.settings == {"3": "*"}
    else:
        assert "--take-over" in sandbox.refusal("cordon", "3")


SOME_NOT = 3


@pytest.fixture
def demote_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    """A cluster without the topic that broker 3 alone has."""
    sandbox = RemovalSandbox(tmp_path, monkeypatch)
    sandbox.do(layout.DeleteTopic("audit"))
    return sandbox


def led(sandbox: RemovalSandbox) -> list[str]:
    return [name for name, (_, leader) in sandbox.layout.items() if leader == 3]


def test_a_demoted_broker_is_last_everywhere_and_leads_nothing(
    demote_sandbox: RemovalSandbox,
) -> None:
    result = demote_sandbox.call("demote", "3", "--partitions", "2")

    assert result.exit_code == 0, (result.output, result.exception)
    assert led(demote_sandbox) == []
    assert all(replicas[-1] == 3 for replicas, _ in demote_sandbox.layout.values() if 3 in replicas)
    assert {name: set(each) for name, (each, _) in demote_sandbox.layout.items()}["orders-2"] == {
        1,
        2,
        3,
    }
    assert demote_sandbox.call("demote", "3").stderr.startswith("nothing to do")


def test_urgent_partitions_go_first_unless_it_is_asked_for_otherwise(
    demote_sandbox: RemovalSandbox,
) -> None:
    demote_sandbox.call("demote", "3")
    demote_sandbox.call("undo", "3")
    demote_sandbox.call("demote", "3", "--no-urgent-first")

    runs = [made_run(demote_sandbox.state, name) for name in ("demote-3", "demote-3-2")]
    assert [run.options.urgent_first for run in runs if run is not None] == [True, False]


def test_the_undo_restores_order_and_leaders(demote_sandbox: RemovalSandbox) -> None:
    before = demote_sandbox.layout
    demote_sandbox.call("demote", "3")
    assert demote_sandbox.layout != before

    result = demote_sandbox.call("undo", "3")

    assert result.exit_code == 0, (result.output, result.exception)
    assert demote_sandbox.layout == before
    assert "nothing of run demote-3 is left" in demote_sandbox.call("undo", "3").stderr


def test_the_last_demote_is_the_one_that_is_undone(demote_sandbox: RemovalSandbox) -> None:
    demote_sandbox.call("demote", "3")
    demote_sandbox.call("undo", "3")
    before = demote_sandbox.layout
    demote_sandbox.call("demote", "3")

    result = demote_sandbox.call("undo", "3")

    assert "undo run demote-3-2" in result.stderr
    assert (result.exit_code, demote_sandbox.layout) == (0, before)


def test_an_unfinished_demote_is_carried_on_and_not_begun_again(
    demote_sandbox: RemovalSandbox,
) -> None:
    demote_sandbox.until_s = 0.0
    demote_sandbox.call("demote", "3")
    demote_sandbox.until_s = 10_000.0

    result = demote_sandbox.call("demote", "3")

    assert result.exit_code == 0, (result.output, result.exception)
    assert (led(demote_sandbox), demote_sandbox.engines) == ([], ["demote-3", "demote-3"])


def test_an_unfinished_demote_is_undone_too(demote_sandbox: RemovalSandbox) -> None:
    before = demote_sandbox.layout
    demote_sandbox.until_s = 0.0
    demote_sandbox.call("demote", "3")
    demote_sandbox.until_s = 10_000.0

    assert demote_sandbox.call("undo", "3").exit_code == 0

    assert demote_sandbox.layout == before


def test_what_others_have_changed_since_the_demote_is_named_and_left(
    demote_sandbox: RemovalSandbox,
) -> None:
    demote_sandbox.call("demote", "3")
    demote_sandbox.do(move("orders-2", 2, 3, 1))

    result = demote_sandbox.call("undo", "3")

    assert result.exit_code == SOME_NOT
    assert "left as it is: orders-2: its replicas are 2,3,1 rather than" in result.stderr
    assert demote_sandbox.layout["orders-2"][0] == (2, 3, 1)


def test_a_replica_that_alone_is_in_sync_keeps_its_leadership_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = RemovalSandbox(tmp_path, monkeypatch)

    result = sandbox.call("demote", "3")

    assert (result.exit_code, led(sandbox)) == (SOME_NOT, ["audit-0"])
    assert "no other replica is in sync (audit-0 on broker 3)" in result.stderr


def test_previews_of_both_send_nothing(demote_sandbox: RemovalSandbox) -> None:
    before = demote_sandbox.layout
    assert "what would be sent" in demote_sandbox.call("demote", "3", "--dry-run").stdout
    assert (demote_sandbox.layout, demote_sandbox.engines) == (before, [])
    demote_sandbox.call("demote", "3")
    demoted = demote_sandbox.layout

    assert demote_sandbox.call("undo", "3", "--dry-run").stdout.splitlines() == [
        "undo run demote-3: 1 partition put back as before",
        "nothing was sent",
    ]
    assert demote_sandbox.layout == demoted


def test_the_demote_of_a_removal_is_undone_with_the_removal_alone(
    demote_sandbox: RemovalSandbox,
) -> None:
    demote_sandbox.remove("--until-empty")

    error = demote_sandbox.call("undo", "3").exception

    assert isinstance(error, RunRefused)
    assert "ktui broker remove 3 --undo" in str(error)


@pytest.mark.parametrize(("verb", "broker"), [("demote", "9"), ("undo", "3")])
def test_an_unknown_broker_and_one_that_was_never_demoted_are_bad_input(
    demote_sandbox: RemovalSandbox, verb: str, broker: str
) -> None:
    assert isinstance(demote_sandbox.call(verb, broker).exception, BadInput)


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_cordoned_broker_is_not_demoted_where_kafka_refuses_it_and_the_way_out_is_named(
    demote_sandbox: RemovalSandbox, words: tuple[str, ...]
) -> None:
    demote_sandbox.cluster(version="4.4")
    demote_sandbox.cordon(3, "*")
    before = demote_sandbox.layout

    result = demote_sandbox.call("demote", "3", *words)

    assert (result.exit_code, demote_sandbox.engines, demote_sandbox.layout) == (
        SOME_NOT,
        [],
        before,
    )
    assert "ktui broker uncordon 3" in result.stderr


VERBS = ("status", "empty", "cordon", "uncordon", "unregister", "demote", "undo", "remove")


def ktui(folder: Path, *words: str) -> Done:
    return call_ktui(
        "broker", *words, KTUI_CONFIG_DIR=str(folder), KTUI_STATE_DIR=str(folder / "state")
    )


@pytest.mark.parametrize("verb", VERBS)
def test_an_unreachable_cluster_is_a_failure_never_an_empty_broker(
    tmp_path: Path, verb: str
) -> None:
    done = ktui(tmp_path, verb, "3", "--bootstrap-server", "127.0.0.1:1")

    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("words", [("x",), ("-1",), (), ("3",)])
def test_no_broker_or_no_cluster_is_bad_input(
    tmp_path: Path, verb: str, words: tuple[str, ...]
) -> None:
    done = ktui(tmp_path, verb, *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


@pytest.mark.parametrize(("broker", "code"), [("5", 0), ("3", 3), ("9", 2)])
def test_a_script_tells_an_empty_broker_from_others_by_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str, code: int
) -> None:
    BrokerSandbox(tmp_path, monkeypatch)

    done = ktui(tmp_path, "empty", broker)

    assert done.returncode == code
    assert len((done.stdout or done.stderr).splitlines()) == 1
