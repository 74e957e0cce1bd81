"""Throttles that nothing needs now: the one rule for the view, the doctor and `ktui reassign`.

A throttle is in use while a reassignment may need it, or while it binds a replica that is out of
sync: one that comes back with an empty disk copies under it as one that is being added does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_OF,
    SettingKey,
    broker_resource,
    parse_throttled_list,
    topic_resource,
)


def needed_by_move(
    topic: str, key: str, value: str, moving: Mapping[TopicPartition, Reassignment | PartitionState]
) -> bool:
    """Whether an entry, `partition:broker` or `*`, of a throttled list concerns a move."""
    if value == ALL:
        return any(tp.topic == topic for tp in moving)
    partition, _, broker = value.partition(":")
    if not (partition.isdecimal() and broker.isdecimal()):
        return False
    move = moving.get(TopicPartition(topic, int(partition)))
    if move is None:
        return False
    return int(broker) in (move.adding if key == FOLLOWER_REPLICAS else move.replicas)


ThrottledLists = Mapping[SettingKey, Collection[str]]


class BoundReplica(NamedTuple):
    """A replica out of sync, and the rate that binds it."""

    replica: Replica
    rate: SettingKey | None  # None on the leaders' side while nobody leads the partition


class CatchingUp:
    """The replicas out of sync that throttles bind (KIP-73).

    Followers' lists bind by the rate of the replica's broker, leaders' lists by that of the leader.
    `states` may lack partitions in sync; those of `unknown` topics are incomplete.
    """

    def __init__(
        self, lists: ThrottledLists, states: Iterable[PartitionState], unknown: Collection[str] = ()
    ) -> None:
        self.unknown = frozenset(unknown)
        self._behind: defaultdict[str, dict[int, PartitionState]] = defaultdict(dict)
        for state in states:
            if state.out_of_sync:
                self._behind[state.tp.topic][state.tp.partition] = state
        self._of_rates: defaultdict[SettingKey, set[BoundReplica]] = defaultdict(set)
        for (topic, key), entries in lists.items():
            for entry in entries if topic.name in self._behind else ():
                for state, broker in self._concerned(topic.name, entry):
                    rated = broker_resource(broker), RATE_OF[key]
                    self._of_rates[rated] |= set(_bound_by(state, key, broker, all_=entry == ALL))

    def of_entry(self, topic: str, key: str, entry: str) -> frozenset[BoundReplica]:
        """Return what an entry binds; leaders' entries of every broker that may lead next count."""
        return frozenset(
            bound
            for state, broker in self._concerned(topic, entry)
            for bound in _bound_by(state, key, broker, all_=entry == ALL)
        )

    def of_rate(self, rate: SettingKey) -> frozenset[BoundReplica]:
        """Return the replicas out of sync for which a rate is set; under `*` any broker's."""
        return frozenset(self._of_rates.get(rate, ()))

    def _concerned(self, topic: str, entry: str) -> Iterator[tuple[PartitionState, int]]:
        behind = self._behind.get(topic, {})
        if entry == ALL:
            yield from ((state, broker) for state in behind.values() for broker in state.replicas)
        partition, _, broker = entry.partition(":")
        if partition.isdecimal() and broker.isdecimal() and int(partition) in behind:
            yield behind[int(partition)], int(broker)


def _bound_by(
    state: PartitionState, key: str, broker: int, *, all_: bool
) -> Iterator[BoundReplica]:
    followers = key == FOLLOWER_REPLICAS
    for behind in state.out_of_sync if broker in state.replicas else ():
        if all_ or (broker == behind) == followers:
            by = behind if followers else state.leader
            rate = None if by is None else (broker_resource(by), RATE_OF[key])
            yield BoundReplica(Replica(state.tp, behind), rate)


def unneeded_throttles(
    observation: Observation, ours: Mapping[SettingKey, frozenset[str]]
) -> set[SettingKey]:
    """Return throttle settings that nothing needs now, of the topics and brokers observed.

    A rate may also come from a broker's file, or apply to every broker.
    """
    lists = lists_of(observation.topic_configs)
    listed = {topic.name for (topic, _), entries in lists.items() if entries}
    known = observation.topic_configs.keys() - listed
    census = observation.census
    unseen = set() if census is None else {*census.unhealthy} - observation.partitions.keys()
    unknown = {tp.topic for tp in unseen - observation.absent} - known
    catching_up = CatchingUp(lists, observation.partitions.values(), unknown)
    return {
        *_rates(observation, ours, catching_up),
        *_lists(lists, ours, observation.reassigning, catching_up),
    }


def set_throttles(observation: Observation) -> set[SettingKey]:
    """Return all throttle settings of an observation, needed or not."""
    listed = {key for key, entries in lists_of(observation.topic_configs).items() if entries}
    return listed | {key for key, rate in _rates_of(observation) if rate is not None}


def lists_of(configs: Mapping[str, TopicConfig]) -> ThrottledLists:
    """Return the lists of throttled replicas of topics."""
    return {
        (topic_resource(topic), key): parse_throttled_list(listed)
        for topic, config in configs.items()
        for key, listed in (
            (FOLLOWER_REPLICAS, config.follower_throttled_replicas),
            (LEADER_REPLICAS, config.leader_throttled_replicas),
        )
    }


def _rates_of(observation: Observation) -> Iterator[tuple[SettingKey, int | None]]:
    for broker, config in observation.broker_configs.items():
        yield (broker_resource(broker), FOLLOWER_RATE), config.follower_throttle_rate
        yield (broker_resource(broker), LEADER_RATE), config.leader_throttle_rate


def _rates(
    observation: Observation, ours: Mapping[SettingKey, frozenset[str]], catching_up: CatchingUp
) -> Iterator[SettingKey]:
    """Yield leftover rates, only while nothing moves: any move may need a rate."""
    if observation.reassigning or catching_up.unknown:
        return
    for key, rate in _rates_of(observation):
        if not (rate is None or key in ours or catching_up.of_rate(key)):
            yield key


def _lists(
    lists: ThrottledLists,
    ours: Mapping[SettingKey, frozenset[str]],
    moving: Mapping[TopicPartition, Reassignment | PartitionState],
    catching_up: CatchingUp,
) -> Iterator[SettingKey]:
    for (resource, key), entries in lists.items():
        topic = resource.name
        if topic in catching_up.unknown:
            continue
        theirs = frozenset(entries) - ours.get((resource, key), frozenset())
        if any(
            not needed_by_move(topic, key, entry, moving)
            and not catching_up.of_entry(topic, key, entry)
            for entry in theirs
        ):
            yield resource, key
