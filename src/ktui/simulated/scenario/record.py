"""A story to watch: a cluster, what befalls it, and the plan that is carried out on it."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.simulated.acts import Due
from ktui.simulated.layout import ClusterSpec

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Shape(enum.StrEnum):
    """How a partition's steps are cut."""

    GENTLE = "gentle"
    KIP_435 = "kip-435"


class Mode(enum.StrEnum):
    """When the next partition begins: as soon as there is a place, or with the next wave."""

    ROLLING = "rolling"
    WAVE = "wave"


class Order(enum.StrEnum):
    """In which order partitions begin."""

    TOPIC = "topic"
    LARGEST_FIRST = "size-desc"
    SMALLEST_FIRST = "size-asc"
    PLAN = "plan"


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """How much of a plan is under way at once; None is no limit.

    The names are those of the command line, and of KIP-435 behind them.
    """

    replicas: AtLeastOne | None = None
    """Replicas of one partition being added."""
    partitions: AtLeastOne | None = None
    """Partitions begun and not ended."""
    leader_movements: AtLeastOne | None = None
    replica_movements: AtLeastOne | None = None
    """Replicas being added over all partitions."""
    per_broker: AtLeastOne | None = None
    """Replicas being added on one broker."""
    extra_replicas: AtLeastOne | None = None
    """Replicas of one partition beyond those of its target."""
    cut_together: AtLeastOne | None = None
    """Partitions that lose their old replicas in one request."""
    shape: Shape = Shape.GENTLE
    mode: Mode = Mode.ROLLING
    order: Order = Order.TOPIC


class Plan(msgspec.Struct, frozen=True, kw_only=True):
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
    faults: tuple[Due, ...] = ()
    """In the order of time."""
    plan: Plan | None = None
    limits: Limits = Limits()
    speed: float = 1.0
    """How many of the cluster's seconds pass in one of ours, unless told otherwise."""
