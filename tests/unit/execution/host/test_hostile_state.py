"""The folder of runs, whatever is in it."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution import RunProblem, RunRefused
from ktui.execution.forecast.run_progress import RunProgress, all_runs
from ktui.execution.foreign_cancels import CancelLog, read_cancels
from ktui.execution.host.catalog import RunState, UnknownRun, find_run
from ktui.execution.host.client import undo_last, undo_limits, undo_throttle
from ktui.execution.host.ownership import CancelGateFile, holder, own_run, this_process
from ktui.execution.host.state_dir import RunDir, StateDir, StateDirProblem, ensure_id, read_id
from ktui.execution.journal.commands import SetLimits, SetThrottle, refuse_unknown
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.journal.tables import chain_hash
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    LimitsChanged,
    Paused,
    PauseOrigin,
    StateEntered,
    StepGate,
    ThrottleChanged,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import Stage, State
from ktui.pacing.limits import Limits, Mode, parse_limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.clock import VirtualClock
from support.journals.journals import CLUSTER, a_start, ended, step, written

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


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path)


def a_run(here: StateDir, name: str, events: Sequence[AnyRunEvent]) -> RunDir:
    run = here.create_run(name)
    written(run.journal, events).close()
    return run


def now_in(partition: int, state: State) -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state)


def only(here: StateDir) -> RunProgress:
    (run,) = all_runs(here)
    return run


def test_a_new_state_directory_has_no_runs(here: StateDir) -> None:
    assert all_runs(here) == []


def test_an_unowned_run_can_be_resumed(here: StateDir) -> None:
    done, failed = now_in(0, State.DONE), now_in(1, State.FAILED)
    a_run(here, "drain-b3", [*a_start(), step(0), done, failed])

    run = only(here)

    assert run.name == "drain-b3"
    assert run.state is RunState.RESUMABLE
    assert run.cluster_id == CLUSTER
    assert run.plan == "drain.json"
    assert run.started_at is not None
    assert run.owner is None
    assert (run.over, run.partitions) == (2, 3)
    assert {state: n for state, n in run.counts.items() if n} == {
        State.DONE: 1,
        State.FAILED: 1,
        State.QUEUED: 1,
    }
    assert run.problem is None


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], RunState.RUNNING),
        ([Paused(by=PauseOrigin.OPERATOR)], RunState.PAUSED),
        ([Paused(by=PauseOrigin.OPERATOR, topics=("orders",))], RunState.RUNNING),
        ([StepGate(shut=True, reason="3 partitions are offline")], RunState.GATED),
        ([StepGate(shut=True), StepGate(shut=False)], RunState.RUNNING),
        ([ended(3)], RunState.ENDED),
    ],
)
def test_an_owned_run_is_shown_in_its_current_state(
    here: StateDir, events: list[AnyRunEvent], state: RunState
) -> None:
    run = a_run(here, "drain-b3", [*a_start(), *events])
    with own_run(run) as owned:
        assert only(here).state is state
        assert only(here).owner == owned.holder


def test_a_paused_unowned_run_can_be_resumed(here: StateDir) -> None:
    a_run(here, "drain-b3", [*a_start(), Paused(by=PauseOrigin.SIGNAL)])

    assert only(here).state is RunState.RESUMABLE


def test_a_damaged_run_is_shown_up_to_its_damage(here: StateDir) -> None:
    run = a_run(here, "drain-b3", [*a_start(), step(0), now_in(0, State.DONE)])
    connection = sqlite3.connect(run.journal)
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute("UPDATE events SET body = '{}' WHERE seq = 5")
    connection.commit()
    connection.close()

    damaged = only(here)

    assert damaged.state is RunState.RESUMABLE
    assert damaged.stages == {Stage.COPYING: 1, Stage.QUEUED: 2}
    assert damaged.problem is not None
    assert "event 5 is damaged" in damaged.problem


def test_an_entry_that_is_not_a_run_is_shown_with_the_reason(here: StateDir) -> None:
    a_run(here, "good", a_start())
    here.create_run("no-journal")
    here.create_run("garbage").journal.write_text("text" * 1000, encoding="utf-8")
    written(here.create_run("never-begun").journal, []).close()
    (here.runs / "a file").touch()

    runs = {run.name: run for run in all_runs(here)}

    assert next(iter(runs)) == "good"
    unreadable = {name for name, run in runs.items() if run.state is RunState.UNREADABLE}
    assert unreadable == {"no-journal", "garbage", "never-begun", "a file"}
    assert "No such file" in str(runs["no-journal"].problem)
    assert "not an SQLite file" in str(runs["garbage"].problem)
    assert "its start was cut off" in str(runs["never-begun"].problem)
    assert "Not a directory" in str(runs["a file"].problem)


def test_a_run_is_found_by_its_name(here: StateDir) -> None:
    run = a_run(here, "drain-b3", a_start())

    assert find_run(here, "drain-b3") == run


def test_an_unknown_run_is_reported_with_the_nearest_names(here: StateDir) -> None:
    a_run(here, "drain-b3", a_start())
    a_run(here, "audit", a_start())

    with pytest.raises(UnknownRun, match=r"no run 'drain-b4' in .*; did you mean 'drain-b3'"):
        find_run(here, "drain-b4")
    with pytest.raises(UnknownRun, match=r"there are audit and drain-b3\. See: ktui runs"):
        find_run(here, "xyz")


@pytest.mark.parametrize("name", ["..", "../runs/drain-b3", "", "\x1b[31m"])
def test_an_impossible_run_name_is_reported_as_unknown(here: StateDir, name: str) -> None:
    a_run(here, "drain-b3", a_start())

    with pytest.raises(UnknownRun) as unknown:
        find_run(here, name)

    assert str(unknown.value).isprintable()


def test_an_unknown_run_without_any_runs_shows_how_to_start_one(here: StateDir) -> None:
    with pytest.raises(UnknownRun, match=r"there are none yet\. Start one: ktui start PLAN"):
        find_run(here, "drain-b3")


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def test_a_state_directory_gets_its_id_when_first_asked_and_keeps_it(state: StateDir) -> None:
    assert read_id(state) is None
    assert not state.path.exists()

    first = ensure_id(state)

    assert first == ensure_id(state) == read_id(state)
    assert [path.name for path in state.path.iterdir()] == ["id"]


def test_a_copied_directory_is_another_owner_and_the_original_stays_the_same(
    state: StateDir, tmp_path: Path
) -> None:
    first = ensure_id(state)
    copied = StateDir(tmp_path / "copied")
    shutil.copytree(state.path, copied.path)

    assert read_id(copied) is None
    assert ensure_id(copied) not in (first, "")
    assert ensure_id(copied) == read_id(copied)
    assert ensure_id(state) == first


def test_a_moved_directory_is_the_same_owner(state: StateDir, tmp_path: Path) -> None:
    first = ensure_id(state)

    state.path.rename(tmp_path / "moved")

    assert ensure_id(StateDir(tmp_path / "moved")) == first


@pytest.mark.parametrize("content", [b"", b"what is this", b'{"id": "stolen", "inode": 1}'])
def test_a_file_without_an_id_of_its_own_is_replaced(state: StateDir, content: bytes) -> None:
    state.path.mkdir()
    state.id_file.write_bytes(content)

    assert ensure_id(state) not in ("", "stolen")
    assert ensure_id(state) == read_id(state)


def test_all_callers_at_once_get_the_same_id(state: StateDir) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ensure_id, [state] * 8))) == 1


def test_an_unreadable_id_file_is_named(state: StateDir) -> None:
    state.id_file.mkdir(parents=True)

    with pytest.raises(StateDirProblem, match=str(state.id_file)):
        ensure_id(state)


AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
ME = this_process().short
MY_LAST_VIEW = f"{ME.rpartition(' (')[0]} (1)"
FAST, SLOW = parse_throttle_rates("80MB,3=20MB"), parse_throttle_rates("10MB")


def undo_a_run(*events: AnyRunEvent) -> Run:
    entries = (JournalEntry(seq, AT, event) for seq, event in enumerate(events, 1))
    return Run("drain").fold(entries)


def limits_changed(old: Limits, new: Limits, who: str = ME) -> LimitsChanged:
    return LimitsChanged(old=old, new=new, batch=1, in_flight=0, who=who)


def test_an_undo_names_only_the_limits_that_differ() -> None:
    old = Limits(replicas=1, partitions=4)
    new = Limits(replicas=1, partitions=None, mode=Mode.WAVE)

    undo = undo_limits(undo_a_run(limits_changed(old, new, MY_LAST_VIEW)))

    assert undo.command == SetLimits({"partitions": 4, "mode": "rolling"}, instead_of=new)
    assert isinstance(undo.command, SetLimits)
    assert parse_limits(undo.command.options, new) == old
    assert undo.words == "P none -> 4, wave -> rolling"


def test_the_undo_of_an_undo_puts_the_change_back() -> None:
    one, other = Limits(partitions=1), Limits(partitions=2)

    undo = undo_limits(undo_a_run(limits_changed(one, other), limits_changed(other, one)))

    assert undo.command == SetLimits({"partitions": 2}, instead_of=one)


def test_the_later_change_of_limits_and_throttle_is_undone_first() -> None:
    limits = limits_changed(Limits(partitions=1), Limits(partitions=2))
    throttle = ThrottleChanged(old=NO_THROTTLE, new=FAST, who=ME)

    assert isinstance(undo_last(undo_a_run(limits, throttle)).command, SetThrottle)
    assert isinstance(undo_last(undo_a_run(throttle, limits)).command, SetLimits)


def test_a_run_without_a_change_has_nothing_to_undo() -> None:
    for undo in (undo_limits, undo_throttle, undo_last):
        with pytest.raises(RunRefused, match="nothing to undo"):
            undo(undo_a_run())


@pytest.mark.parametrize("who", ["ada@ops1 (7)", ""])
def test_a_change_of_somebody_else_is_not_undone(who: str) -> None:
    mine = limits_changed(Limits(partitions=1), Limits(partitions=2))
    theirs = limits_changed(Limits(partitions=2), Limits(partitions=9), who)

    with pytest.raises(RunRefused, match="is not yours") as refused:
        undo_limits(undo_a_run(mine, theirs))

    assert (who or "no operator") in str(refused.value)


def test_a_rate_that_somebody_else_has_set_since_is_not_overwritten() -> None:
    run = undo_a_run(ThrottleChanged(old=FAST, new=SLOW, who=ME))
    run.throttled.foreign = {(ConfigResource(ConfigScope.BROKER, "4"), FOLLOWER_RATE): "5000000"}

    with pytest.raises(RunRefused, match="someone else has set another rate on broker 4") as no:
        undo_throttle(run)

    assert "ktui throttle drain 80MB,3=20MB" in str(no.value)


@pytest.mark.parametrize("text", ["none", "50MB", "1500kB", "7", "3=none", "80MB,3=20MB,9=none"])
def test_rates_are_typed_as_an_operator_would(text: str) -> None:
    rates = parse_throttle_rates(text)

    assert parse_throttle_rates(rates.typed) == rates
    if text != "3=none":
        assert rates.typed == text
