"""The log dirs of a broker (JBOD), and the replicas in each."""

from __future__ import annotations

from collections import Counter

from ktui.cluster.partition import TopicPartition
from ktui.simulated.data.logs import Log

STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
"""Kafka's answer about a log dir that has failed, and about the replicas in it."""


class LogDirs:
    """One broker's log dirs, and the replicas in each.

    A broker with a single log dir keeps no list of its replicas, which may be very many.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.failed: set[str] = set()
        self.cordoned: frozenset[str] = frozenset()
        """The log dirs that new replicas avoid, as long as there is another one."""
        self.lost: set[Log] = set()
        """The replicas that were in a log dir that has failed."""
        self._held: dict[Log, str] = {}
        self._count = Counter(dict.fromkeys(paths, 0))
        self._remembered: dict[TopicPartition, str] = {}

    def remember(self, tp: TopicPartition, path: str) -> None:
        """Remember the log dir for a replica that the broker does not have yet."""
        self._remembered[tp] = path

    def forget(self) -> None:
        """Forget the remembered log dirs, which a broker does not keep over a restart."""
        self._remembered.clear()

    def place(self, log: Log) -> None:
        """Put a new replica into the remembered log dir, or into the one with the fewest replicas.

        A lost replica that is assigned again stays lost.
        """
        if len(self.paths) > 1 and log not in self.lost:
            path = self._remembered.pop(log.tp, None)
            if path is None or path in self.failed:
                working = [path for path in self.paths if path not in self.failed]
                open_ones = [path for path in working if path not in self.cordoned]
                path = min(open_ones or working, key=self._count.__getitem__)
            self.put(log, path)

    def put(self, log: Log, path: str) -> None:
        """Put a replica into a log dir, and remove it from the one that held it."""
        self.remove(log)
        self._held[log] = path
        self._count[path] += 1

    def remove(self, log: Log) -> None:
        """Remove a replica, if the broker has it."""
        path = self._held.pop(log, None)
        if path is not None:
            self._count[path] -= 1

    def path_of(self, log: Log) -> str:
        """Return the log dir of a replica that the broker has and has not lost."""
        return self._held.get(log, self.paths[0])

    def fail(self, path: str) -> list[Log]:
        """Lose a log dir, and return its replicas."""
        self.failed.add(path)
        lost = [log for log, held in self._held.items() if held == path]
        for log in lost:
            self.remove(log)
        self.lost.update(lost)
        return lost
