"""Reassignments as Kafka's own tool lists them, also before 4.3; and viewing changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka.protocol.api_key import ApiKey

from ktui.cli.main import ktui
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.lab.layout import Lab
from support.kafka.labs import listed as listed_by_the_tool
from support.kafka.proxy import ProxiedCluster
from support.kafka.slow_topic import hanging_moves, slow_move
from support.views.terminal import Terminal


def listed(lab: Lab, *arguments: str) -> str:
    command = [sys.executable, "-m", "ktui", "list", "--bootstrap-server", lab.bootstrap_servers]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def listed_by_ktui(lab: Lab) -> dict[TopicPartition, Reassignment]:
    answer = json.loads(listed(lab, "--json"))
    return {
        TopicPartition(p["topic"], p["partition"]): Reassignment(
            tuple(p["replicas"]), tuple(p["adding"]), tuple(p["removing"])
        )
        for p in answer["partitions"]
    }


def test_list_agrees_with_kafkas_tool_and_reports_when_nothing_moves(lab: Lab) -> None:
    assert listed_by_ktui(lab) == listed_by_the_tool(lab) == {}
    assert listed(lab) == "Nothing is being reassigned.\n"
    assert json.loads(listed(lab, "--kafka-json")) == {}


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.soak)])
def test_it_agrees_with_kafkas_tool_on_what_moves_and_has_every_field_of_the_contract(
    lab: Lab, outage: Any, topic_name: str, count: int
) -> None:
    outage.kill(5)
    with hanging_moves(Connection.to(lab.bootstrap_servers), topic_name, count):
        mine = listed_by_ktui(lab)
        assert len(mine) == count
        assert mine == listed_by_the_tool(lab)
        plan = json.loads(listed(lab, "--kafka-json"))
        one = json.loads(listed(lab, "--json", "--partition", f"{topic_name}:1"))
        table = listed(lab, "--topic", topic_name)

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
            assert listed(lab, *words) == "Nothing of what you asked for is being reassigned.\n"
    finally:
        delete_topics(connection, [topic_name])


def test_a_topic_that_the_cluster_does_not_have_is_refused(lab: Lab) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        listed(lab, "--topic", "no-such-topic")

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


def test_an_older_kafka_is_listed_and_examined_as_one_that_ktui_is_tested_with(
    old_lab: Lab,
) -> None:
    where = ["--bootstrap-server", old_lab.bootstrap_servers]
    listed, examined = (CliRunner().invoke(ktui, [verb, *where]) for verb in ("list", "doctor"))

    assert (listed.stdout, listed.stderr) == ("Nothing is being reassigned.\n", "")
    assert "ktui is tested with Kafka 4.1" in examined.stdout
    assert "could not read" not in examined.stdout


ENTER, ESCAPE = "\r", "\x1b"
WATCH = "v view"
SCREENS = ((ENTER, "] next"), ("b", "its partitions"), ("e", "x export"), ("?", "/ search"))
"""The key of each screen, and words that only its footer has."""


def back_from(sign: str, screen: str) -> bool:
    return WATCH in screen and sign not in screen


def proxied(lab: Lab) -> ProxiedCluster:
    return ProxiedCluster({node.id: ("127.0.0.1", node.port) for node in lab.brokers})


def test_the_live_view_sends_no_write_request_on_any_key(lab: Lab, topic_name: str) -> None:
    topic = topic_name[-12:]
    with (
        slow_move(Connection.to(lab.bootstrap_servers), topic),
        proxied(lab) as cluster,
        Terminal(
            [sys.executable, "-m", "ktui", "--bootstrap-server", cluster.bootstrap_servers]
        ) as terminal,
    ):
        terminal.wait_for(topic)
        for key, sign in SCREENS:
            terminal.send(key)
            terminal.wait_for(sign)
            terminal.send(ESCAPE)
            terminal.wait_for(partial(back_from, sign), why="the list again")
        terminal.send("v")
        terminal.wait_for("unhealthy")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0

        assert cluster.seen[ApiKey.ListPartitionReassignments] > 0
        assert cluster.seen[ApiKey.ListOffsets] > 0
        assert cluster.writes_seen == []


def test_list_doctor_and_snapshot_send_no_write_request(lab: Lab) -> None:
    with proxied(lab) as cluster:
        for words in (("list",), ("doctor",), ("snapshot", "--measure", "0")):
            command = [sys.executable, "-m", "ktui", *words]
            command += ["--bootstrap-server", cluster.bootstrap_servers]
            subprocess.run(command, check=True, capture_output=True)

        assert cluster.seen[ApiKey.ListPartitionReassignments] > 1
        assert cluster.writes_seen == []
