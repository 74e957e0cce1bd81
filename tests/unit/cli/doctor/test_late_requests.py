"""The doctor names a reassignment that a late request of an ended run has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.doctor.findings import Level, judge_late
from ktui.cluster.partition import Reassignment
from ktui.execution.forecast.run_progress import read_progress
from ktui.execution.host.catalog import late_requests
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import Ended, OpenRequest, StateEntered
from ktui.execution.run.states import State
from support.journals.journals import a_start, accepted, started, step, written
from support.simulated.moving_clusters import tp

CLUSTER = started(1).cluster_id
ORDERS = tp("orders-0")
ENDED = Ended(counts={State.STOPPED: 1}, open=(OpenRequest(topic="orders", partition=0, node=4),))


def a_run(folder: Path, *, ended: bool) -> StateDir:
    state = StateDir(folder / "state")
    events = [*a_start(1), step(0), *([ENDED] if ended else [])]
    written(state.create_run("drain").journal, events).close()
    return state


def as_requested() -> Reassignment:
    requested = step(0)
    return Reassignment(
        (*requested.replicas, *requested.removing), requested.adding, requested.removing
    )


@pytest.mark.parametrize(
    ("ended", "level", "fix"),
    [
        (True, Level.WARNING, "--partition orders:0 --stop"),
        (False, Level.NOTE, "ktui resume drain"),
    ],
)
def test_a_reassignment_that_an_abandoned_run_requested_is_named(
    tmp_path: Path, *, ended: bool, level: Level, fix: str
) -> None:
    state = a_run(tmp_path, ended=ended)

    (finding,) = map(judge_late, late_requests(state, CLUSTER, {ORDERS: as_requested()}))

    assert finding.level is level
    assert "as run drain asked" in finding.what
    assert fix in finding.fix


def test_someone_elses_reassignment_is_not_mistaken_for_a_late_request(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=True)
    theirs = Reassignment((7, 8, 9), (7, 8, 9), ())

    assert late_requests(state, CLUSTER, {ORDERS: theirs}) == []
    assert late_requests(state, "elsewhere", {ORDERS: as_requested()}) == []


def test_a_reassignment_that_a_live_run_requested_is_not_late(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=False)

    with own_run(state.run("drain")):
        assert late_requests(state, CLUSTER, {ORDERS: as_requested()}) == []


def test_a_live_run_s_step_is_not_taken_for_that_of_an_earlier_run(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=True)
    written(state.create_run("again").journal, [*a_start(1), step(0)]).close()

    with own_run(state.run("again")):
        assert late_requests(state, CLUSTER, {ORDERS: as_requested()}) == []


def test_a_request_that_was_answered_is_never_late(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    stopped = StateEntered(topic="orders", partition=0, state=State.STOPPED)
    events = [*a_start(1), step(0), accepted(0), stopped, Ended(counts={State.STOPPED: 1})]
    written(state.create_run("drain").journal, events).close()

    assert late_requests(state, CLUSTER, {ORDERS: as_requested()}) == []


def test_the_summary_of_an_ended_run_lists_its_open_requests(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=True)

    assert read_progress(state.run("drain")).open_requests == ENDED.open
