"""Through a proxy that changes what brokers say, ktui says what it can do, and begins nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from kafka.protocol.api_key import ApiKey

from ktui.cli.main import ktui
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.kafka.proxy import ProxiedCluster

TOPIC, UNKNOWN_TOPIC = 2, 3


def through(lab: Lab, key: int, edit: Any) -> ProxiedCluster:
    brokers = {node.id: ("127.0.0.1", node.port) for node in lab.brokers}
    return ProxiedCluster(brokers, edits={key: edit})


def know_no_topic(answer: Any) -> None:
    """What a proxy that renames topics in other requests makes of DescribeConfigs."""
    for result in answer.results:
        if result.resource_type == TOPIC:
            result.error_code, result.configs = UNKNOWN_TOPIC, []


def hide_log_dirs(answer: Any) -> None:
    answer.results = []


def test_a_topic_that_a_proxy_renames_is_bad_for_the_doctor_and_refused_at_start(
    lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    workload.create_topic(Connection.to(lab.bootstrap_servers), topic_name, [[1, 2]])
    plan = tmp_path / "plan.json"
    move = {"topic": topic_name, "partition": 0, "replicas": [1, 3]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    state = ["--state-dir", str(tmp_path / "state")]
    with through(lab, ApiKey.DescribeConfigs, know_no_topic) as proxied:
        where = ["--bootstrap-server", proxied.bootstrap_servers]
        examined = CliRunner().invoke(ktui, ["doctor", *where, *state])
        checked = CliRunner().invoke(ktui, ["plan", "check", str(plan), *where, *state])
        started = CliRunner().invoke(ktui, ["start", str(plan), *where, *state])

        assert proxied.writes_seen == []
    assert "BAD   the metadata shows topic" in examined.stdout
    assert examined.exit_code == 1
    for refused in (checked, started):
        assert f"problem: topic {topic_name} is in the metadata" in refused.stderr + refused.stdout
        assert refused.exit_code == 2
    workload.delete_topics(Connection.to(lab.bootstrap_servers), [topic_name])


def test_an_empty_answer_is_called_empty_and_not_a_missing_permission(lab: Lab) -> None:
    with through(lab, ApiKey.DescribeLogDirs, hide_log_dirs) as proxied:
        where = ["--bootstrap-server", proxied.bootstrap_servers]
        examined = CliRunner().invoke(ktui, ["doctor", *where])

    assert "describing log dirs (broker 1): failed: the answer is empty" in examined.stdout
    assert "not authorized" not in examined.stdout
