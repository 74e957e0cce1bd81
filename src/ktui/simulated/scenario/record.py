"""A story to watch: a cluster, what befalls it, and the plan that is carried out on it."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.simulated.events import ScheduledEvent
from ktui.simulated.layout import ClusterSpec

FASTEST = 100.0
"""Of the cluster's seconds in one of ours: faster, there is no watching it."""


class ScenarioPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is moved, and when it is begun."""

    targets: dict[TopicPartition, tuple[int, ...]]
    """Final replicas in order, the preferred leader first; only partitions that change."""
    start_s: float = 0.0
    """Seconds from the cluster's first moment."""
    throttle: float | None = None
    """Bytes a second that each broker may take in for the replicas being added."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a scenario file says, checked."""

    title: str
    about: str
    """What happens and what to look at, in a few sentences without line breaks."""
    spec: ClusterSpec
    faults: tuple[ScheduledEvent, ...] = ()
    """In the order of time."""
    plan: ScenarioPlan | None = None
    limits: Limits = Limits()
    speed: float = 1.0
    """How many of the cluster's seconds pass in one of ours, unless told otherwise."""
