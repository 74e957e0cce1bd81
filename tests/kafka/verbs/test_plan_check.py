"""`ktui plan check` and `ktui snapshot` read a real cluster and change nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.lab.layout import Lab
from ktui.simulated.scenario.library import load_scenario
from support.cli.start_sandbox import found
from support.kafka.labs import listed
from support.kafka.slow_topic import ORIGINAL, TARGET, slow_move


def check(lab: Lab, plan: dict[str, Any], exit_code: int) -> Any:
    command = [sys.executable, "-m", "ktui", "plan", "check", "-", "--json", "--steps"]
    done = subprocess.run(
        [*command, "--bootstrap-server", lab.bootstrap_servers],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (exit_code, "")
    return json.loads(done.stdout)


@pytest.fixture
def topic(lab: Lab, topic_name: str) -> Any:
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, topic_name, [[1, 2, 3], [2, 3, 1]])
    yield topic_name
    delete_topics(connection, [topic_name])


def test_a_plan_is_checked_against_the_cluster_and_nothing_is_sent(lab: Lab, topic: str) -> None:
    stays = {"topic": topic, "partition": 1, "replicas": [2, 3, 1]}
    moves = {"topic": topic, "partition": 0, "replicas": [4, 2, 3]}
    wrong = {"topic": topic[:-1], "partition": 0, "replicas": [4, 2, 77]}

    good = check(lab, {"version": 1, "partitions": [moves, stays]}, 0)
    bad = check(lab, {"version": 1, "partitions": [wrong]}, 2)

    assert (found(good, "problem"), found(good, "warning")) == ([], [])
    assert (good["summary"]["at_target"], good["summary"]["replica_movements"]) == (1, 1)
    assert [partition["steps"] for partition in good["partitions"]] == [
        [{"replicas": [1, 2, 3, 4], "elect": None}, {"replicas": [4, 2, 3], "elect": None}],
        [],
    ]
    loads = {load["broker"]: load for load in good["brokers"]}
    assert (good["bytes_to_copy"], good["sizes_unknown"]) == (0, 0)
    assert {b for b, load in loads.items() if load["gains"] or load["loses"]} == {1, 4}
    assert 0 < loads[4]["room_after_bytes"] <= loads[4]["disk_bytes"]
    assert good["how_long"]["time_s"]["middle"] == 2
    assert {p["kind"]: p["sentence"].split("; ")[0] for p in found(bad, "problem")} == {
        "topic unknown": f"the cluster has no topic {topic[:-1]}",
        "broker unknown": "the cluster has no broker 77, only 1 to 5",
    }
    assert any(topic in problem["sentence"].split("; ")[1] for problem in found(bad, "problem"))
    assert listed(lab) == {}


def test_a_snapshot_has_the_reassignment_that_is_under_way_and_its_throttle(
    lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "twin.yaml"
    command = [sys.executable, "-m", "ktui", "snapshot", "-o", str(file), "--measure", "3s"]
    with slow_move(Connection.to(lab.bootstrap_servers), topic_name):
        done = subprocess.run(
            [*command, "--bootstrap-server", lab.bootstrap_servers],
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    twin = load_scenario(file)
    spec = next(topic for topic in twin.spec.topics if topic.name == topic_name)
    moving = Replica(TopicPartition(topic_name, 0), 4)
    assert {*spec.replicas[0]} == {*ORIGINAL}
    assert spec.start.reassigning == {0: TARGET}
    assert 0 <= spec.start.held.get(moving, 0) < spec.size(0)
    assert 7 * 2**20 <= spec.size(0) < 8 * 2**20
    assert spec.configs[FOLLOWER_REPLICAS] == "0:4"
    brokers = {broker.id: broker for broker in twin.spec.brokers}
    assert brokers.keys() == {1, 2, 3, 4, 5}
    assert brokers[4].configs[FOLLOWER_RATE] == "70000"
    assert twin.spec.version == lab.layout.kafka_version.rpartition(".")[0]
    assert twin.snapshot is not None
