"""The doctor asks about each topic that the metadata shows, and finds those out of reach."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ktui.cli.doctor.command import gather_facts
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import TopicConfigsAnswer
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.reader import SimulatedReader
from support.simulated.moving_clusters import a_cluster

TOPICS = {"orders": [(1, 2, 3)], "payments": [(2, 3, 1)]}


@pytest.fixture
def cluster() -> SimulatedCluster:
    return a_cluster(TOPICS)


async def visible(names: Collection[str] | None) -> Collection[str]:
    return set(TOPICS) if names is None else set(TOPICS) & set(names)


async def test_topics_that_all_requests_know_are_within_reach(cluster: SimulatedCluster) -> None:
    found = await gather_facts(cluster.reader(), visible)

    assert (found.out_of_reach, found.unread) == (frozenset(), ())


async def test_topics_with_different_numbers_of_replicas_at_rest_are_counted() -> None:
    topics: dict[str, list[tuple[int, ...]]] = {
        "orders": [(1, 2, 3), (1, 2, 3, 4), (1, 2, 3)],
        "payments": [(2, 3, 1), (2, 3, 1)],
    }
    cluster = a_cluster(topics)
    cluster.do(layout.Alter({TopicPartition("payments", 1): (2, 3, 4)}))
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(1.0)

    async def all_of_them(names: Collection[str] | None) -> Collection[str]:
        return set(topics) if names is None else set(names)

    found = await gather_facts(cluster.reader(), all_of_them)

    assert found.mixed_factors == {"orders": {3: 2, 4: 1}}


async def test_a_topic_whose_settings_belong_to_another_name_is_out_of_reach(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def renamed(_: SimulatedReader, names: Collection[str]) -> TopicConfigsAnswer:
        failures = (Failure(Operation.TOPIC_CONFIGS, "UNKNOWN", topic=name) for name in names)
        return TopicConfigsAnswer({}, tuple(failures), tuple(names))

    monkeypatch.setattr(SimulatedReader, "topic_configs", renamed)

    found = await gather_facts(cluster.reader(), visible)

    assert found.out_of_reach == set(TOPICS)
    assert found.unread == ()


async def test_a_topic_that_only_the_metadata_shows_is_out_of_reach(
    cluster: SimulatedCluster,
) -> None:
    async def renamed(names: Collection[str] | None) -> Collection[str]:
        tenants = {f"tenant-{topic}" for topic in TOPICS}
        return tenants if names is None else tenants & set(names)

    found = await gather_facts(cluster.reader(), renamed)

    assert found.out_of_reach == {"tenant-orders", "tenant-payments"}


async def test_a_topic_that_was_deleted_while_the_doctor_looked_is_not_out_of_reach(
    cluster: SimulatedCluster,
) -> None:
    async def shown_at_first(names: Collection[str] | None) -> Collection[str]:
        return {*TOPICS, "gone"} if names is None else await visible(names)

    found = await gather_facts(cluster.reader(), shown_at_first)

    assert found.out_of_reach == frozenset()
