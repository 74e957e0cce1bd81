"""A topic that moves so slowly that a test has time to break something."""

from __future__ import annotations

from typing import Any

from ktui.cluster.partition import Replica, TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, fill, remove_throttles, throttle_followers
from ktui.lab.layout import Lab

OLD, NEW = [2, 1, 3], [4, 1, 3]
PARTITIONS = 4


class SlowTopic:
    """Partitions with data, whose copies to broker 4 take minutes unless `let_go` is called."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self.connection = Connection.to(lab.bootstrap_servers)
        self._adding = [Replica(TopicPartition(name, n), 4) for n in range(PARTITIONS)]
        create_topic(self.connection, name, [OLD] * PARTITIONS)
        fill(self.connection, name, range(PARTITIONS), bytes_each=2 * 1024 * 1024)
        throttle_followers(self.connection, self._adding, bytes_s=10_000)

    def let_go(self) -> None:
        remove_throttles(self.connection, self._adding)

    @property
    def targets(self) -> list[dict[str, Any]]:
        return [{"topic": self.name, "partition": n, "replicas": NEW} for n in range(PARTITIONS)]
