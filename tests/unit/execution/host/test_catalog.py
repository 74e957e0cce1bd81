"""The list of runs: each in its current state, and anything that is not a run marked as such."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from ktui.execution.forecast.run_progress import RunProgress, all_runs
from ktui.execution.host.catalog import RunState, UnknownRun, find_run
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent, Paused, PauseOrigin, StateEntered, StepGate
from ktui.execution.run.states import Stage, State
from support.journals.journals import CLUSTER, a_start, ended, step, written


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
