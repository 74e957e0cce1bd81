"""`ktui plan check` checks a plan against a real cluster and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.lab.layout import Lab
from support.kafka.reassign_tool import listed


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

    assert (good["problems"], good["warnings"]) == ([], [])
    assert (good["summary"]["at_target"], good["summary"]["replica_movements"]) == (1, 1)
    assert [partition["steps"] for partition in good["partitions"]] == [
        [{"replicas": [1, 2, 3, 4], "elect": None}, {"replicas": [4, 2, 3], "elect": None}],
        [],
    ]
    figures = good["preflight"]
    loads = {load["broker"]: load for load in figures["brokers"]}
    assert (figures["bytes_to_copy"], figures["sizes_unknown"]) == (0, 0)
    assert loads.keys() == {1, 4}
    assert 0 < loads[4]["room_after_bytes"] <= loads[4]["disk_bytes"]
    assert figures["time_s"]["middle"] == 2
    assert {p["kind"]: p["sentence"].split("; ")[0] for p in bad["problems"]} == {
        "topic unknown": f"the cluster has no topic {topic[:-1]}",
        "broker unknown": "the cluster has no broker 77, only 1 to 5",
    }
    assert any(topic in problem["sentence"].split("; ")[1] for problem in bad["problems"])
    assert listed(lab) == {}
