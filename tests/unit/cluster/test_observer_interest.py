"""What a view or a run wants beside the partitions that move."""

from __future__ import annotations

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.simulated import events
from support.simulated.polled_cluster import ORDERS, a_topic, looking


async def test_chosen_topics_are_shown_whole() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 3), a_topic("audit", (1, 2))) as look:
        observation = await look.poll(Interest(topics=frozenset({"orders"})))

        assert len(observation.partitions) == 3


async def test_chosen_partitions_are_looked_at_without_the_rest_of_their_topics() -> None:
    wanted = TopicPartition("audit", 1)
    async with looking(a_topic("orders", (1, 2)), a_topic("audit", *[(3, 4)] * 5)) as look:
        observation = await look.poll(Interest(partitions=frozenset({wanted})))

        assert observation.partitions.keys() == {wanted}
        assert observation.partitions[wanted].replicas == (3, 4)
        assert observation.topic_configs.keys() == {"audit"}
        assert look.reader.asked_offsets == []


async def test_a_chosen_partition_that_is_not_there_is_absent() -> None:
    wanted = {TopicPartition("orders", 7), TopicPartition("no-such-topic", 0)}
    async with looking(a_topic("orders", (1, 2))) as look:
        observation = await look.poll(Interest(partitions=frozenset(wanted)))

        assert observation.absent == wanted
        assert observation.partitions == {}


async def test_the_partitions_of_a_chosen_topic_are_absent_once_it_is_deleted() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    both = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    async with looking(a_topic("orders", (1, 2), (2, 3))) as look:
        assert (await look.poll(interest)).absent == frozenset()
        await look.do(events.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await look.poll(interest)).absent == both


async def test_a_chosen_topic_made_again_smaller_has_lost_the_rest_of_its_partitions() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    async with looking(a_topic("orders", (1, 2), (2, 3))) as look:
        await look.poll(interest)
        again = events.CreateTopic(a_topic("orders", (1, 2)))
        await look.do(events.DeleteTopic("orders"), again, then_wait_s=1.0)

        observation = await look.poll(interest)

        assert observation.absent == {TopicPartition("orders", 1)}
        assert observation.partitions.keys() == {ORDERS}
