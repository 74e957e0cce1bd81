"""Wrong passwords and missing permissions take one sentence, and no secret is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ktui.cluster.ports import CanaryObstacles
from ktui.kafka.canary import find_obstacles
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, fill
from ktui.lab import security
from ktui.lab.layout import Lab
from support.contract.world import until
from support.views.terminal import Terminal

WRONG = "not-the-password-at-all"


def ktui(verb: str, command_config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ktui", verb, "--command-config", str(command_config)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


def test_the_superuser_may_do_everything(secured_lab: Lab) -> None:
    done = ktui("doctor", secured_lab.client_file("admin"))

    assert "every permission that ktui needs is granted" in done.stdout


def test_a_read_only_user_can_list_and_sees_which_permissions_are_missing(
    secured_lab: Lab,
) -> None:
    viewer = secured_lab.client_file("viewer")

    assert ktui("list", viewer).stdout == "Nothing is being reassigned.\n"
    permissions = json.loads(ktui("doctor", viewer, "--json").stdout)["findings"]["permissions"]

    findings = " ".join(finding["what"] for finding in permissions)
    assert "Alter on the cluster is not granted" in findings
    assert "Describe on the cluster" not in findings


def test_a_read_only_user_can_check_a_plan_but_not_start_it(
    secured_lab: Lab, tmp_path: Path, topic_name: str
) -> None:
    viewer, admin = secured_lab.client_file("viewer"), secured_lab.client_file("admin")
    create_topic(Connection.of(command_config=admin), topic_name, [[1]])
    plan, state = tmp_path / "plan.json", tmp_path / "state"
    targets = [{"topic": topic_name, "partition": 0, "replicas": [2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": targets}))

    check = subprocess.run(
        [sys.executable, "-m", "ktui", "plan", "check", str(plan), "--command-config", str(viewer)],
        capture_output=True,
        text=True,
        check=False,
    )
    start = ktui("start", viewer, str(plan), "--throttle", "9MB", "--state-dir", str(state))

    assert check.returncode == 0
    assert "warning: Alter on the cluster is not granted" in check.stdout
    assert start.returncode == 2
    for missing in ("Alter on the cluster", "AlterConfigs on the cluster"):
        assert f"problem: {missing} is not granted" in start.stderr
    assert f"AlterConfigs on topic {topic_name} is not granted" in start.stderr
    assert "nothing was sent" in start.stderr
    assert not state.exists() or not any((state / "runs").glob("*"))


def test_a_run_whose_canary_may_not_write_is_neither_started_nor_shown_as_startable(
    secured_lab: Lab, tmp_path: Path, topic_name: str
) -> None:
    viewer, admin = secured_lab.client_file("viewer"), secured_lab.client_file("admin")
    create_topic(Connection.of(command_config=admin), topic_name, [[1]])
    plan, state = tmp_path / "plan.json", tmp_path / "state"
    targets = [{"topic": topic_name, "partition": 0, "replicas": [2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": targets}))
    words = (str(plan), "--slo", "p99<1s", "--canary", "--state-dir", str(state))

    refused = ktui("start", viewer, *words)
    previewed = ktui("start", viewer, *words, "--dry-run")
    by_admin = ktui("start", admin, *words, "--dry-run")

    assert (refused.returncode, previewed.returncode, by_admin.returncode) == (2, 2, 0)
    for answer in (refused.stderr, previewed.stdout):
        assert "problem: Create, Write and Delete on topic ktui-canary-plan are not" in answer
    assert not state.exists() or not any((state / "runs").glob("*"))


async def test_each_permission_of_a_canary_is_found_out_and_its_topic_stays_as_it_is(
    secured_lab: Lab, topic_name: str
) -> None:
    viewer = Connection.of(command_config=secured_lab.client_file("viewer"))
    admin = Connection.of(command_config=secured_lab.client_file("admin"))
    users = AdminClient({**security.librdkafka_settings(secured_lab)})
    kind = (ResourceType.TOPIC, topic_name, ResourcePatternType.LITERAL, "User:viewer", "*")

    async def denied(*operations: str) -> None:
        """Wait until every broker knows what was granted."""

        async def found() -> bool:
            return await find_obstacles(viewer, topic_name) == CanaryObstacles(operations)

        await until(found)

    await denied("Create", "Write", "Delete")
    assert await find_obstacles(admin, topic_name) == CanaryObstacles()
    assert topic_name not in users.list_topics(timeout=30.0).topics
    create_topic(admin, topic_name, [[1, 2]])
    fill(admin, topic_name, [0], bytes_each=1)
    left = ["Create", "Write", "Delete"]
    for name in list(left):
        acl = AclBinding(*kind, AclOperation[name.upper()], AclPermissionType.ALLOW)
        users.create_acls([acl])[acl].result(30.0)
        left.remove(name)
        await denied(*left)

    consumer = Consumer({**security.librdkafka_settings(secured_lab), "group.id": topic_name})
    try:
        offsets = consumer.get_watermark_offsets(TopicPartition(topic_name, 0), timeout=30.0)
    finally:
        consumer.close()
        every = AclBindingFilter(*kind, AclOperation.ANY, AclPermissionType.ANY)
        users.delete_acls([every])[every].result(30.0)
    assert offsets == (0, 1)


def test_a_user_without_permissions_is_shown_which_to_ask_for(secured_lab: Lab) -> None:
    done = ktui("list", secured_lab.client_file("nobody"))

    assert done.returncode == 1
    assert "not authorized" in done.stderr
    assert "Describe" in done.stderr

    doctor = ktui("doctor", secured_lab.client_file("nobody"))
    assert doctor.returncode == 1
    for operation in ("Describe", "DescribeConfigs", "Alter", "AlterConfigs"):
        assert f"BAD   {operation} on the cluster is not granted: cannot" in doctor.stdout
    assert "BAD   Describe on any topic is not granted: cannot see replicas" in doctor.stdout


def test_a_wrong_password_is_reported_but_never_shown(secured_lab: Lab, tmp_path: Path) -> None:
    good = secured_lab.client_file("admin").read_text(encoding="utf-8")
    secret = secured_lab.layout.passwords["admin"]
    bad = tmp_path / "client.properties"
    bad.write_text(good.replace(secret, WRONG), encoding="utf-8")

    for verb in ("list", "doctor"):
        done = ktui(verb, bad)

        assert done.returncode == 1
        assert "authentication failed" in done.stdout + done.stderr
        assert WRONG not in done.stdout + done.stderr
        assert secret not in done.stdout + done.stderr


def test_the_live_view_names_the_missing_permission_and_keeps_trying(
    secured_lab: Lab,
) -> None:
    command = [sys.executable, "-m", "ktui", "--command-config"]
    with Terminal([*command, str(secured_lab.client_file("nobody"))]) as terminal:
        terminal.wait_for("not authorized")
        terminal.wait_for("Describe")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
