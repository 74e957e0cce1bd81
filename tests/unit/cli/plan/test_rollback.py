"""The way back from a run is a plan: written when it is made, and given at any time after."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cli.process.launch import Launch, launch_new_run
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import AnyRunEvent, Started, StateEntered
from ktui.execution.run.states import State
from ktui.planning.read.read import read_plan
from support.journals.journals import a_start, planned, started, step, written


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def rollback(here: StateDir, *more: AnyRunEvent, options: tuple[str, ...] = ()) -> Result:
    run = here.create_run("drain")
    written(run.journal, [*a_start(3), *more]).close()
    words = ["plan", "rollback", "drain", "--state-dir", str(here.path), *options]
    return CliRunner().invoke(ktui, words)


def of(partition: int, replicas: list[int]) -> dict[str, object]:
    return {
        "topic": "orders",
        "partition": partition,
        "replicas": replicas,
        "original_replicas": replicas,
    }


def test_it_gives_the_replicas_from_before_in_their_order(here: StateDir) -> None:
    moved_by_others = msgspec.structs.replace(step(1), before=(3, 2, 1))

    told = rollback(here, step(0), moved_by_others)

    assert (told.exit_code, told.stderr) == (0, "")
    assert json.loads(told.stdout) == {
        "version": 1,
        "partitions": [of(0, [1, 2, 3]), of(1, [3, 2, 1]), of(2, [1, 2, 3])],
    }


def test_it_is_written_to_a_file_that_is_a_plan(here: StateDir, tmp_path: Path) -> None:
    told = rollback(here, options=("-o", str(tmp_path / "back.json")))

    assert (told.exit_code, told.stdout) == (0, "")
    assert "3 partitions" in told.stderr
    plan = read_plan(tmp_path / "back.json")
    assert [target.replicas for target in plan.partitions] == [(1, 2, 3)] * 3


def test_partitions_whose_topics_are_gone_are_left_out(here: StateDir) -> None:
    gone = [StateEntered(topic="orders", partition=n, state=State.TOPIC_GONE) for n in range(3)]

    some = json.loads(rollback(here, gone[1]).stdout)["partitions"]

    assert [each["partition"] for each in some] == [0, 2]


def test_where_nothing_is_left_to_go_back_with_that_is_said(here: StateDir) -> None:
    gone = [StateEntered(topic="orders", partition=n, state=State.TOPIC_GONE) for n in range(3)]

    told = rollback(here, *gone)

    assert isinstance(told.exception, RunRefused)
    assert "run drain has no partition to roll back" in str(told.exception)


class Spawned(Exception):
    """An engine would have been started."""


def begun(here: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(*_: object) -> None:
        raise Spawned

    monkeypatch.setattr("ktui.cli.process.launch.start_engine", spawn)
    launch = Launch(
        state=here, name="drain", cluster_id="id", names={}, until=None, concurrent=False
    )
    first: list[AnyRunEvent] = [started(2), planned(2)]
    assert isinstance(first[0], Started)
    launch_new_run(launch, first)


def test_a_run_has_it_beside_its_journal_before_anything_is_sent(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Spawned):
        begun(here, monkeypatch)

    plan = here.run("drain").rollback
    assert json.loads(plan.read_text())["partitions"] == [of(0, [1, 2, 3]), of(1, [1, 2, 3])]
    assert len(read_plan(plan).partitions) == 2


def test_a_run_whose_way_back_cannot_be_written_is_not_made(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunProblem("rollback.json: cannot be written: No space left on device")

    monkeypatch.setattr("ktui.execution.host.launch.write_rollback", full)

    with pytest.raises(RunProblem, match="No space left"):
        begun(here, monkeypatch)

    assert here.run_dirs() == []
