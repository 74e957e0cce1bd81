"""Which throttles nobody needs, by what moves now: judged alike by the view and by the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.resources import SettingKey, of_broker, of_topic
from ktui.cluster.throttle_settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    entries,
)


class MovingPartition(Protocol):
    """A reassignment in flight."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """All that it has now, those being removed too."""
        ...

    @property
    def adding(self) -> tuple[int, ...]:
        """Those that it gets."""
        ...


def needed(
    topic: str, key: str, value: str, moving: Mapping[TopicPartition, MovingPartition]
) -> bool:
    """Whether an entry of a topic's list is about a move in flight.

    Args:
        topic: its name.
        key: which of the lists, by Kafka's name.
        value: the entry, as `partition:broker`, or `*`.
        moving: every reassignment in flight.
    """
    if value == ALL:
        return any(tp.topic == topic for tp in moving)
    partition, _, broker = value.partition(":")
    if not (partition.isdecimal() and broker.isdecimal()):
        return False
    move = moving.get(TopicPartition(topic, int(partition)))
    if move is None:
        return False
    return int(broker) in (move.adding if key == FOLLOWER_REPLICAS else move.replicas)


def left_behind(seen: Observation, ours: Mapping[SettingKey, frozenset[str]]) -> set[SettingKey]:
    """Give the settings that are there though nothing in flight needs them.

    Only of the topics and brokers that were looked at. A rate may also come from a broker's file,
    or hold for every broker, which an observation does not tell.

    Args:
        seen: the last look.
        ours: what a run that is known has set, by setting: it needs that, or takes it off.
    """
    return {*_rates(seen, ours), *_lists(seen, ours)}


def _rates(seen: Observation, ours: Mapping[SettingKey, frozenset[str]]) -> Iterator[SettingKey]:
    """A rate may be needed by whatever moves."""
    if seen.reassigning:
        return
    for broker, config in seen.broker_configs.items():
        resource = of_broker(broker)
        rates = {
            FOLLOWER_RATE: config.follower_throttle_rate,
            LEADER_RATE: config.leader_throttle_rate,
        }
        for key, rate in rates.items():
            if rate is not None and (resource, key) not in ours:
                yield resource, key


def _lists(seen: Observation, ours: Mapping[SettingKey, frozenset[str]]) -> Iterator[SettingKey]:
    moving = seen.reassigning
    for topic, config in seen.topic_configs.items():
        resource = of_topic(topic)
        lists = {
            FOLLOWER_REPLICAS: config.follower_throttled_replicas,
            LEADER_REPLICAS: config.leader_throttled_replicas,
        }
        for key, listed in lists.items():
            theirs = entries(listed) - ours.get((resource, key), frozenset())
            if any(not needed(topic, key, value, moving) for value in theirs):
                yield resource, key
