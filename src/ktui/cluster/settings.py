"""Settings of topics and brokers under Kafka's names, and those of polled topics, read in time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from ktui.cluster.asking import RequestsByKey, TimedAnswer
from ktui.cluster.broker import TopicConfig
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
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
