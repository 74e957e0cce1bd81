"""Brokers, topics and partitions as a cluster describes them."""

from __future__ import annotations

import asyncio
import re

import pytest

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from support.contract.world import World, alter


async def test_a_cluster_lists_its_brokers_with_address_and_rack(world: World) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.cluster_id
    assert answer.controller in answer.brokers
    assert answer.brokers.keys() == {1, 2, 3, 4, 5}
    for broker in answer.brokers.values():
        assert broker.alive
        assert broker.host
        assert broker.port > 0
        assert broker.rack


async def test_a_cluster_reports_whether_moves_wait_for_kept_replicas(
    world: World, version: str
) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.waits_for_kept is (version in ("3.9", "4.0", "4.1", "4.2"))


async def test_a_cluster_reports_whether_it_refuses_targets_on_cordoned_brokers(
    world: World, version: str
) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.refuses_cordoned is (version not in ("3.9", "4.0", "4.1", "4.2", "4.3"))


async def test_a_cluster_reports_whether_it_lists_fenced_brokers(
    world: World, version: str
) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.reports_fenced is (version != "3.9")


async def test_a_topic_is_described_in_full(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[2, 1, 3], [5, 4, 1]])

    answer = await world.reader.describe_topics([topic_name])

    first, second = (answer.partitions[TopicPartition(topic_name, p)] for p in (0, 1))
    assert (first.replicas, first.leader, set(first.isr)) == ((2, 1, 3), 2, {1, 2, 3})
    assert (second.replicas, second.leader, set(second.isr)) == ((5, 4, 1), 5, {1, 4, 5})
    assert first.leader_epoch is not None
    assert first.offline == ()
    assert first.topic_id == second.topic_id
    assert first.topic_id is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first.topic_id)
    assert (answer.absent, answer.failures) == (frozenset(), ())


async def test_two_topics_have_different_ids(world: World, topic_name: str) -> None:
    other = f"{topic_name}-b"
    await world.create_topic(topic_name, [[1]])
    await world.create_topic(other, [[1]])

    answer = await world.reader.describe_topics([topic_name, other])

    assert len({p.topic_id for p in answer.partitions.values()}) == 2


async def test_absent_topics_are_distinguished_from_present_ones(
    world: World, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2]])
    absent = f"{topic_name}-not-there"

    answer = await world.reader.describe_topics([absent, topic_name])

    assert answer.partitions.keys() == {TopicPartition(topic_name, 0)}
    assert answer.absent == {absent}


async def test_an_invalid_topic_name_is_a_failure_of_its_own(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[1]])

    answer = await world.reader.describe_topics([topic_name, "no topic\x1b[31m"])

    assert TopicPartition(topic_name, 0) in answer.partitions
    (failure,) = answer.failures
    assert failure.topic == r"no topic\x1b[31m"
    assert "INVALID_TOPIC_EXCEPTION" in failure.answer


async def test_an_empty_list_of_names_has_an_empty_answer(world: World) -> None:
    assert (await world.reader.describe_topics([])).partitions == {}
    assert (await world.reader.topic_configs([])).configs == {}


async def test_a_topic_larger_than_a_page_is_described_whole_and_every_page_as_fresh_as_asked(
    world: World, topic_name: str
) -> None:
    small = f"{topic_name}-z"
    await world.create_topic(topic_name, [[p % 5 + 1] for p in range(2_100)])
    await world.create_topic(small, [[1]])

    answer = await world.reader.describe_topics([small, topic_name])

    assert len(answer.partitions) == 2_101
    assert answer.partitions[TopicPartition(topic_name, 2_099)].replicas == (2_099 % 5 + 1,)

    pages = [page async for page in world.reader.scan_topics()]
    found = [tp for page in pages for tp in page.partitions]
    assert len(pages) > 1
    assert max(len(page.partitions) for page in pages) <= 2_000
    assert len(found) == len(set(found))
    assert answer.partitions.keys() <= set(found)

    last = TopicPartition(topic_name, 2_099)
    for replicas in [(5, 1), (1, 5)] * 5:
        altered = await alter(world, last, replicas, factor=True)
        assert altered.verdict is Verdict.ACCEPTED, altered

        answer = await world.reader.describe_topics([topic_name], fresh=True)

        assert len(answer.partitions) == 2_100
        assert answer.partitions[last].replicas == replicas


async def test_calls_can_be_made_concurrently(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[1, 2, 3, 4, 5]])
    tp = TopicPartition(topic_name, 0)
    reader = world.reader

    answers = await asyncio.gather(
        *(reader.log_offsets(broker, ends=[tp]) for broker in range(1, 6) for _ in range(20)),
        *(reader.list_reassignments() for _ in range(20)),
    )

    assert len(answers) == 120


async def test_closing_is_idempotent_and_later_calls_raise(world: World) -> None:
    await world.reader.describe_cluster()

    await world.reader.aclose()
    await world.reader.aclose()

    with pytest.raises(ClusterError):
        await world.reader.list_reassignments()
