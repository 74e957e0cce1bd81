"""Brokers, topics and partitions as a cluster describes them."""

from __future__ import annotations

import asyncio
import re

import pytest

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from support.contract.world import World, alter


async def test_a_cluster_tells_its_brokers_and_where_they_stand(world: World) -> None:
    told = await world.reader.describe_cluster()

    assert told.cluster_id
    assert told.controller in told.brokers
    assert told.brokers.keys() == {1, 2, 3, 4, 5}
    for broker in told.brokers.values():
        assert broker.alive
        assert broker.host
        assert broker.port > 0
        assert broker.rack


async def test_a_cluster_tells_whether_moves_wait_for_the_replicas_that_they_keep(
    world: World, version: str
) -> None:
    told = await world.reader.describe_cluster()

    assert told.waits_for_kept is (version in ("3.9", "4.0", "4.1", "4.2"))


async def test_a_topic_is_described_in_full(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[2, 1, 3], [5, 4, 1]])

    told = await world.reader.describe_topics([topic_name])

    first, second = (told.partitions[TopicPartition(topic_name, p)] for p in (0, 1))
    assert (first.replicas, first.leader, set(first.isr)) == ((2, 1, 3), 2, {1, 2, 3})
    assert (second.replicas, second.leader, set(second.isr)) == ((5, 4, 1), 5, {1, 4, 5})
    assert first.leader_epoch is not None
    assert first.offline == ()
    assert first.topic_id == second.topic_id
    assert first.topic_id is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first.topic_id)
    assert (told.absent, told.failures) == (frozenset(), ())


async def test_a_topic_made_anew_under_the_same_name_has_another_id(
    world: World, topic_name: str
) -> None:
    other = f"{topic_name}-b"
    await world.create_topic(topic_name, [[1]])
    await world.create_topic(other, [[1]])

    told = await world.reader.describe_topics([topic_name, other])

    assert len({p.topic_id for p in told.partitions.values()}) == 2


async def test_absent_topics_are_told_apart_from_present_ones(
    world: World, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2]])
    absent = f"{topic_name}-not-there"

    told = await world.reader.describe_topics([absent, topic_name])

    assert told.partitions.keys() == {TopicPartition(topic_name, 0)}
    assert told.absent == {absent}


async def test_a_name_that_no_topic_can_have_is_a_failure_of_its_own(
    world: World, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1]])

    told = await world.reader.describe_topics([topic_name, "no topic\x1b[31m"])

    assert TopicPartition(topic_name, 0) in told.partitions
    (failure,) = told.failures
    assert failure.topic == r"no topic\x1b[31m"
    assert "INVALID_TOPIC_EXCEPTION" in failure.answer


async def test_no_names_are_no_question(world: World) -> None:
    assert (await world.reader.describe_topics([])).partitions == {}
    assert (await world.reader.topic_configs([])).configs == {}


async def test_a_topic_larger_than_a_page_is_described_whole_and_every_page_as_fresh_as_asked(
    world: World, topic_name: str
) -> None:
    small = f"{topic_name}-z"
    await world.create_topic(topic_name, [[p % 5 + 1] for p in range(2_100)])
    await world.create_topic(small, [[1]])

    told = await world.reader.describe_topics([small, topic_name])

    assert len(told.partitions) == 2_101
    assert told.partitions[TopicPartition(topic_name, 2_099)].replicas == (2_099 % 5 + 1,)

    pages = [page async for page in world.reader.scan_topics()]
    found = [tp for page in pages for tp in page.partitions]
    assert len(pages) > 1
    assert max(len(page.partitions) for page in pages) <= 2_000
    assert len(found) == len(set(found))
    assert told.partitions.keys() <= set(found)

    last = TopicPartition(topic_name, 2_099)
    for replicas in [(5, 1), (1, 5)] * 5:
        altered = await alter(world, last, replicas, factor=True)
        assert altered.verdict is Verdict.ACCEPTED, altered

        told = await world.reader.describe_topics([topic_name], fresh=True)

        assert len(told.partitions) == 2_100
        assert told.partitions[last].replicas == replicas


async def test_calls_may_be_made_all_at_once(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[1, 2, 3, 4, 5]])
    tp = TopicPartition(topic_name, 0)
    reader = world.reader

    answers = await asyncio.gather(
        *(reader.log_offsets(broker, ends=[tp]) for broker in range(1, 6) for _ in range(20)),
        *(reader.list_reassignments() for _ in range(20)),
    )

    assert len(answers) == 120


async def test_closing_twice_is_closing_once_and_calls_after_it_raise(world: World) -> None:
    await world.reader.describe_cluster()

    await world.reader.aclose()
    await world.reader.aclose()

    with pytest.raises(ClusterError):
        await world.reader.list_reassignments()
