"""The topic of a canary has a partition for each broker, which its own broker is to lead."""

import threading
from typing import cast

import pytest
from confluent_kafka.admin import PartitionMetadata, TopicMetadata  # type: ignore[attr-defined]  # its documented names

from ktui.kafka import canary
from ktui.kafka.canary import canary_replicas, led_elsewhere, min_isr_problem, preferred_leaders
from ktui.kafka.connection.connection import Connection


def a_topic(*partitions: tuple[list[int], list[int], int]) -> TopicMetadata:
    """Return a topic with the replicas, the ISR and the leader of each partition."""
    topic = TopicMetadata()
    for number, (replicas, isr, leader) in enumerate(partitions):
        found = topic.partitions[number] = PartitionMetadata()
        found.replicas, found.isrs, found.leader = replicas, isr, leader
    return topic


@pytest.mark.parametrize(("default", "factor"), [("1", 1), ("2", 2), ("9", 3), (None, 3)])
def test_each_broker_is_first_in_one_partition(default: str | None, factor: int) -> None:
    replicas = canary_replicas([2, 5, 7], default)

    assert [first for first, *_ in replicas] == [2, 5, 7]
    assert {len({*brokers}) for brokers in replicas} == {factor}


@pytest.mark.parametrize(("least", "refused"), [("3", True), ("2", False), (None, False)])
def test_a_topic_with_fewer_replicas_than_min_isr_takes_no_record(
    least: str | None, *, refused: bool
) -> None:
    assert ("it has 2 of the 3 replicas" in min_isr_problem(2, least)) is refused


def test_a_partition_led_elsewhere_is_found_once_its_own_broker_could_lead() -> None:
    topic = a_topic(([1, 2], [1, 2], 1), ([2, 3], [3, 2], 3), ([3, 1], [1], 1), ([4, 1], [4], -1))

    assert led_elsewhere(topic) == [1, 3]
    assert preferred_leaders(topic) == [1, 2, 3, 4]
    assert preferred_leaders(None) == []


def test_a_canary_begins_again_after_a_failure_of_an_unknown_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(canary, "_AGAIN_S", 0.0)
    deleted: list[str] = []
    monkeypatch.setattr(canary, "delete_topics", lambda _connection, topics: deleted.extend(topics))
    again = threading.Event()
    looks: list[str] = []

    def leaders(self: canary.Canary) -> list[int]:
        looks.append(self.problem)
        if len(looks) > 1:
            again.set()
        raise KeyError("odd")

    monkeypatch.setattr(canary.Canary, "_leaders", leaders)
    writing = canary.Canary(cast("Connection", None), "drain")
    writing.start()

    assert again.wait(60.0)
    assert looks[1] == "the canary: KeyError('odd')"
    writing.close()
    assert deleted == [writing.topic]
