"""`ktui start`, `ktui resume` and a canary, as operators and scripts use them on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from datetime import datetime, timedelta

import pytest
from confluent_kafka.admin import AdminClient

from ktui.cluster.partition import TopicPartition
from ktui.execution.host.kept import read_kept
from ktui.execution.run.events import (
    Answered,
    Continued,
    Ended,
    EngineLeft,
    Owned,
    Paused,
    PauseOrigin,
    Recovered,
    StepBegun,
)
from ktui.kafka.canary import Canary
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import assign_round_robin, create_topic, delete_topics
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from support.cli.shell import LIMIT_S, Done, Shell, ended
from support.cli.start_sandbox import found
from support.contract.world import until
from support.kafka.labs import listed
from support.kafka.slow_topic import NEW, OLD, PARTITIONS, SlowTopic, filled_topic
from support.views.terminal import Terminal

SLOW = ("--headless", "--partitions", "2", "--poll", "200ms")


@pytest.fixture
def topic(lab: Lab, topic_name: str, shell: Shell) -> Iterator[SlowTopic]:
    topic = SlowTopic(lab, topic_name)
    yield topic
    topic.let_go()
    shell.close()
    delete_topics(topic.connection, [topic_name])


@pytest.fixture
def plan(shell: Shell, topic: SlowTopic) -> str:
    return shell.plan("drain", topic.targets)


def resumed(shell: Shell, topic: SlowTopic) -> Done:
    """Resume the run and let it finish."""
    topic.let_go()
    return shell.ktui("resume", "drain", "--headless")


def test_a_script_reads_the_events_of_a_run_in_order_to_its_end(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    topic.let_go()

    done = shell.ktui("start", plan, *SLOW, "--json")

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(list(line)[:5] == ["schema_version", "at", "run", "seq", "event"] for line in lines)
    assert sorted(line["at"] for line in lines) == [line["at"] for line in lines]
    assert [line["event"] for line in lines][:3] == ["started", "planned", "owned"]
    assert (lines[-1]["event"], lines[-1]["counts"]) == ("ended", {"done": PARTITIONS})
    steps = [line for line in lines if line["event"] == "step" and line["partition"] == 0]
    assert [(s["replicas"], s["adding"], s["removing"], s["elect"]) for s in steps] == [
        ([*OLD, 4], [4], [], None),
        (NEW, [], [2], None),
    ]
    assert f"run drain has ended: all {PARTITIONS} partitions done" in done.stderr
    assert listed_nothing(shell, plan)


def listed_nothing(shell: Shell, plan: str) -> bool:
    """Whether the plan finds nothing left to do."""
    again = shell.ktui("start", plan, "--name", "again")
    return again.returncode == 0 and "nothing to do" in again.stderr


def test_terminated_or_interrupted_it_is_left_at_once_or_once_nothing_is_in_flight_and_resumed(
    lab: Lab, shell: Shell, topic: SlowTopic, plan: str
) -> None:
    """SIGTERM and a second SIGINT leave at once; the first SIGINT waits for what is in flight."""
    follower = shell.begin("start", plan, *SLOW)
    shell.wait_for("drain", Answered, 2)
    follower.send_signal(signal.SIGTERM)
    is_left_at_once(shell, follower)
    assert len(shell.events("drain", EngineLeft)) == 1
    assert len(listed(lab)) == 2

    follower = shell.begin("resume", "drain", "--headless")
    shell.wait_for("drain", Owned, 2)
    follower.send_signal(signal.SIGINT)
    shell.wait_for("drain", Paused)
    follower.send_signal(signal.SIGINT)
    is_left_at_once(shell, follower)
    assert len(shell.events("drain", EngineLeft)) == 2
    assert len(listed(lab)) == 2

    follower = shell.begin("resume", "drain", "--headless")
    shell.wait_for("drain", Continued)
    follower.send_signal(signal.SIGINT)
    shell.wait_for("drain", Paused, 2)
    topic.let_go()
    left = ended(follower)
    assert left.returncode == 130, left.stderr
    assert "nothing more is submitted, and 2 steps in flight may finish" in left.stderr
    assert "to resume it: ktui resume drain" in left.stderr
    adding = [step for step in shell.events("drain", StepBegun) if step.adding]
    assert len(adding) == 2

    again = shell.ktui("resume", "drain", "--headless")
    assert again.returncode == 0, again.stderr
    assert len(shell.events("drain", Continued)) == 2
    assert len(shell.events("drain", Ended)) == 1


def is_left_at_once(shell: Shell, follower: subprocess.Popen[str]) -> None:
    left = ended(follower)
    assert left.returncode == 130, left.stderr
    assert "2 steps in flight go on in Kafka" in left.stderr
    assert "to resume it: ktui resume drain" in left.stderr
    assert shell.unowned("drain")  # the follower waits for the engine's exit, but not for long


def test_a_killed_engine_is_reported_and_the_run_is_resumed(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    follower = shell.begin("start", plan, *SLOW)
    shell.wait_for("drain", Answered, 2)
    os.kill(shell.owner("drain").pid, signal.SIGKILL)
    died = ended(follower)

    assert died.returncode == 1, died.stderr
    assert "the engine of run drain has died" in died.stderr
    assert "to resume it: ktui resume drain" in died.stderr
    again = resumed(shell, topic)
    assert again.returncode == 0, again.stderr
    assert len(shell.events("drain", Owned)) == 2
    adding = [step for step in shell.events("drain", StepBegun) if step.adding]
    assert sorted(step.partition for step in adding) == list(range(PARTITIONS))


def test_a_check_rests_on_what_a_killed_engine_has_shown(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    before = shell.ktui("plan", "check", plan)
    follower = shell.begin("start", plan, *SLOW)
    assert wait_for(lambda: has_shown(shell), seconds=LIMIT_S)
    os.kill(shell.owner("drain").pid, signal.SIGKILL)
    ended(follower)

    after = shell.ktui("plan", "check", plan)

    assert ", assumed" in before.stdout
    assert "by 1 earlier run" in after.stdout
    assert resumed(shell, topic).returncode == 0


def has_shown(shell: Shell) -> bool:
    """Whether the engine has kept how fast its copies were."""
    kept = read_kept(shell.run_dir("drain").speed)
    return kept is not None and any(one.bytes for one in kept.received)


def test_a_run_that_lives_is_not_started_or_resumed_again_and_goes_on_when_its_terminal_is_killed(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    follower = shell.begin("start", plan, *SLOW)
    shell.wait_for("drain", StepBegun, 2)
    pid = shell.owner("drain").pid

    same = shell.ktui("start", plan, "--headless")
    other = shell.ktui("start", plan, "--headless", "--name", "other")
    again = shell.ktui("resume", "drain", "--headless")

    assert (same.returncode, other.returncode, again.returncode) == (2, 2, 2)
    assert "there is a run drain already" in same.stderr
    assert f"run drain, owned by process {pid}" in other.stderr
    assert "--concurrent" in other.stderr
    assert f"run drain is owned by process {pid}" in again.stderr
    assert [run.name for run in shell.state.run_dirs()] == ["drain"]
    goes_on_without(shell, topic, follower, signal.SIGKILL)


def goes_on_without(
    shell: Shell, topic: SlowTopic, follower: subprocess.Popen[str], number: signal.Signals
) -> None:
    """End the command that follows the run, and see that the run gets to its end without it."""
    follower.send_signal(number)
    assert ended(follower).returncode == -number
    assert shell.owner("drain")
    topic.let_go()
    shell.wait_for("drain", Ended)
    assert shell.unowned("drain")


def test_a_bad_plan_and_a_dry_run_send_nothing_and_leave_no_run_behind(
    lab: Lab, shell: Shell, topic: SlowTopic, plan: str
) -> None:
    preview = json.loads(shell.ktui("start", plan, "--dry-run", "--json").stdout)
    moves = topic.targets
    moves[1]["replicas"] = [4, 1, 77]
    bad = shell.plan("bad", moves)
    refused = shell.ktui("start", bad, "--headless", "--json")

    steps = [
        step for batch in preview["batches"] for step in batch["steps"] if not step["partition"]
    ]
    assert [(s["replicas"], s["adding"], s["removing"], s["elect"]) for s in steps] == [
        ([*OLD, 4], [4], [], None),
        (NEW, [], [2], None),
    ]
    assert (preview["schema_version"], preview["run"], found(preview, "problem")) == (
        1,
        "drain",
        [],
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{bad}:1:" in refused.stderr
    assert "the cluster has no broker 77" in refused.stderr
    assert (listed(lab), shell.state.run_dirs()) == ({}, [])


def test_a_partition_forecast_to_end_after_the_deadline_is_not_started(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    topic.let_go()  # only the run's throttle bounds the rate, and the forecast knows it
    until = (datetime.now().astimezone() + timedelta(minutes=1)).isoformat()

    left = shell.ktui("start", plan, *SLOW, "--throttle", "10kB", "--until", until)

    assert left.returncode == 3, left.stderr
    assert "none of the 4 left is expected to end by the time given with --until" in left.stderr
    assert shell.events("drain", StepBegun) == []
    follower = shell.begin("resume", "drain", "--headless")
    shell.wait_for("drain", Owned, 2)
    assert shell.ktui("throttle", "drain", "none").returncode == 0
    assert ended(follower).returncode == 0


def test_limits_are_changed_and_the_run_paused_from_another_shell_and_it_goes_on_when_hung_up(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    follower = shell.begin("start", plan, *SLOW)
    shell.wait_for("drain", StepBegun, 2)

    changed = shell.ktui("limits", "drain", "--partitions", "3", "--json")
    paused = shell.ktui("pause", "drain")
    continued = shell.ktui("continue", "drain")
    left = json.loads(shell.ktui("plan", "remaining", "drain").stdout)

    answer = json.loads(changed.stdout)
    assert (answer["accepted"], answer["batch"]) == (True, 2)
    assert (paused.returncode, continued.returncode) == (0, 0), paused.stderr + continued.stderr
    assert left["partitions"] == topic.targets
    shell.wait_for("drain", StepBegun, 3)
    third = shell.events("drain", StepBegun)[2]
    assert (third.partition, third.batch) == (2, 2)
    goes_on_without(shell, topic, follower, signal.SIGHUP)


def test_start_in_a_terminal_opens_the_view_and_closing_it_leaves_the_run_going(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    words = [sys.executable, "-m", "ktui", "start", plan, *SLOW[1:]]
    with Terminal(words, env=shell.environment) as terminal:
        terminal.wait_for(lambda text: "run drain" in text and "RUNNING" in text)
        shell.wait_for("drain", StepBegun, 2)
        terminal.send("q")
        assert terminal.wait_for_exit() == 0

    topic.let_go()
    shell.wait_for("drain", Ended)
    assert shell.unowned("drain")


def test_a_damaged_journal_is_resumed_from_its_intact_part_once_an_operator_continues(
    shell: Shell, topic: SlowTopic, plan: str
) -> None:
    follower = shell.begin("start", plan, *SLOW)
    shell.wait_for("drain", Answered, 2)
    assert shell.ktui("pause", "drain").returncode == 0
    os.kill(shell.owner("drain").pid, signal.SIGKILL)
    ended(follower)
    with sqlite3.connect(shell.run_dir("drain").journal) as journal:
        journal.execute("DROP TRIGGER events_stay_as_they_are")
        journal.execute("UPDATE events SET body = '{}' WHERE body LIKE '%paused%'")
    journal.close()

    follower = shell.begin("resume", "drain", "--headless")
    shell.wait_for("drain", Owned, 2)
    assert shell.ktui("continue", "drain").returncode == 0
    topic.let_go()
    again = ended(follower)

    assert again.returncode == 0, again.stderr
    assert "damaged: " in again.stderr
    assert len(shell.events("drain", Recovered)) == 1
    assert [event.by for event in shell.events("drain", Paused)] == [PauseOrigin.RECOVERY]
    assert listed_nothing(shell, plan)


MB = 1_000_000


def _leaders(connection: Connection, topic: str) -> list[int]:
    """Return the leaders of a topic's partitions; none if there is no such topic."""
    found = AdminClient(dict(connection.for_confluent())).list_topics(timeout=30.0).topics
    return sorted(p.leader for p in found[topic].partitions.values()) if topic in found else []


def test_a_run_follows_its_canary_and_deletes_its_topic(
    lab: Lab, shell: Shell, topic_name: str
) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    with filled_topic(connection, topic_name, [[1]], bytes_each=24 * MB):
        plan = shell.plan("drain", [{"topic": topic_name, "partition": 0, "replicas": [4]}])
        done = shell.ktui("start", plan, "--slo", "p99<20s", "--canary", "--headless", "--json")

    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    held = [event for event in events if event.get("event") == "rate_held"]
    assert 0.0 < held[0]["figure"] < 20.0
    assert held[0]["kept"] == held[0]["windows"]
    assert _leaders(connection, "ktui-canary-drain") == []


async def test_a_broker_that_joined_since_the_topic_was_made_is_measured_too(lab: Lab) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    canary = Canary(connection, "joined")
    create_topic(connection, canary.topic, [[1, 2], [2, 1]])

    async def all_lead() -> bool:
        return _leaders(connection, canary.topic) == [node.id for node in lab.brokers]

    canary.start()
    await until(all_lead)
    await asyncio.to_thread(canary.close)


async def test_a_broker_leads_its_partition_of_the_canary_again_once_it_can(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.kafka.canary._ELECT_S", 0.5)
    connection = Connection.to(lab.bootstrap_servers)
    canary = Canary(connection, "away")
    brokers = [node.id for node in lab.brokers]
    create_topic(connection, canary.topic, assign_round_robin(len(brokers), 2, brokers))

    async def measured() -> bool:
        return len(canary.percentiles_s(99.0)) == len(brokers)

    async def led_by_each() -> bool:  # a broker may know of a new topic later than its writer
        return _leaders(connection, canary.topic) == brokers

    async def led_by_two() -> bool:
        return _leaders(connection, canary.topic).count(2) == 2

    canary.start()
    await until(measured)
    await until(led_by_each)
    async with aclosing(KafkaWriter(connection)) as writer:
        reordered = {TopicPartition(canary.topic, 0): (2, 1)}  # which leaves the lead with 1
        await writer.alter_reassignments(reordered, allow_replication_factor_change=False)
    await until(led_by_two, limit_s=60.0)  # far sooner than Kafka's own rebalancing
    await asyncio.to_thread(canary.close)


async def test_it_writes_to_every_broker_and_goes_on_with_a_topic_that_a_killed_run_left(
    lab: Lab,
) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    killed, canary = Canary(connection, "audit"), Canary(connection, "audit")

    async def measured(of: Canary) -> bool:
        return len(of.percentiles_s(99.0)) == len(lab.brokers)

    async def led() -> bool:
        return len(_leaders(connection, killed.topic)) == len(lab.brokers)

    killed.start()
    await until(lambda: measured(killed))
    await until(led)
    canary.start()
    await until(lambda: measured(canary))
    await asyncio.to_thread(killed.close)
    await asyncio.to_thread(canary.close)

    assert _leaders(connection, canary.topic) == []
