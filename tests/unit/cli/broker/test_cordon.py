"""`ktui broker cordon` and `uncordon`: set, read back, and put back where Kafka does nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktui.cli.context.config import Context
from ktui.cluster.settings import CORDONED
from ktui.simulated import layout
from ktui.simulated.layout import BrokerSpec
from support.cli.broker_sandbox import BrokerSandbox

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
