"""A plan that was made, and what of the intention it leaves undone."""

from __future__ import annotations

import enum

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.planning.plan import Plan


class CannotMake(Exception):
    """There is no such plan at all. The message has the reason and the fix."""


class Why(enum.StrEnum):
    """Why something of an intention is left undone."""

    NO_BROKER = "no broker"
    """Every broker that may get replicas has one of the partition already."""
    RACK = "rack"
    """Every broker left is on a rack that the partition is on."""
    ROOM = "room"
    """It fits on no disk."""
    MAX_MOVES = "max moves"
    MAX_BYTES = "max bytes"
    MAX_LEADER_CHANGES = "max leader changes"
    LAST_REPLICA = "last replica"
    """No replica in sync would be left to copy from or to lead."""


class Left(msgspec.Struct, frozen=True):
    """A replica, or with `broker` None a partition, that stays as it is."""

    tp: TopicPartition
    broker: int | None
    why: Why


class MadePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan; `plan.partitions` has only partitions that change, and may be empty."""

    plan: Plan
    left: tuple[Left, ...] = ()
    """What the intention asked for and the plan does not do, by topic and partition."""
