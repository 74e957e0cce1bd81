"""A scenario to watch: a cluster, its outside events, and the plan carried out on it."""

from __future__ import annotations

import msgspec

from ktui.captions import Caption
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.simulated.events import ScheduledEvent
from ktui.simulated.layout import ClusterSpec

FASTEST = 100.0
"""Highest speed, in the cluster's seconds per real second. Nobody can follow anything faster."""


class ScenarioPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions to move, and when to start."""

    targets: dict[TopicPartition, tuple[int, ...]]
    """Final replicas in order, the preferred leader first; only partitions that change."""
    start_s: float = 0.0
    """Seconds from the cluster's first moment."""
    throttle: float | None = None
    """Bytes per second that each broker may receive for the replicas being added."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The checked contents of a scenario file."""

    title: str
    about: str
    """The story and what to look at, in a few sentences without line breaks."""
    spec: ClusterSpec
    faults: tuple[ScheduledEvent, ...] = ()
    """The outside events, in order of time."""
    plan: ScenarioPlan | None = None
    limits: Limits = Limits()
    speed: float = 1.0
    """Default speed, in the cluster's seconds per real second."""
    captions: tuple[Caption, ...] = ()
    """The captions, in the order in which they are shown."""
