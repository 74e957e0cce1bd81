"""The cancel gate of a cluster: a file that outlives every process and binds all of them."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktui.execution.errors import RunRefused
from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.host.state_dir import StateDir

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def a_gate(state: StateDir, cluster_id: str = "cFlPpHqxRmOaCrPxQZu1bA") -> CancelGateFile:
    return CancelGateFile(state, cluster_id)


def test_a_gate_is_open_until_it_is_shut_and_leaves_no_trace(state: StateDir) -> None:
    gate = a_gate(state)

    assert (gate.state(), gate.words(), gate.open()) == (None, None, None)
    assert not state.path.exists()


def test_a_shut_gate_reports_who_shut_it_when_and_why(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (4711)", "roll back all of run drain")

    shut = a_gate(state).state()

    assert shut is not None
    assert (shut.at, shut.who, shut.reason) == (
        AT, "ada@ops1 (4711)", "roll back all of run drain"
    )  # fmt: skip
    moment = AT.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    words = f"ada@ops1 (4711) at {moment}, to roll back all of run drain"
    assert a_gate(state).words() == words


def test_many_may_shut_a_gate_at_once_and_one_of_them_is_reported(state: StateDir) -> None:
    failed: list[RunRefused] = []

    def shut(who: str) -> None:
        for _ in range(40):
            try:
                a_gate(state).shut(AT, who, "stop")
            except RunRefused as refused:
                failed.append(refused)

    names = ["ada@ops1 (1)", "bob@ops2 (2)", "cy@ops3 (3)", "di@ops4 (4)"]
    threads = [threading.Thread(target=shut, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shut_by = a_gate(state).state()

    assert failed == []
    assert shut_by is not None
    assert shut_by.who in names
    assert [path.name for path in a_gate(state).path.parent.iterdir()] == [a_gate(state).path.name]


def test_each_cluster_has_its_own_gate(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (1)", "stop")

    assert a_gate(state, "another").state() is None
    assert a_gate(state, "../../another").path.parent == a_gate(state).path.parent


def test_opening_a_gate_returns_who_shut_it_last_and_opens_it_for_all(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (1)", "stop")
    a_gate(state).shut(AT, "bob@ops2 (2)", "roll back")

    had = a_gate(state).open()

    assert had is not None
    assert had.who == "bob@ops2 (2)"
    assert a_gate(state).state() is None


def test_a_pipe_in_place_of_the_gate_file_is_reported_without_waiting(state: StateDir) -> None:
    gate = a_gate(state)
    gate.shut(AT, "ada@ops1 (1)", "stop")
    gate.path.unlink()
    os.mkfifo(gate.path)

    with pytest.raises(RunRefused, match="cancel gate cannot be read: it is not a regular file"):
        gate.state()
    assert "it is not a regular file" in str(gate.words())


def test_a_malformed_gate_file_keeps_the_gate_shut(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (1)", "stop")
    a_gate(state).path.write_text("{", encoding="utf-8")

    words = a_gate(state).words()

    assert words is not None
    assert words.startswith("someone at ")
    assert str(a_gate(state).path) in words


def test_an_unreadable_gate_file_keeps_an_engine_from_submitting(state: StateDir) -> None:
    a_gate(state).path.mkdir(parents=True)

    with pytest.raises(RunRefused, match="the cancel gate cannot be read"):
        a_gate(state).state()
    words = a_gate(state).words()
    assert words is not None
    assert "the cancel gate cannot be read" in words


def test_a_state_directory_that_cannot_be_written_to_is_named(state: StateDir) -> None:
    state.path.write_text("a file", encoding="utf-8")

    with pytest.raises(RunRefused, match=str(state.path)):
        a_gate(state).shut(AT, "ada@ops1 (1)", "stop")
