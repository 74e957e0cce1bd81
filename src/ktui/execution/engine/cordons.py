"""Cordoned brokers that no target may name, from their log dirs and from refusals."""

from __future__ import annotations

from ktui.cluster.errors import Operation
from ktui.cluster.figures import SIZES_EVERY_S
from ktui.cluster.observation import Observation

HOLDS_S = 2 * SIZES_EVERY_S
"""Seconds for which a refusal counts more than log dirs, which may have been read before it."""


class Cordons:
    """Knows which brokers are closed: cordoned, on a cluster that refuses targets that name them.

    Where a cluster does not say whether it does, its first refusal shows it.
    """

    def __init__(self) -> None:
        self.closed: frozenset[int] = frozenset()
        self.to_read = True
        """Whether log dirs have to be read for it."""
        self._cordoned: frozenset[int] = frozenset()
        """The brokers whose log dirs were all cordoned when they were last read."""
        self._refuses = False
        """Whether the cluster has refused a target because of a cordon."""
        self._refused_s: dict[int, float] = {}
        """When each broker was last named by a refusal, until its cordon is seen to be gone."""

    def update(self, seen: Observation) -> None:
        """Update from a poll.

        A broker that is no longer read stays as it was: the controller keeps the cordon of one that
        is down. Nor does a reading lift a refusal while the next one fails: it may be the older.
        """
        late = {f.broker for f in seen.failures if f.operation is Operation.LOG_DIRS}
        uncordoned = seen.log_dirs.keys() - seen.cordoned
        self._cordoned = (self._cordoned - uncordoned) | seen.cordoned
        self._refused_s = {
            broker: at_s
            for broker, at_s in self._refused_s.items()
            if broker not in uncordoned - late or seen.monotonic_s - at_s < HOLDS_S
        }
        refuses = self._refuses if seen.refuses_cordoned is None else seen.refuses_cordoned
        self.closed = (self._cordoned if refuses else frozenset()).union(self._refused_s)
        self.to_read = seen.refuses_cordoned is not False or bool(self._refused_s)

    def refused(self, broker: int, now_s: float) -> None:
        """Note that Kafka has refused a target because of this broker's cordon."""
        self._refuses = self.to_read = True
        self._refused_s[broker] = now_s
        self.closed |= {broker}
