"""Throttles that no current move needs; the view and the doctor judge them alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.resources import SettingKey, broker_resource, topic_resource
from ktui.cluster.throttle_settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    parse_throttled_list,
)


class MovingPartition(Protocol):
    """A reassignment in flight."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """All current replicas, including the ones being removed."""
        ...

    @property
    def adding(self) -> tuple[int, ...]:
        """The replicas being added."""
        ...


def needed_by_move(
    topic: str, key: str, value: str, moving: Mapping[TopicPartition, MovingPartition]
) -> bool:
    """Whether an entry of a topic's throttled-replicas list concerns a move in flight.

    Args:
        topic: the topic's name.
        key: the list, by Kafka's name.
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


def unneeded_throttles(
    observation: Observation, ours: Mapping[SettingKey, frozenset[str]]
) -> set[SettingKey]:
    """Return the throttle settings that are set though nothing in flight needs them.

    Covers only the topics and brokers of the observation. A rate may also come from a broker's
    file, or apply to every broker; an observation does not show which.

    Args:
        observation: the last observation.
        ours: the values that known runs have set, by setting. A run needs its values, or removes
            them.
    """
    return {*_rates(observation, ours), *_lists(observation, ours)}


def _rates(
    observation: Observation, ours: Mapping[SettingKey, frozenset[str]]
) -> Iterator[SettingKey]:
    """Yield leftover rates, only while nothing moves: any move may need a rate."""
    if observation.reassigning:
        return
    for broker, config in observation.broker_configs.items():
        resource = broker_resource(broker)
        rates = {
            FOLLOWER_RATE: config.follower_throttle_rate,
            LEADER_RATE: config.leader_throttle_rate,
        }
        for key, rate in rates.items():
            if rate is not None and (resource, key) not in ours:
                yield resource, key


def _lists(
    observation: Observation, ours: Mapping[SettingKey, frozenset[str]]
) -> Iterator[SettingKey]:
    moving = observation.reassigning
    for topic, config in observation.topic_configs.items():
        resource = topic_resource(topic)
        lists = {
            FOLLOWER_REPLICAS: config.follower_throttled_replicas,
            LEADER_REPLICAS: config.leader_throttled_replicas,
        }
        for key, listed in lists.items():
            theirs = parse_throttled_list(listed) - ours.get((resource, key), frozenset())
            if any(not needed_by_move(topic, key, value, moving) for value in theirs):
                yield resource, key
