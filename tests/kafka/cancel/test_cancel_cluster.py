"""`ktui cancel --cluster` on a real cluster, beside reassignments by Kafka's own tool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ktui.execution.run.events import Answered
from ktui.kafka.workload import delete_topics
from ktui.lab.layout import Lab
from support.cli.shell import Done, Shell, ended
from support.kafka import labs
from support.kafka.slow_topic import NEW, OLD, SlowTopic


@pytest.fixture
def topic(lab: Lab, topic_name: str, shell: Shell) -> Iterator[SlowTopic]:
    topic = SlowTopic(lab, topic_name)
    yield topic
    topic.let_go()
    shell.close()
    delete_topics(topic.connection, [topic_name])


def others_move(lab: Lab, shell: Shell, targets: list[dict[str, Any]]) -> None:
    """Reassign partitions with Kafka's own tool."""
    plan = shell.plan("theirs", targets)
    words = labs.command(lab, "--execute", "--reassignment-json-file", plan)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "Successfully started" in done.stdout, done.stdout


def parsed_answer(done: Done, code: int = 0) -> Any:
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_cancel_cluster_cancels_foreign_moves_and_asks_a_live_run_to_stop(
    lab: Lab, shell: Shell, topic: SlowTopic
) -> None:
    others_move(lab, shell, topic.targets[:2])
    run = shell.begin(
        "start", shell.plan("ours", topic.targets[2:]), "--headless", "--partitions", "2",
        "--concurrent",
    )  # fmt: skip
    shell.wait_for("ours", Answered, 2)
    before = {tp.partition for tp in labs.listed(lab) if tp.topic == topic.name}

    cancel = ("cancel", "--cluster", "--stop", "--topic", topic.name)
    shown = shell.ktui(*cancel, "--dry-run")
    answer = parsed_answer(shell.ktui(*cancel, "--json"))
    code = ended(run).returncode

    assert before == {0, 1, 2, 3}
    assert f"{topic.name}-0  not known" in shown.stdout
    assert "run ours cancels its own partitions: 2 in flight are cancelled" in shown.stdout
    outcomes = [(p["run"], p["from"], p["to"], p["outcome"]) for p in answer["partitions"]]
    assert outcomes == [
        *[(None, [1, 3, 2], NEW, "stopped")] * 2,
        *[("ours", OLD, [*OLD, 4], "stopped")] * 2,
    ]
    assert [p["replicas"] for p in answer["partitions"][:2]] == [[1, 3, 2]] * 2
    assert not [tp for tp in labs.listed(lab) if tp.topic == topic.name]
    assert code == 3
    log = (shell.state.path / "cancels.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in log] == ["asked"] * 2 + ["stopped"] * 2
