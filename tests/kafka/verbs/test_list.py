"""`ktui list` shows the reassignments of a real cluster as Kafka's own tool does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.lab.layout import Lab
from support.kafka.labs import listed as listed_by_the_tool
from support.kafka.slow_topic import hanging_moves


def ktui(lab: Lab, *arguments: str) -> str:
    command = [sys.executable, "-m", "ktui", "list", "--bootstrap-server", lab.bootstrap_servers]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def listed_by_ktui(lab: Lab) -> dict[TopicPartition, Reassignment]:
    answer = json.loads(ktui(lab, "--json"))
    return {
        TopicPartition(p["topic"], p["partition"]): Reassignment(
            tuple(p["replicas"]), tuple(p["adding"]), tuple(p["removing"])
        )
        for p in answer["partitions"]
    }


def test_list_agrees_with_kafkas_tool_and_reports_when_nothing_moves(lab: Lab) -> None:
    assert listed_by_ktui(lab) == listed_by_the_tool(lab) == {}
    assert ktui(lab) == "Nothing is being reassigned.\n"
    assert json.loads(ktui(lab, "--kafka-json")) == {}


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.soak)])
def test_it_agrees_with_kafkas_tool_on_what_moves_and_has_every_field_of_the_contract(
    lab: Lab, outage: Any, topic_name: str, count: int
) -> None:
    outage.kill(5)
    with hanging_moves(Connection.to(lab.bootstrap_servers), topic_name, count):
        mine = listed_by_ktui(lab)
        assert len(mine) == count
        assert mine == listed_by_the_tool(lab)
        plan = json.loads(ktui(lab, "--kafka-json"))
        one = json.loads(ktui(lab, "--json", "--partition", f"{topic_name}:1"))
        table = ktui(lab, "--topic", topic_name)

    assert plan["version"] == 1
    assert len(plan["partitions"]) == count
    assert plan["partitions"][0] == {"topic": topic_name, "partition": 0, "replicas": [1, 4, 5]}
    (partition,) = one["partitions"]
    assert next(iter(one)) == "schema_version"
    assert list(partition) == [
        *("topic", "topic_id", "partition", "replicas", "isr", "leader", "adding", "removing"),
        *("target", "original", "lag", "rate_bytes_s", "left_s", "batch", "step", "state"),
    ]
    assert (partition["topic"], partition["partition"]) == (topic_name, 1)
    assert len(partition["topic_id"]) == 22
    assert (partition["target"], partition["original"]) == ([2, 4, 5], [2])
    assert {lag["broker"] for lag in partition["lag"]} <= {4, 5}
    rows = [line.split()[0] for line in table.splitlines()[1:]]
    assert rows == [f"{topic_name}-{number}" for number in range(count)]


def test_a_partition_that_does_not_move_is_not_listed(lab: Lab, topic_name: str) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, topic_name, [[1]])
    try:
        for words in (("--topic", topic_name), ("--partition", f"{topic_name}:0")):
            assert ktui(lab, *words) == "Nothing of what you asked for is being reassigned.\n"
    finally:
        delete_topics(connection, [topic_name])


def test_a_topic_that_the_cluster_does_not_have_is_refused(lab: Lab) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        ktui(lab, "--topic", "no-such-topic")

    assert refused.value.returncode == 2
    assert "the cluster does not have topic 'no-such-topic'" in refused.value.stderr


def test_a_context_that_names_another_cluster_by_its_id_is_refused(
    lab: Lab, tmp_path: Path
) -> None:
    servers = f"properties: {{bootstrap.servers: '{lab.bootstrap_servers}'}}"
    (tmp_path / "config.yaml").write_text(
        f"contexts:\n  prod:\n    cluster_id: of-another\n    {servers}\n"
    )
    refused = subprocess.run(
        [sys.executable, "-m", "ktui", "list", "--context", "prod"],
        env=os.environ | {"KTUI_CONFIG_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "another cluster answers: its id is " in refused.stderr
    assert "and cluster_id is of-another. Nothing was sent." in refused.stderr
