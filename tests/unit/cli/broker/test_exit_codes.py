"""`ktui broker` ends with the exit codes of other verbs, and with one clear sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.broker_sandbox import BrokerSandbox
from support.cli.call_ktui import Done, call_ktui

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
