"""A scenario to watch: a cluster, its outside events, and the plan carried out on it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime

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


class RatesFrom(enum.StrEnum):
    """Where the rates of a snapshot are from."""

    ASSUMED = "assumed"
    RECORDED = "recorded"
    """From recorded runs, by way of the insights."""


class SnapshotRates(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker takes in of the replicas that it is adding. Bytes a second, ascending."""

    slow: float
    usual: float
    fast: float
    half_at: float = 0.0
    """The number of replicas at once that takes in half of it; 0 where any number takes in all."""
    most_at: int | None = None
    """The number of replicas at once beyond which more bring no more; None without an end."""
    throttled: float = 1.0
    """The share of a replication throttle that it takes in."""
    of: Mapping[int, float] = {}
    """The usual rate of each broker that has another one; in a file, it is its `copy-in`."""
    source: RatesFrom


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster of a scenario comes from, if it is the twin of a real one."""

    cluster: str
    """The id of the real cluster, or what hides it."""
    taken: datetime
    """When the snapshot was taken; aware."""
    rates: SnapshotRates


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
    snapshot: SnapshotInfo | None = None
    """None for a cluster that somebody made up."""
