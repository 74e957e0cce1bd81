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
    NO_REPLICA = "no replica"
    """No replica is where one would have to be moved from, or to lead."""
    RACK = "rack"
    """Every broker left is on a rack that the partition is on."""
    ROOM = "room"
    """It fits on no disk."""
    MAX_MOVES = "max moves"
    MAX_BYTES = "max bytes"
    MAX_LEADER_CHANGES = "max leader changes"
    LAST_REPLICA = "last replica"
    """No replica in sync would be left to copy from or to lead."""
    REASSIGNING = "being reassigned"
    """It is being reassigned already, and is not changed again."""
    UNREGISTERED = "unregistered"
    """A replica is on a broker that is no longer registered, which Kafka refuses in a target."""
    CORDONED = "cordoned"
    """Its list would name a cordoned broker, which Kafka refuses from 4.4 on."""
    UNREADABLE = "unreadable"
    """Its metadata cannot be read."""


class Left(msgspec.Struct, frozen=True):
    """Something that stays as it is.

    A replica; or with `broker` None a partition; or with `tp` None a broker that keeps more, or
    gets less, than the intention asks for.
    """

    tp: TopicPartition | None
    broker: int | None
    why: Why
    amount: int = 0
    """For a broker, how far off it stays: replicas, bytes or preferred leaders."""
    cordoned: tuple[int, ...] = ()
    """For `Why.CORDONED`, the brokers whose cordons are in the way."""


class MadePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan; `plan.partitions` has only partitions that change, and may be empty."""

    plan: Plan
    left: tuple[Left, ...] = ()
    """What the intention asked for and the plan does not do, by topic and partition."""
    moves: int = 0
    """Replicas that are copied to another broker."""
    bytes: int = 0
    """Bytes that are copied, as far as sizes are known."""
    leader_changes: int = 0
    """Partitions whose preferred leader becomes another."""
