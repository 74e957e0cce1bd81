"""`ktui alter-topic` on a real cluster: partitions and replicas in one command, and back."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from functools import partial

from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from ktui.cluster.partition import TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose
from support.cli.shell import Shell
from support.contract.world import RealWorld, settled

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
