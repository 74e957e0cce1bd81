"""Plans made of what an operator wants, and `ktui alter-topic`, on a real cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from ktui.cli.main import ktui
from ktui.cluster.partition import TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose
from ktui.lab.layout import Lab
from support.cli.shell import Shell
from support.contract.world import RealWorld, settled
from support.kafka.slow_topic import filled_topic

LISTS = ((1, 2, 3), (1, 3, 5), (1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 4, 1))
"""Much on brokers 1 to 3, little on 4 and 5; brokers 1 and 4 share a rack."""
EACH = 256 * 1024
INTENTIONS = {
    "drain": ("drain", "1"),
    "fill": ("fill", "4,5"),
    "swap": ("swap", "3", "5"),
    "replication-factor": ("replication-factor", "2"),
    "spread": ("spread", "--by", "replicas", "--no-rack-aware"),
    "shed": ("shed", "1", "--free", str(EACH)),
    "leaders": ("leaders",),
    "demote": ("demote", "1"),
    "rack-repair": ("rack-repair",),
    "placement": ("placement", "rules.yaml"),
}
RULES = "rules:\n  - topics: '*'\n    strategy: cross-rack\n"
ALLOWED = ("--allow-replication-factor-change",)


@pytest.fixture(scope="module")
def topic(lab: Lab) -> Iterator[str]:
    connection = Connection.to(lab.bootstrap_servers)
    with filled_topic(connection, "made-plans", LISTS, bytes_each=EACH) as name:
        yield name


@pytest.mark.parametrize("intention", INTENTIONS)
def test_the_check_accepts_the_plan_that_each_intention_makes(
    lab: Lab, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, intention: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text(RULES)
    named = (topic,) if intention == "replication-factor" else ("--topics", topic)

    made = _plan(lab, *INTENTIONS[intention], *named, "--json")
    whole = json.loads(made.stdout)
    Path("plan.json").write_text(json.dumps(whole["plan"]))
    checked = _plan(lab, "check", "plan.json", *ALLOWED, "--json")

    assert (made.exit_code, checked.exit_code) == (0, 0), made.stderr + checked.stderr
    found = json.loads(checked.stdout)
    assert not [each for each in found["findings"] if each["severity"] == "problem"]
    assert found["summary"]["partitions"] == len(whole["plan"]["partitions"]) > 0
    assert found["summary"]["replica_movements"] == _to_copy(whole["plan"])


def _plan(lab: Lab, *words: str) -> Result:
    return CliRunner().invoke(ktui, ["plan", *words, "--bootstrap-server", lab.bootstrap_servers])


def _to_copy(plan: Any) -> int:
    """Count the replicas that come to a broker without one, by the lists that the topic has."""
    return sum(len({*row["replicas"]} - {*LISTS[row["partition"]]}) for row in plan["partitions"])


RUN = ("--name", "grow", "--headless", "--poll", "200ms")


async def test_a_topic_gets_partitions_and_replicas_in_one_command_and_gives_replicas_back(
    shell: Shell, world: RealWorld, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2], [2, 3]])
    for partition in (0, 1):
        await world.append(TopicPartition(topic_name, partition), 1_000, 1_000)
    words = ("alter-topic", topic_name, "--partitions", "4", "--replication-factor", "3")

    refused = await asyncio.to_thread(shell.ktui, *words, *RUN)
    done = await asyncio.to_thread(shell.ktui, *words, *RUN, "--json", "--yes")

    assert (refused.returncode, done.returncode) == (2, 0), done.stderr
    added, *run = [json.loads(line) for line in done.stdout.splitlines()]
    assert (added["event"], added["partitions"]) == ("partitions_added", 4)
    assert [line["event"] for line in run][:1] == ["started"]
    assert (run[-1]["event"], run[-1]["counts"]) == ("ended", {"done": 4})
    states = (await world.reader.describe_topics([topic_name], fresh=True)).partitions
    replicas = {tp.partition: state.replicas for tp, state in states.items()}
    assert (replicas[0][:2], replicas[1][:2]) == ((1, 2), (2, 3))
    assert [len({*brokers}) for brokers in replicas.values()] == [3] * 4
    begun_with = {each["partition"]: tuple(each["replicas"]) for each in added["added"]}
    assert begun_with == {number: replicas[number][:2] for number in (2, 3)}
    racks = {b.id: b.rack for b in (await world.reader.describe_cluster()).brokers.values()}
    assert [len({racks[b] for b in brokers}) for brokers in replicas.values()] == [3] * 4

    back = await asyncio.to_thread(shell.ktui, "cancel", "grow", "--rollback", "--all")

    assert back.returncode == 0, back.stderr
    for number, before in {0: (1, 2), 1: (2, 3), **begun_with}.items():
        await settled(world, TopicPartition(topic_name, number), before)


async def set_quota(connection: Connection, per_second: float | None) -> None:
    """Limit how many partitions any user may make in a second; None lifts the limit."""
    entry = AlterClientQuotasRequest.EntryData
    limit = entry.OpData(
        key="controller_mutation_rate", value=per_second or 0.0, remove=per_second is None
    )
    everybody = entry.EntityData(entity_type="user", entity_name=None)
    request = partial(
        AlterClientQuotasRequest,
        entries=[entry(entity=[everybody], ops=[limit])],
        validate_only=False,
    )
    async with aclosing(Wire(connection, changes=True)) as wire:
        answer = await wire.send(Purpose("setting a quota"), request)
    assert [each.error_code for each in answer.entries] == [0]


async def test_more_partitions_than_a_quota_has_in_store_are_added_and_then_it_says_the_wait(
    shell: Shell, world: RealWorld, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1]])
    await set_quota(world.connection, 1.0)
    try:
        first, second = [
            await asyncio.to_thread(
                shell.ktui, "alter-topic", topic_name, "--partitions", count, "--yes"
            )
            for count in ("41", "81")
        ]
    finally:
        await set_quota(world.connection, None)

    assert first.returncode == 0, first.stderr
    assert second.returncode == 2
    assert (
        "the quota controller_mutation_rate of this user or client id is used up" in second.stderr
    )
    assert len((await world.reader.describe_topics([topic_name])).partitions) == 41
