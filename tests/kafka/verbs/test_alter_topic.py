"""`ktui alter-topic` on a real cluster: partitions and replicas in one command, and back."""

from __future__ import annotations

import asyncio
import json

from ktui.cluster.partition import TopicPartition
from support.cli.shell import Shell
from support.contract.real_world import RealWorld
from support.contract.world import settled

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
