"""The engine's process, and what it writes."""

import asyncio
import json
import logging
import os
import shlex
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ktui.cli import engine_log as metrics
from ktui.cli.engine import SameClusterSource, leave_on_signals, read_run, reject_stale_commands
from ktui.cli.engine import command as engine_command
from ktui.cli.engine_log import (
    EVERY_S,
    AfterPoll,
    EngineLog,
    JournalWait,
    LogFile,
    RunMetrics,
    RunNotices,
    WarningReader,
)
from ktui.cli.process import Launch
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.execution import JournalProblem, RunProblem
from ktui.execution.engine.gates import Leaving
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.ownership import this_process
from ktui.execution.host.process import last_poll_at, note_poll
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import (
    Continue,
    LeaveThrottles,
    Pause,
    SetLimits,
    SetThrottle,
    StopEngine,
)
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    CancelAsked,
    CancelGate,
    EventCommandFailed,
    JournalEntry,
    PauseOrigin,
    SettingsGivenUp,
    StateEntered,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from support.cli.throttle_sandbox import BROKER_4, ORDERS, throttled
from support.journals.journals import CLUSTER, a_start, planned, started, step, written
from support.runs.engine_runs import PlannedRun
from support.simulated.clusters import a_cluster


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return written(tmp_path / "journal.db", a_start())


def test_stale_commands_to_leave_or_to_pause_for_a_signal_do_not_reach_the_next_engine(
    journal: Journal,
) -> None:
    stale = (StopEngine(), LeaveThrottles(), Pause(by=PauseOrigin.SIGNAL))
    asked = (*stale, Pause(), SetLimits({"replicas": 2}), SetThrottle(NO_THROTTLE), Continue())
    for command in asked:
        journal.ask(command, "ada@ops1 (1)")

    reject_stale_commands(journal)

    assert [each.command for each in journal.asked()] == list(asked[len(stale) :])


@pytest.mark.parametrize("leave", [None, *Leaving])
def test_an_engine_knows_when_it_is_to_leave_its_run(leave: Leaving | None, tmp_path: Path) -> None:
    launch = Launch(
        state=StateDir(tmp_path),
        name="drain",
        cluster_id="id",
        names={"bootstrap_server": "127.0.0.1:1"},
        until=None,
        concurrent=True,
        leave=leave,
    )

    options = engine_command.make_context("engine", launch.arguments[1:]).params

    assert (options["name"], options["leave"]) == ("drain", leave)


async def test_another_cluster_at_the_same_address_ends_the_engine_before_it_sends() -> None:
    cluster = a_cluster()
    observer = Observer(cluster.reader(), cluster.clock)

    seen = await SameClusterSource(observer, cluster.spec.name).poll(Interest())

    assert seen.cluster_id == cluster.spec.name
    with pytest.raises(RunProblem, match="to cluster simulated, but the run belongs to elsewhere"):
        await SameClusterSource(observer, "elsewhere").poll(Interest())
    await observer.aclose()


async def test_each_poll_is_noted_even_one_that_finds_the_wrong_cluster(tmp_path: Path) -> None:
    run, cluster = StateDir(tmp_path / "state").create_run("drain"), a_cluster()
    observer = Observer(cluster.reader(), cluster.clock)
    source = AfterPoll(SameClusterSource(observer, "elsewhere"), partial(note_poll, run))
    assert last_poll_at(run) is None

    with pytest.raises(RunProblem):
        await source.poll(Interest())
    first = last_poll_at(run)
    os.utime(run.last_poll, (0.0, 0.0))
    with pytest.raises(RunProblem):
        await source.poll(Interest())
    await observer.aclose()

    assert first is not None
    assert first <= (last_poll_at(run) or first)


def test_a_run_whose_start_was_cut_off_is_refused(tmp_path: Path) -> None:
    journal = written(tmp_path / "cut.db", [started(3), planned(2)])

    with pytest.raises(RunProblem, match="Its start was cut off, and nothing was sent"):
        read_run(journal, "drain")


async def test_a_signal_ends_the_engine_while_another_process_locks_its_journal(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.close()
    wait, loop = JournalWait(), asyncio.get_running_loop()
    left: asyncio.Future[str] = loop.create_future()
    other = sqlite3.connect(journal.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    leave_on_signals(left.set_result, wait)
    try:
        signal.raise_signal(signal.SIGTERM)
        with (
            Journal.open(journal.path, VirtualClock(), patience=wait) as owner,
            pytest.raises(JournalProblem, match="its process got SIGTERM while another process"),
        ):
            owner.append([step(0)])
        assert await left == "its process got SIGTERM"
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)
        other.close()

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ktui decides and sends nothing until the journal is free" in caplog.text


def test_a_wait_for_a_locked_journal_is_logged_with_its_length(
    caplog: pytest.LogCaptureFixture,
) -> None:
    JournalWait().ends(130.0)

    assert "the journal is free again after 2m 10s. The run continues" in caplog.text


def test_the_engine_log_has_decisions_and_failed_partitions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, run = VirtualClock().now(), Run("drain")
    failed = StateEntered(
        topic="orders", partition=1, state=State.FAILED, reason="refused 5 times: no"
    )
    for seq, event in enumerate([*a_start(), step(0, 7), step(1, 7), failed], start=1):
        run.apply(JournalEntry(seq, now, event))
    entries = [
        JournalEntry(4, now, step(0, 7)),
        JournalEntry(5, now, step(1, 7)),
        JournalEntry(6, now, failed),
    ]

    with caplog.at_level("INFO", "ktui.cli.engine_log"):
        EngineLog(run).write(entries)

    assert [record.getMessage() for record in caplog.records] == [
        "decision 7: 2 steps; 1 of 3 partitions have ended",
        "orders-1: failed: refused 5 times: no",
    ]


def test_the_engine_log_has_throttles_changed_or_given_up_but_not_each_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, run = VirtualClock().now(), Run("drain")
    stale = SettingsGivenUp(resource=BROKER_4, keys=("rate",), reason="someone else set it to 7")
    untouched = SettingsGivenUp(resource=ORDERS, keys=("list",), reason="")
    entries = [
        JournalEntry(n, now, e) for n, e in enumerate([*throttled(), stale, untouched], start=1)
    ]
    for entry in entries:
        run.apply(entry)

    with caplog.at_level("INFO", "ktui.cli.engine_log"):
        EngineLog(run).write(entries[len(a_start()) :])

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "decision 1: 1 step; 0 of 2 partitions have ended"),
        ("INFO", "throttle: none -> 50 MB/s into each broker, at once"),
        ("WARNING", "broker 4: rate left as it is: someone else set it to 7"),
    ]


def test_the_engine_log_has_cancels_refusals_and_the_cancel_gate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, run = VirtualClock().now(), Run("drain")
    orders_1 = TopicPartition("orders", 1)
    asked = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(orders_1,), who="ada@ops1 (1)")
    refused = StateEntered(
        topic="orders", partition=1, state=State.REFUSED, reason="broker 1 is offline"
    )
    back = StateEntered(topic="orders", partition=1, state=State.DONE)
    gate = CancelGate(shut=True, reason="ada@ops1 (1) at 14:00, to stop all of run drain")
    events = [*a_start(), step(1), asked, refused, gate, CancelGate(shut=False), back]
    entries = [JournalEntry(n, now, event) for n, event in enumerate(events, start=1)]
    for entry in entries:
        run.apply(entry)

    with caplog.at_level("INFO", "ktui.cli.engine_log"):
        EngineLog(run).write(entries[len(a_start()) + 1 :])

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "roll back orders-1, requested by ada@ops1 (1)"),
        ("WARNING", "orders-1: refused: broker 1 is offline"),
        ("WARNING", f"the cancel gate is shut by {gate.reason}: nothing but cancels is submitted"),
        ("INFO", "the cancel gate is open again"),
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@contextmanager
def an_engine(log: Path, most_bytes: int = 400) -> Iterator[logging.Logger]:
    """Yield a logger whose process writes its output to the log, as an engine does."""
    with log.open("a", encoding="utf-8") as output:
        handler = LogFile(log, output, (output.fileno(),), most_bytes)
        engine = logging.Logger("an engine")  # noqa: LOG001 - of this test alone
        engine.addHandler(handler)
        yield engine
        handler.close()


def messages(log: Path) -> list[str]:
    return [line.partition(" ")[2] for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_long_log_is_rotated_and_two_old_files_are_kept(log: Path) -> None:
    with an_engine(log) as engine:
        for number in range(60):
            engine.info("decision %d", number)

    kept = sorted(path.name for path in log.parent.iterdir())
    assert kept == ["engine.log", "engine.log.1", "engine.log.2"]
    assert all(path.stat().st_size < 450 for path in log.parent.iterdir())
    files = [log.with_name(name) for name in ("engine.log.2", "engine.log.1", "engine.log")]
    lines = [line for path in files for line in messages(path)]
    assert lines == [f"INFO decision {number}" for number in range(60)][-len(lines) :]
    assert len(lines) > 20
    assert {path.stat().st_mode & 0o077 for path in files[2:]} == {0}


def test_a_library_writes_to_the_new_file_after_a_rotation(log: Path) -> None:
    with log.open("a", encoding="utf-8") as output, an_engine(log) as engine:
        handler = LogFile(log, output, (output.fileno(),), 10)
        engine.addHandler(handler)
        engine.info("decision 1")
        engine.info("decision 2")
        os.write(output.fileno(), b"a library complains\n")

    assert messages(log)[-1] == "library complains"


def test_no_rotation_replaces_what_is_no_regular_file(log: Path) -> None:
    os.mkfifo(log.with_name("engine.log.2"))
    log.with_name("engine.log.1").symlink_to("elsewhere")

    with an_engine(log, 10) as engine:
        for number in range(3):
            engine.info("decision %d", number)

    assert log.with_name("engine.log.2").is_fifo()
    assert log.with_name("engine.log.1").is_symlink()
    assert len(messages(log)) == 3


def test_output_that_goes_elsewhere_rotates_no_log(log: Path) -> None:
    log.write_text("another engine's " * 100, encoding="utf-8")
    elsewhere = log.with_name("terminal")

    with elsewhere.open("w", encoding="utf-8") as output:
        handler = LogFile(log, output, (output.fileno(),), 10)
        for number in range(3):
            handler.handle(logging.makeLogRecord({"msg": f"decision {number}"}))

    assert len(messages(elsewhere)) == 3
    assert sorted(path.name for path in log.parent.iterdir()) == ["engine.log", "terminal"]


def test_repeated_messages_are_logged_once_with_their_count(log: Path) -> None:
    with an_engine(log, 10_000) as engine:
        for _ in range(42):
            engine.warning("the cluster is lost")
        engine.info("decision 7")
        engine.info("decision 7")

    assert messages(log) == [
        "WARNING the cluster is lost",
        "WARNING repeated 41 times: the cluster is lost",
        "INFO decision 7",
        "INFO repeated once: decision 7",
    ]


def test_a_follower_misses_no_warning_when_the_log_rotates(log: Path) -> None:
    with an_engine(log) as engine:
        warnings = WarningReader(log)
        received = []
        for number in range(40):
            engine.warning("trouble %d", number)
            if number % 3 == 0:
                received += warnings.new()
        received += warnings.new()

    assert received == [f"trouble {number}" for number in range(40)]


def test_a_follower_gets_only_new_and_complete_warnings(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("2026-11-21T12:00:00.000Z WARNING before\n")
    warnings = WarningReader(log)
    with log.open("a") as file:
        file.write("2026-11-21T12:00:01.000Z INFO decision 1\n")
        file.write("2026-11-21T12:00:02.000Z WARNING the cluster is lost: \x1b[2J\n")
        file.write("2026-11-21T12:00:03.000Z WARNING half")

    assert warnings.new() == ["the cluster is lost: \\x1b[2J"]
    with log.open("a") as file:
        file.write(" a line\n")
    assert warnings.new() == ["half a line"]
    assert warnings.new() == []


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (metrics, "metrics_text", KeyError("odd")),
        (threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
)
def test_metrics_are_written_again_after_a_failure_of_an_unknown_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    clock, file = VirtualClock(), tmp_path / "drain.prom"
    with written(tmp_path / "journal.db", a_start(2)) as journal, RunMetrics(clock) as writing:
        run = Run("drain").fold(journal.entries())
        writing.begin(run, this_process(), str(file), EarlierRuns(StateDir(tmp_path / "state")))
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, fails)
            writing.write_if_due({})
        assert not file.exists()
        clock.pass_time(EVERY_S)
        writing.write_if_due({})

    assert "ktui_engine_up" in file.read_text()


HOSTILE = "or\x1b[2Jders\u202e"


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def a_run() -> Run:
    entries = enumerate(a_start(), start=1)
    return Run("drain").fold(JournalEntry(seq, FIRST_MOMENT, event) for seq, event in entries)


def test_the_command_gets_the_names_as_they_are_and_a_sentence_safe_to_show(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stalls = [
        JournalEntry(seq, FIRST_MOMENT, StateEntered(topic=HOSTILE, partition=seq, state=state))
        for seq, state in ((7, State.STALLED), (8, State.STALLED), (9, State.DONE))
    ]

    with RunNotices(VirtualClock()) as notices:
        notices.begin(a_run(), python(f"open({str(out)!r}, 'wb').write(open(0, 'rb').read())"))
        notices.take(stalls)

    notice = json.loads(out.read_text())
    assert out.read_text().isascii() is False
    assert notice["text"] == "run drain: or\\x1b[2Jders\\u202e-7: stalled; and 1 more"
    assert (notice["run"], notice["cluster_id"], notice["kind"]) == ("drain", CLUSTER, "stall")
    assert [(event["seq"], event["topic"]) for event in notice["events"]] == [
        (7, HOSTILE),
        (8, HOSTILE),
    ]


def test_an_engine_that_dies_of_an_error_says_so_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    notices = RunNotices(VirtualClock())
    notices.begin(a_run(), python(f"open({str(out)!r}, 'wb').write(open(0, 'rb').read())"))

    notices.__exit__(JournalProblem, JournalProblem("the disk is full"), None)

    notice = json.loads(out.read_text())
    assert notice["kind"] == "engine_died"
    assert notice["text"] == "the engine of run drain has died: the disk is full"


async def test_a_failure_of_the_command_is_an_event_of_the_run_which_goes_on(
    tmp_path: Path,
) -> None:
    failed = EventCommandFailed(reason="--on-event page ended with exit code 1")
    waiting = [failed]
    orders = TopicPartition("orders", 0)
    run = PlannedRun(a_cluster(), tmp_path, {orders: (1, 2, 4)}, Limits())
    run.news = lambda: [waiting.pop()] if waiting else []

    ended = await run.to_its_end()

    assert ended.ended
    assert run.events.count(failed) == 1
