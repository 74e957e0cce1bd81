"""`ktui broker cordon`, `demote` and their ways back."""

from pathlib import Path

import pytest

from ktui.ops.broker.runs import made_run
from ktui.simulated import layout
from ktui.simulated.layout import BrokerSpec
from support.cli.broker_sandbox import BrokerSandbox, RemovalSandbox
from support.cli.call_ktui import Done, call_ktui


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerSandbox:
    return BrokerSandbox(tmp_path, monkeypatch)


def test_a_cordoned_broker_gets_no_new_partitions_until_it_is_uncordoned(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.call("cordon", "3")
    assert all(3 not in replicas for replicas in sandbox.added(20))

    sandbox.call("uncordon", "3")
    assert any(3 in replicas for replicas in sandbox.added(20))

    sandbox.cluster(log_dirs=3)
    sandbox.call("cordon", "3", "--log-dir", BrokerSpec(id=3, log_dirs=3).log_dir_paths[1])
    assert any(3 in replicas for replicas in sandbox.added(20))


@pytest.fixture
def demote_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    """A cluster without the topic that broker 3 alone has."""
    sandbox = RemovalSandbox(tmp_path, monkeypatch)
    sandbox.do(layout.DeleteTopic("audit"))
    return sandbox


def test_urgent_partitions_go_first_unless_it_is_asked_for_otherwise(
    demote_sandbox: RemovalSandbox,
) -> None:
    demote_sandbox.call("demote", "3")
    demote_sandbox.call("undo", "3")
    demote_sandbox.call("demote", "3", "--no-urgent-first")

    runs = [made_run(demote_sandbox.state, name) for name in ("demote-3", "demote-3-2")]
    assert [run.options.urgent_first for run in runs if run is not None] == [True, False]


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
