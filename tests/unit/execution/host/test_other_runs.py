"""The runs beside one are known by their names, through what they have in flight."""

from __future__ import annotations

from pathlib import Path

from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import OtherRuns, find_movers
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import AnyRunEvent, StateEntered
from ktui.execution.run.states import State
from support.journals.journals import (
    CLUSTER,
    a_start,
    accepted,
    ended,
    over,
    planned,
    started,
    step,
    written,
)

MOVED = TopicPartition("orders", 0)


def a_run(state: StateDir, name: str, *more: AnyRunEvent) -> None:
    run = state.create_run(name)
    written(run.journal, [*a_start(2), *more]).close()


def test_a_run_moves_what_it_has_in_flight(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    a_run(state, "drain", step(0), accepted(0))
    assert find_movers(state, CLUSTER) == {MOVED: "drain"}
    assert find_movers(state, CLUSTER, but="drain") == {}
    assert find_movers(state, "another-cluster") == {}


def test_steps_that_are_over_and_runs_that_have_ended_move_nothing(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    a_run(state, "between", step(0), accepted(0), over(0))
    a_run(state, "ended", step(0), accepted(0), ended(1))
    assert find_movers(state, CLUSTER) == {}


def test_a_later_look_reads_what_is_new(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    runs = OtherRuns(state, CLUSTER)
    assert runs.movers() == {}
    a_run(state, "drain", step(0), accepted(0))
    assert runs.movers() == {MOVED: "drain"}
    runs.close()
    assert runs.movers() == {}


def test_an_unreadable_run_moves_nothing(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.create_run("broken").journal.write_bytes(b"no journal")
    a_run(state, "drain", step(0), accepted(0))
    assert find_movers(state, CLUSTER) == {MOVED: "drain"}


def test_a_run_that_is_only_being_started_does_not_wait_for_resume(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    run = state.create_run("starting")
    written(run.journal, [started(2), planned(2)]).close()
    a_run(state, "left")
    others = OtherRuns(state, CLUSTER)

    assert [each.name for each in others.alive()] == ["left"]

    others.close()


def test_a_run_counts_as_done_only_what_is_at_its_target(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    gone = StateEntered(topic="orders", partition=0, state=State.CHANGED_ELSEWHERE)
    a_run(state, "drain", step(0), accepted(0), gone)
    others = OtherRuns(state, CLUSTER)

    (drain,) = others.alive()

    assert (drain.done, drain.partitions) == (0, 2)
    others.close()
