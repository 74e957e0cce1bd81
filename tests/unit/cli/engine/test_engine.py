"""An engine process is not misled by what an earlier one left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from ktui.cli.engine.command import (
    HeartbeatSource,
    SameClusterSource,
    leave_on_signals,
    read_run,
    reject_stale_commands,
)
from ktui.cli.engine.command import command as engine_command
from ktui.cli.engine.log import EngineLog, JournalWait
from ktui.cli.process.launch import Launch, Leaving
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import JournalProblem, RunProblem
from ktui.execution.host.process import Heartbeat, last_poll_at
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
    JournalEntry,
    PauseOrigin,
    SettingsGivenUp,
    StateEntered,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, planned, started, step, written
from support.journals.throttled_journals import BROKER_4, ORDERS, throttled
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
    source = HeartbeatSource(SameClusterSource(observer, "elsewhere"), Heartbeat(run))
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

    with caplog.at_level("INFO", "ktui.cli.engine.log"):
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

    with caplog.at_level("INFO", "ktui.cli.engine.log"):
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

    with caplog.at_level("INFO", "ktui.cli.engine.log"):
        EngineLog(run).write(entries[len(a_start()) + 1 :])

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "roll back orders-1, requested by ada@ops1 (1)"),
        ("WARNING", "orders-1: refused: broker 1 is offline"),
        ("WARNING", f"the cancel gate is shut by {gate.reason}: nothing but cancels is submitted"),
        ("INFO", "the cancel gate is open again"),
    ]
