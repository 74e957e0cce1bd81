"""The settings that throttle replication between brokers (KIP-73), under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

RATES = (LEADER_RATE, FOLLOWER_RATE)
"""Broker settings, in bytes a second."""
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Topic settings: the replicas that the rates bind, as a list of partition:broker, or ALL."""
RATE_OF = {FOLLOWER_REPLICAS: FOLLOWER_RATE, LEADER_REPLICAS: LEADER_RATE}
"""The broker rate that throttles the replicas of each list."""
ALL = "*"
LONGEST_LIST = 32_767
"""The most bytes of a list; about 4,000 entries."""
FETCH_BYTES = 1024 * 1024
"""replica.fetch.max.bytes: the most bytes that a follower fetches of one partition at a time."""


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
