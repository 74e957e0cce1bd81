"""`ktui broker demote` and `undo`: others lead, and then all lead as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.context.errors import BadInput
from ktui.execution.errors import RunRefused
from ktui.ops.broker.runs import made_run
from ktui.simulated import layout
from support.cli.removal_sandbox import RemovalSandbox
from support.simulated.moving_clusters import move

SOME_NOT = 3


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    """A cluster without the topic that broker 3 alone has."""
    sandbox = RemovalSandbox(tmp_path, monkeypatch)
    sandbox.do(layout.DeleteTopic("audit"))
    return sandbox


def led(sandbox: RemovalSandbox) -> list[str]:
    return [name for name, (_, leader) in sandbox.layout.items() if leader == 3]


def test_a_demoted_broker_is_last_everywhere_and_leads_nothing(sandbox: RemovalSandbox) -> None:
    result = sandbox.call("demote", "3", "--partitions", "2")

    assert result.exit_code == 0, (result.output, result.exception)
    assert led(sandbox) == []
    assert all(replicas[-1] == 3 for replicas, _ in sandbox.layout.values() if 3 in replicas)
    assert {name: set(each) for name, (each, _) in sandbox.layout.items()}["orders-2"] == {1, 2, 3}
    assert sandbox.call("demote", "3").stderr.startswith("nothing to do")


def test_urgent_partitions_go_first_unless_it_is_asked_for_otherwise(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.call("demote", "3")
    sandbox.call("undo", "3")
    sandbox.call("demote", "3", "--no-urgent-first")

    runs = [made_run(sandbox.state, name) for name in ("demote-3", "demote-3-2")]
    assert [run.options.urgent_first for run in runs if run is not None] == [True, False]


def test_the_undo_restores_order_and_leaders(sandbox: RemovalSandbox) -> None:
    before = sandbox.layout
    sandbox.call("demote", "3")
    assert sandbox.layout != before

    result = sandbox.call("undo", "3")

    assert result.exit_code == 0, (result.output, result.exception)
    assert sandbox.layout == before
    assert "nothing of run demote-3 is left" in sandbox.call("undo", "3").stderr


def test_the_last_demote_is_the_one_that_is_undone(sandbox: RemovalSandbox) -> None:
    sandbox.call("demote", "3")
    sandbox.call("undo", "3")
    before = sandbox.layout
    sandbox.call("demote", "3")

    result = sandbox.call("undo", "3")

    assert "undo run demote-3-2" in result.stderr
    assert (result.exit_code, sandbox.layout) == (0, before)


def test_an_unfinished_demote_is_carried_on_and_not_begun_again(sandbox: RemovalSandbox) -> None:
    sandbox.until_s = 0.0
    sandbox.call("demote", "3")
    sandbox.until_s = 10_000.0

    result = sandbox.call("demote", "3")

    assert result.exit_code == 0, (result.output, result.exception)
    assert (led(sandbox), sandbox.engines) == ([], ["demote-3", "demote-3"])


def test_an_unfinished_demote_is_undone_too(sandbox: RemovalSandbox) -> None:
    before = sandbox.layout
    sandbox.until_s = 0.0
    sandbox.call("demote", "3")
    sandbox.until_s = 10_000.0

    assert sandbox.call("undo", "3").exit_code == 0

    assert sandbox.layout == before


def test_what_others_have_changed_since_the_demote_is_named_and_left(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.call("demote", "3")
    sandbox.do(move("orders-2", 2, 3, 1))

    result = sandbox.call("undo", "3")

    assert result.exit_code == SOME_NOT
    assert "left as it is: orders-2: its replicas are 2,3,1 rather than" in result.stderr
    assert sandbox.layout["orders-2"][0] == (2, 3, 1)


def test_a_replica_that_alone_is_in_sync_keeps_its_leadership_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = RemovalSandbox(tmp_path, monkeypatch)

    result = sandbox.call("demote", "3")

    assert (result.exit_code, led(sandbox)) == (SOME_NOT, ["audit-0"])
    assert "no other replica is in sync (audit-0 on broker 3)" in result.stderr


def test_previews_of_both_send_nothing(sandbox: RemovalSandbox) -> None:
    before = sandbox.layout
    assert "what would be sent" in sandbox.call("demote", "3", "--dry-run").stdout
    assert (sandbox.layout, sandbox.engines) == (before, [])
    sandbox.call("demote", "3")
    demoted = sandbox.layout

    assert sandbox.call("undo", "3", "--dry-run").stdout.splitlines() == [
        "undo run demote-3: 1 partition put back as before",
        "nothing was sent",
    ]
    assert sandbox.layout == demoted


def test_the_demote_of_a_removal_is_undone_with_the_removal_alone(sandbox: RemovalSandbox) -> None:
    sandbox.remove("--until-empty")

    error = sandbox.call("undo", "3").exception

    assert isinstance(error, RunRefused)
    assert "ktui broker remove 3 --undo" in str(error)


@pytest.mark.parametrize(("verb", "broker"), [("demote", "9"), ("undo", "3")])
def test_an_unknown_broker_and_one_that_was_never_demoted_are_bad_input(
    sandbox: RemovalSandbox, verb: str, broker: str
) -> None:
    assert isinstance(sandbox.call(verb, broker).exception, BadInput)


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_cordoned_broker_is_not_demoted_where_kafka_refuses_it_and_the_way_out_is_named(
    sandbox: RemovalSandbox, words: tuple[str, ...]
) -> None:
    sandbox.cluster(version="4.4")
    sandbox.cordon(3, "*")
    before = sandbox.layout

    result = sandbox.call("demote", "3", *words)

    assert (result.exit_code, sandbox.engines, sandbox.layout) == (SOME_NOT, [], before)
    assert "ktui broker uncordon 3" in result.stderr
