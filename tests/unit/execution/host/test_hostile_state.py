"""Hostile files of the state directory: each is named, and none ends ktui."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from ktui.execution.cancel.foreign import CancelLog, read_cancels
from ktui.execution.errors import RunProblem
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import CancelGateFile, holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import refuse_unknown
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.journal.tables import chain_hash
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, written

GATE = {"cluster_id": "c", "at": "2026-01-01T00:00:00Z", "who": "ada", "reason": "stop"}
DEEP = b"[" * 100_000
NO_TIMES = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00"]


def gate_with(body: bytes, folder: Path) -> CancelGateFile:
    gate = CancelGateFile(StateDir(folder), "c")
    gate.path.parent.mkdir()
    gate.path.write_bytes(body)
    return gate


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(json.dumps(GATE).encode()[:-1] + b',"x":' + DEEP, id="nested"),
        pytest.param(json.dumps(GATE).encode().replace(b"ada", b"\xff"), id="not UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps(GATE).encode(), id="byte order mark"),
        *(pytest.param(json.dumps(GATE | {"at": at}).encode(), id=at) for at in NO_TIMES),
    ],
)
def test_an_unusable_gate_file_keeps_the_gate_shut(tmp_path: Path, body: bytes) -> None:
    words = gate_with(body, tmp_path).words()
    assert words is not None
    assert words.startswith("someone at ")


def test_a_named_pipe_in_the_place_of_the_log_of_cancels_is_refused_and_not_waited_for(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "cancels.jsonl")
    state = StateDir(tmp_path)

    with pytest.raises(RunProblem, match="it is not a regular file"):
        read_cancels(state, "c")
    with pytest.raises(RunProblem, match="it is not a regular file"):
        CancelLog(state, "c", "ada", VirtualClock()).write_asked(())


def test_the_name_of_who_shut_the_gate_cannot_control_a_terminal(tmp_path: Path) -> None:
    body = json.dumps(GATE | {"who": "\x1b]52;c;AA\x07"}).encode()
    words = gate_with(body, tmp_path).words()
    assert words is not None
    assert words.startswith(r"\x1b]52;c;AA\x07 at ")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    folder = StateDir(tmp_path / "state").create_run("drain")
    written(folder.journal, a_start(2)).close()
    return folder


def add_event(run: RunDir, at: str, body: bytes) -> None:
    """Chain an event as ktui does: anyone who can write the file can do that."""
    connection = sqlite3.connect(run.journal)
    seq, head = connection.execute("SELECT seq, hash FROM events ORDER BY seq DESC").fetchone()
    hashed = chain_hash(bytes.fromhex(head), seq + 1, at.encode(), body)
    row = (seq + 1, at, body.decode(), hashed.hex())
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", row)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("at", "body"),
    [
        pytest.param(
            "2026-01-01T00:00:00Z", b'{"event":"left","reason":"x","y":' + DEEP, id="deep"
        ),
        *(pytest.param(at, b'{"event":"left","reason":"x"}', id=at) for at in NO_TIMES),
        pytest.param(
            "2026-01-01T00:00:00Z",
            b'{"event":"owned","pid":1,"host":"h","user":"u","until":"0001-01-01T00:00:00Z"}',
            id="until",
        ),
    ],
)
def test_an_impossible_event_is_reported_and_those_before_it_stand(
    run: RunDir, at: str, body: bytes
) -> None:
    add_event(run, at, body)
    with RunFollower(run.journal) as follower:
        follower.refresh()
    assert len(follower.run.tracks) == 2
    assert follower.damage is not None
    assert "is unknown to this ktui" in follower.damage
    (summary,) = all_runs(StateDir(run.path.parent.parent))
    assert summary.state is RunState.RESUMABLE


def test_a_command_nested_too_deeply_is_one_that_the_engine_refuses(run: RunDir) -> None:
    body = b'{"command":"leave","x":' + DEEP
    connection = sqlite3.connect(run.journal)
    row = ("2026-01-01T00:00:00Z", "ada", body.decode())
    connection.execute("INSERT INTO commands (at, who, body) VALUES (?, ?, ?)", row)
    connection.commit()
    connection.close()
    with Journal.open(run.journal, VirtualClock(), read_only=True) as journal:
        (asked,) = journal.asked()
    assert asked.command is None
    assert "does not know this command: nested too deep" in refuse_unknown(asked).words


@pytest.fixture
def locked(run: RunDir) -> Iterator[RunDir]:
    """Yield a run whose lock another process seems to hold."""
    run.lock.parent.mkdir(exist_ok=True)
    with run.lock.open("wb") as file:
        flock(file, LOCK_EX)
        yield run


@pytest.mark.parametrize(
    "note",
    [
        pytest.param(DEEP, id="nested"),
        pytest.param(
            b'{"pid":1,"host":"\xff","user":"u","since":"2026-01-01T00:00:00Z"}', id="bytes"
        ),
        pytest.param(
            b'{"pid":1,"host":"h","user":"u","since":"0001-01-01T00:00:00+14:00"}', id="time"
        ),
    ],
)
def test_a_lock_with_an_impossible_holder_is_reported(
    locked: RunDir, note: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.execution.host.ownership._PATIENCE_S", 0.0)
    locked.lock.write_bytes(note)
    with pytest.raises(RunProblem, match="does not name itself"):
        holder(locked)
