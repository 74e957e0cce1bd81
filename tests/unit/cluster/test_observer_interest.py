"""Partitions that a view or a run requests besides the moving ones."""

from __future__ import annotations

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout
from support.simulated.moving_clusters import cordon
from support.simulated.polled_cluster import EVERYONE, ORDERS, a_topic, looking


async def test_chosen_topics_are_observed_with_all_partitions() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 3), a_topic("audit", (1, 2))) as watcher:
        observation = await watcher.poll(Interest(topics=frozenset({"orders"})))

        assert len(observation.partitions) == 3


async def test_chosen_partitions_are_polled_without_the_rest_of_their_topics() -> None:
    chosen = TopicPartition("audit", 1)
    async with looking(a_topic("orders", (1, 2)), a_topic("audit", *[(3, 4)] * 5)) as watcher:
        observation = await watcher.poll(Interest(partitions=frozenset({chosen})))

        assert observation.partitions.keys() == {chosen}
        assert observation.partitions[chosen].replicas == (3, 4)
        assert observation.topic_configs.keys() == {"audit"}
        assert watcher.reader.asked_offsets == []


async def test_a_missing_chosen_partition_is_absent() -> None:
    chosen = {TopicPartition("orders", 7), TopicPartition("no-such-topic", 0)}
    async with looking(a_topic("orders", (1, 2))) as watcher:
        observation = await watcher.poll(Interest(partitions=frozenset(chosen)))

        assert observation.absent == chosen
        assert observation.partitions == {}


async def test_the_partitions_of_a_chosen_topic_are_absent_once_it_is_deleted() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    both = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    async with looking(a_topic("orders", (1, 2), (2, 3))) as watcher:
        assert (await watcher.poll(interest)).absent == frozenset()
        await watcher.do(layout.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await watcher.poll(interest)).absent == both


async def test_a_chosen_topic_recreated_smaller_has_its_other_partitions_absent() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    async with looking(a_topic("orders", (1, 2), (2, 3))) as watcher:
        await watcher.poll(interest)
        again = layout.CreateTopic(a_topic("orders", (1, 2)))
        await watcher.do(layout.DeleteTopic("orders"), again, then_wait_s=1.0)

        observation = await watcher.poll(interest)

        assert observation.absent == {TopicPartition("orders", 1)}
        assert observation.partitions.keys() == {ORDERS}


async def test_log_dirs_alone_are_read_from_every_broker_and_no_settings_of_them() -> None:
    async with looking(a_topic("orders", (1, 2))) as watcher:
        await watcher.do(cordon(4))

        observation = await watcher.poll(Interest(log_dirs=True))

        assert {*observation.log_dirs} == {*EVERYONE}
        assert observation.cordoned == {4}
        assert observation.closed == {4}
        assert observation.broker_configs == {}


async def test_the_sizes_of_replicas_are_read_as_soon_as_they_are_being_copied() -> None:
    interest = Interest(log_dirs=True)
    async with looking(a_topic("orders", (1, 2))) as watcher:
        await watcher.poll(interest)
        await watcher.do(layout.Alter({ORDERS: (3, 2)}), then_wait_s=0.5)

        observation = await watcher.poll(interest)

        assert {replica.broker for replica in observation.sizes} >= {1, 3}
