"""Settings of topics and brokers under Kafka's names, read in time, and throttles nobody needs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from ktui.cluster.asking import RequestsByKey, TimedAnswer
from ktui.cluster.broker import TopicConfig
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ConfigChange,
    ConfigResource,
    ConfigScope,
    TopicConfigsAnswer,
)

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

RATES = (LEADER_RATE, FOLLOWER_RATE)
RATE_FIELDS = {LEADER_RATE: "leader_throttle_rate", FOLLOWER_RATE: "follower_throttle_rate"}
"""The fields of `BrokerConfig` for them."""
UNLIMITED = 2**63 - 1  # the value that Kafka takes and reports for no throttle
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Topic settings: the replicas that the rates bind, as a list of partition:broker, or ALL."""
RATE_OF = {FOLLOWER_REPLICAS: FOLLOWER_RATE, LEADER_REPLICAS: LEADER_RATE}
ALL = "*"
LONGEST_LIST = 32_767  # the most bytes of a list; about 4,000 entries
FETCH_BYTES = 1024 * 1024  # replica.fetch.max.bytes: of one partition, at a time


def throttled_entry(partition: int, broker: int) -> str:
    """Format a replica as an entry of a topic's throttled list."""
    return f"{partition}:{broker}"


def list_room(listed: Iterable[str]) -> int:
    """Return how many bytes of more entries a list takes, each with its comma."""
    return LONGEST_LIST - sum(len(each) + 1 for each in listed)


@lru_cache(maxsize=1024)
def parse_throttled_list(replicas: str) -> frozenset[str]:
    """Parse a list of throttled replicas as Kafka does, without blanks around its commas."""
    return frozenset(part for part in map(str.strip, replicas.split(",")) if part)


def list_includes(replicas: str, partition: int, broker: int) -> bool:
    """Whether a throttled list includes a replica."""
    listed = parse_throttled_list(replicas)
    return ALL in listed or throttled_entry(partition, broker) in listed


CORDONED = "cordoned.log.dirs"  # a broker's log dirs that get no replicas of new partitions
EVERY = "*"  # the value that stands for all log dirs of the broker
LOG_DIRS = ("log.dirs", "log.dir")  # paths of log dirs; the first that is set counts


def split_paths(value: str) -> tuple[str, ...]:
    """Split a list of paths as Kafka does, without blanks around its commas."""
    return tuple(part for part in map(str.strip, value.split(",")) if part)


def cordoned_paths(value: str, paths: Iterable[str]) -> frozenset[str]:
    """Return which of a broker's log dirs a value of the setting names."""
    named = split_paths(value)
    return frozenset(path for path in paths if EVERY in named or path in named)


SettingKey = tuple[ConfigResource, str]


def topic_resource(name: str) -> ConfigResource:
    """Return the config resource of a topic."""
    return ConfigResource(ConfigScope.TOPIC, name)


def broker_resource(broker: int) -> ConfigResource:
    """Return the config resource of a broker."""
    return ConfigResource(ConfigScope.BROKER, str(broker))


def group_by_resource(changes: Iterable[ConfigChange]) -> dict[ConfigResource, list[ConfigChange]]:
    """Group changes by the resource they belong to, in their original order."""
    grouped: dict[ConfigResource, list[ConfigChange]] = {}
    for change in changes:
        grouped.setdefault(change.resource, []).append(change)
    return grouped


def names_by_scope(resources: Iterable[ConfigResource]) -> tuple[set[str], set[int]]:
    """Return the topics and the brokers among some resources."""
    found = set(resources)
    topics = {each.name for each in found if each.scope is ConfigScope.TOPIC}
    return topics, {int(each.name) for each in found if each.scope is ConfigScope.BROKER}


CONFIGS_EVERY_S = 30.0
FIRST_RETRY_S = 1.0  # doubled with each failure in a row, up to CONFIGS_EVERY_S


class TopicSettings:
    """Reads settings of many topics at once: every 30 s, failures after 1 s, 2 s, and so on."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self.asking: RequestsByKey[None, TopicConfigsAnswer] = RequestsByKey(
            Operation.TOPIC_CONFIGS, clock
        )
        self.configs: dict[str, TopicConfig] = {}
        self._wanted: frozenset[str] = frozenset()
        self._failures: dict[str, Failure] = {}
        self._tries: dict[str, int] = {}
        self._due_s: dict[str, float] = {}  # a topic without an entry is due at once
        self._asked: frozenset[str] = frozenset()

    def ask(self, topics: frozenset[str]) -> None:
        now, self._wanted = self._clock.monotonic(), topics
        due = frozenset(name for name in topics if self._due_s.get(name, -math.inf) <= now)
        if due and self.asking.due(None):
            self._due_s.update(dict.fromkeys(due, now + CONFIGS_EVERY_S))
            self._asked = due
            self.asking.ask(None, self._reader.topic_configs(due))

    def changed(self, topics: Iterable[str]) -> None:
        """Read topics again in the next poll, whatever an open request returns for them."""
        for name in topics:
            self._due_s.pop(name, None)
            self._tries.pop(name, None)

    def collect(self) -> None:
        if self._asked and not self.asking.open(younger_than_s=math.inf):
            answer, asked = self.asking.answers.pop(None, None), self._asked
            self._asked = frozenset()
            if answer is None:
                self._try_again(asked)
            else:
                self._store(answer)
        self._forget_others()

    def _store(self, answer: TimedAnswer[TopicConfigsAnswer]) -> None:
        failed = {f.topic: f for f in answer.value.failures if f.topic is not None}
        self.configs = {**self.configs, **answer.value.configs}
        for name in (*answer.value.configs, *failed):
            self._failures.pop(name, None)
        for name in answer.value.configs:
            self._tries.pop(name, None)
        self._failures |= failed
        self._try_again(name for name, failure in failed.items() if not failure.denied)

    def _try_again(self, topics: Iterable[str]) -> None:
        now = self._clock.monotonic()
        for name in topics:
            tries = self._tries.get(name, 0)
            self._tries[name] = tries + 1
            wait_s = min(CONFIGS_EVERY_S, FIRST_RETRY_S * 2.0 ** min(tries, 8))
            self._due_s[name] = min(self._due_s.get(name, math.inf), now + wait_s)

    def _forget_others(self) -> None:
        wanted = self._wanted
        self.configs = {n: c for n, c in self.configs.items() if n in wanted}
        self._failures = {n: f for n, f in self._failures.items() if n in wanted}
        self._tries = {n: t for n, t in self._tries.items() if n in wanted}
        self._due_s = {n: s for n, s in self._due_s.items() if n in wanted}
        if not wanted:
            self.asking.forgive(())

    def failures(self) -> tuple[Failure, ...]:
        return (*self.asking.failures(), *self._failures.values())


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

    The one rule for the view, the doctor and `ktui reassign`: a throttle is in use while a
    reassignment may need it, or while it binds a replica that is out of sync, for one that comes
    back with an empty disk copies under it as one that is being added does. A rate may also come
    from a broker's file, or apply to every broker.
    """
    lists = lists_of(observation.topic_configs)
    listed = {topic.name for (topic, _), entries in lists.items() if entries}
    if not listed and all(rate is None for _, rate in _rates_of(observation)):
        return set()
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
