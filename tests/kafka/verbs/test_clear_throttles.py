"""`ktui doctor --clear-throttles` on a real cluster: it removes leftovers and nothing else."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from support.contract.world import RealWorld, alter, change, hold_back, setting
from support.kafka.real_runs import all_settings, changed

MIB = 1024 * 1024


async def doctor(lab: Lab, folder: Path, *arguments: str) -> Any:
    command = ["-m", "ktui", "doctor", "--json", "--state-dir", str(folder / "state")]
    command += ["--bootstrap-server", lab.bootstrap_servers, *arguments]
    called = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await called.communicate()
    assert called.returncode == 0, (out + err).decode()
    return json.loads(out)


async def test_all_leftover_throttles_are_found_and_removed_without_a_trace(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    blanks = f"{topic_name}-blanks"
    for topic in (topic_name, blanks):
        await world.create_topic(topic, [[1, 2]])
    before = all_settings(world.connection)
    await change(
        world,
        *(setting(ConfigScope.BROKER, b, FOLLOWER_RATE, ConfigOp.SET, "70000000") for b in "12"),
        setting(ConfigScope.BROKER, "2", LEADER_RATE, ConfigOp.SET, "1000"),
        setting(ConfigScope.TOPIC, topic_name, FOLLOWER_REPLICAS, ConfigOp.SET, "0:1,0:2"),
        setting(ConfigScope.TOPIC, topic_name, LEADER_REPLICAS, ConfigOp.SET, "*"),
        setting(ConfigScope.TOPIC, blanks, FOLLOWER_REPLICAS, ConfigOp.SET, "0:1, 0:2"),
    )
    expected = {
        f"BROKER 1 {FOLLOWER_RATE}": "70000000",
        f"BROKER 2 {FOLLOWER_RATE}": "70000000",
        f"BROKER 2 {LEADER_RATE}": "1000",
        f"TOPIC {topic_name} {FOLLOWER_REPLICAS}": "0:1,0:2",
        f"TOPIC {topic_name} {LEADER_REPLICAS}": "*",
        f"TOPIC {blanks} {FOLLOWER_REPLICAS}": "0:1,0:2",  # Kafka returns it without the blank
    }
    assert changed(world.connection, before, expected) == expected

    found = [finding["what"] for finding in (await doctor(lab, tmp_path))["findings"]["throttles"]]
    shown = await doctor(lab, tmp_path, "--clear-throttles", "--dry-run")
    still = changed(world.connection, before, expected)
    cleared = await doctor(lab, tmp_path, "--clear-throttles")

    assert [what.partition(" is ")[0] for what in found[:2]] == [FOLLOWER_RATE, LEADER_RATE]
    assert "every replica of topic" in found[2]
    assert f"listed for topics {topic_name}, {blanks}" in found[3]
    assert still == expected
    assert shown["taken_off"] == cleared["taken_off"]
    assert len(cleared["taken_off"]) == len(expected)
    assert (cleared["kept"], cleared["left"]) == ([], [])
    assert changed(world.connection, before) == {}


async def test_throttles_of_a_move_in_flight_are_kept(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    tp = TopicPartition(topic_name, 0)
    await world.create_topic(topic_name, [[1, 2]])
    await asyncio.to_thread(fill, world.connection, topic_name, [0], bytes_each=2 * MIB)
    before = all_settings(world.connection)
    await hold_back(world, tp, 4)
    assert (await alter(world, tp, (1, 4))).verdict is Verdict.ACCEPTED
    await change(
        world, setting(ConfigScope.TOPIC, topic_name, FOLLOWER_REPLICAS, ConfigOp.APPEND, "0:2")
    )

    cleared = await doctor(lab, tmp_path, "--clear-throttles", "--yes")

    assert cleared["not_at_rest"] == [f"1 partition is being reassigned: {topic_name}-0"]
    (gone,) = cleared["taken_off"]
    assert (gone["name"], gone["values"]) == (topic_name, ["0:2"])
    assert {kept["why"] for kept in cleared["kept"]} == {"a move in flight may need it"}
    expected = {
        f"BROKER 4 {FOLLOWER_RATE}": "1000",
        f"TOPIC {topic_name} {FOLLOWER_REPLICAS}": "0:4",
    }
    assert changed(world.connection, before, expected) == expected
