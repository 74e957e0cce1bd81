"""The settings that throttle replication between brokers (KIP-73), by Kafka's names."""

from __future__ import annotations

from functools import lru_cache

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

RATES = (LEADER_RATE, FOLLOWER_RATE)
"""Of brokers, in bytes a second."""
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Of topics: whom the rates bind, as a list of partition:broker, or ALL."""
ALL = "*"
LONGEST_LIST = 32_767
"""How many bytes a list may have; about 4,000 entries."""
FETCH_BYTES = 1024 * 1024
"""replica.fetch.max.bytes: as much as a follower takes of one partition at a time."""


def entry(partition: int, broker: int) -> str:
    """Write one replica as the lists of topics have it."""
    return f"{partition}:{broker}"


@lru_cache(maxsize=1024)
def entries(replicas: str) -> frozenset[str]:
    """Read a list of throttled replicas as Kafka does, blanks around its commas left out."""
    return frozenset(part for part in map(str.strip, replicas.split(",")) if part)


def lists(replicas: str, partition: int, broker: int) -> bool:
    """Whether a list binds a replica."""
    listed = entries(replicas)
    return ALL in listed or entry(partition, broker) in listed
