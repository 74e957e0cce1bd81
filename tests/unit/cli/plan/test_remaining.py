"""`ktui plan remaining` makes a plan of the unfinished partitions of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import AnyRunEvent, CancelAsked, StateEntered
from ktui.execution.run.states import CancelKind, State
from ktui.planning.read.read import read_plan
from support.journals.journals import a_start, accepted, over, step, written


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def entered(partition: int, state: State) -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state)


def remaining(here: StateDir, *more: AnyRunEvent, options: tuple[str, ...] = ()) -> Result:
    run = here.create_run("drain")
    written(run.journal, [*a_start(5), *more]).close()
    words = ["plan", "remaining", "drain", "--state-dir", str(here.path), *options]
    return CliRunner().invoke(ktui, words)


MIDDLE = (
    step(0), accepted(0), entered(0, State.DONE), step(1), accepted(1),
    entered(2, State.FAILED), entered(3, State.TOPIC_GONE),
)  # fmt: skip


def test_plan_remaining_prints_a_plan_of_the_unfinished_partitions(here: StateDir) -> None:
    done = remaining(here, *MIDDLE)

    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": n, "replicas": [1, 2, 4]} for n in (1, 2, 4)
        ],
    }


def test_plan_remaining_includes_stopped_and_rolled_back_partitions(here: StateDir) -> None:
    both = tuple(TopicPartition("orders", n) for n in (0, 1))
    events = (
        entered(2, State.DONE), entered(3, State.DONE), entered(4, State.DONE), step(0),
        CancelAsked(kind=CancelKind.ROLLBACK, partitions=both), over(0), entered(0, State.DONE),
    )  # fmt: skip

    done = remaining(here, *events)

    assert [each["partition"] for each in json.loads(done.stdout)["partitions"]] == [0, 1]


def test_plan_remaining_writes_the_plan_to_a_file(here: StateDir, tmp_path: Path) -> None:
    done = remaining(here, *MIDDLE, options=("--output", str(tmp_path / "rest.json")))

    assert (done.exit_code, done.stdout) == (0, "")
    assert [t.partition for t in read_plan(tmp_path / "rest.json").partitions] == [1, 2, 4]
    assert "3 partitions" in done.stderr


def test_plan_remaining_of_a_finished_run_is_refused(here: StateDir) -> None:
    done = remaining(here, *(entered(n, State.DONE) for n in range(5)))

    assert isinstance(done.exception, RunRefused)
    assert "nothing is left of run drain" in str(done.exception)
