"""The way back from a run is a plan: written when the run is created, printed on request."""

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


def entry(partition: int, replicas: list[int]) -> dict[str, object]:
    return {
        "topic": "orders",
        "partition": partition,
        "replicas": replicas,
        "original_replicas": replicas,
    }


def test_plan_rollback_lists_the_original_replicas_in_their_order(here: StateDir) -> None:
    moved_by_others = msgspec.structs.replace(step(1), before=(3, 2, 1))

    result = rollback(here, step(0), moved_by_others)

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "version": 1,
        "partitions": [entry(0, [1, 2, 3]), entry(1, [3, 2, 1]), entry(2, [1, 2, 3])],
    }


def test_plan_rollback_writes_a_plan_to_a_file(here: StateDir, tmp_path: Path) -> None:
    result = rollback(here, options=("-o", str(tmp_path / "back.json")))

    assert (result.exit_code, result.stdout) == (0, "")
    assert "3 partitions" in result.stderr
    plan = read_plan(tmp_path / "back.json")
    assert [target.replicas for target in plan.partitions] == [(1, 2, 3)] * 3


def test_plan_rollback_leaves_out_partitions_of_deleted_topics(here: StateDir) -> None:
    gone = [StateEntered(topic="orders", partition=n, state=State.TOPIC_GONE) for n in range(3)]

    some = json.loads(rollback(here, gone[1]).stdout)["partitions"]

    assert [each["partition"] for each in some] == [0, 2]


def test_plan_rollback_without_a_partition_left_is_refused(here: StateDir) -> None:
    gone = [StateEntered(topic="orders", partition=n, state=State.TOPIC_GONE) for n in range(3)]

    result = rollback(here, *gone)

    assert isinstance(result.exception, RunRefused)
    assert "run drain has no partition to roll back" in str(result.exception)


class Spawned(Exception):
    """An engine would have been started."""


def launch_run(here: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(*_: object) -> None:
        raise Spawned

    monkeypatch.setattr("ktui.cli.process.launch.start_engine", spawn)
    launch = Launch(
        state=here, name="drain", cluster_id="id", names={}, until=None, concurrent=False
    )
    first: list[AnyRunEvent] = [started(2), planned(2)]
    assert isinstance(first[0], Started)
    launch_new_run(launch, first)


def test_a_new_run_has_its_rollback_plan_before_its_engine_starts(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Spawned):
        launch_run(here, monkeypatch)

    plan = here.run("drain").rollback
    assert json.loads(plan.read_text())["partitions"] == [entry(0, [1, 2, 3]), entry(1, [1, 2, 3])]
    assert len(read_plan(plan).partitions) == 2


def test_a_run_whose_rollback_plan_cannot_be_written_is_not_created(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunProblem("rollback.json: cannot be written: No space left on device")

    monkeypatch.setattr("ktui.execution.host.launch.write_rollback", full)

    with pytest.raises(RunProblem, match="No space left"):
        launch_run(here, monkeypatch)

    assert here.run_dirs() == []
