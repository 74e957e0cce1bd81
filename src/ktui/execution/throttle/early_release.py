"""Unthrottle a replica just before it rejoins the ISR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktui.cluster.partition import Replica, TopicPartition
from ktui.execution.run.run import Run
from ktui.progress.timeline import Lane, Role, Timeline

NEAR_S = 0.5
"""A replica is near when its lag is at most the bytes of its broker's rate in so many seconds..."""
NEAR_SHARE = 0.95
"""... and when it has copied this share of its size: little is copied without a throttle."""
FAR = 4
"""A replica that falls back to so many times the lag of `NEAR_S` is throttled again."""

CopyTimelines = Mapping[TopicPartition, Timeline]


class NearlyInSync:
    """The replicas in flight that are about to be in sync.

    A replica in sync that is still listed waits for its broker's quota whenever it lags, and
    producers with acks=all wait with it. That lasts from when it joins the ISR until a poll shows
    it and its broker has read the shorter list. If it is removed from the list before, it joins at
    full speed.

    Attributes:
        replicas: the replicas near at the last poll, or near before and not fallen back since.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.replicas: frozenset[Replica] = frozenset()

    def update(self, timelines: CopyTimelines) -> None:
        """Update `replicas` by the progress of the replicas that are being added."""
        throttled = bool(self._run.throttled.in_force)
        self.replicas = frozenset(self._near(timelines)) if throttled else frozenset()

    def _near(self, timelines: CopyTimelines) -> Iterator[Replica]:
        for tp in self._run.tracks_in_flight:
            timeline = timelines.get(tp)
            for lane in () if timeline is None else timeline.lanes.values():
                replica = Replica(tp, lane.broker)
                if lane.role is Role.ADDING and self._is_near(replica, lane):
                    yield replica

    def _is_near(self, replica: Replica, lane: Lane) -> bool:
        rate = self._run.throttled.in_force.of(replica.broker)
        if rate is None or lane.lag_bytes is None or lane.share is None:
            return False
        if replica in self.replicas:
            return lane.lag_bytes <= FAR * NEAR_S * rate
        return lane.lag_bytes <= NEAR_S * rate and lane.share >= NEAR_SHARE
