"""Replicas that come off their throttled list a moment before they are in sync."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktui.cluster.partition import Replica, TopicPartition
from ktui.execution.run.run import Run
from ktui.progress.timeline import Lane, Role, Timeline

NEAR_S = 0.5
"""A replica is near when it lacks no more than its broker's rate lets through in so long..."""
NEAR_SHARE = 0.95
"""... and no more than the rest of all that it is to have: what comes unthrottled is little."""
FAR = 4
"""One that has fallen back to so many times that much is throttled again."""

CopyTimelines = Mapping[TopicPartition, Timeline]


class Near:
    """Knows which replicas in flight are about to be in sync.

    One that is in sync and still listed waits for its broker's quota whenever it lags, and
    producers with acks=all wait with it: from when it joins the ISR until that is seen and its
    broker has read the shorter list. Taken off before, it joins at full speed.

    Attributes:
        replicas: those that were near at the last look, and have not fallen back since.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.replicas: frozenset[Replica] = frozenset()

    def look(self, timelines: CopyTimelines) -> None:
        """Take in how far the replicas are that are being added."""
        rated = bool(self._run.throttled.rates)
        self.replicas = frozenset(self._near(timelines)) if rated else frozenset()

    def _near(self, timelines: CopyTimelines) -> Iterator[Replica]:
        for tp in self._run.flying:
            timeline = timelines.get(tp)
            for lane in () if timeline is None else timeline.lanes.values():
                replica = Replica(tp, lane.broker)
                if lane.role is Role.ADDING and self._is_near(replica, lane):
                    yield replica

    def _is_near(self, replica: Replica, lane: Lane) -> bool:
        rate = self._run.throttled.rates.of(replica.broker)
        if rate is None or lane.lag_bytes is None or lane.share is None:
            return False
        if replica in self.replicas:
            return lane.lag_bytes <= FAR * NEAR_S * rate
        return lane.lag_bytes <= NEAR_S * rate and lane.share >= NEAR_SHARE
