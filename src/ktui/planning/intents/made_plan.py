"""What an operator asks of a plan that is made, and what the plan leaves undone, in words."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from math import isfinite

import msgspec

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.layout import Layout
from ktui.planning.plan import Plan, closest_names, join_all, join_named, join_some, shortened
from ktui.planning.throttle_rates import is_canary
from ktui.quantities import as_count


class Internal(enum.StrEnum):
    """When Kafka's own topics are moved."""

    FIRST = "first"
    LAST = "last"
    EXCLUDE = "exclude"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that a plan may change, and the most that it may change; None for no bound."""

    topics: tuple[str, ...] = ()  # names, or shell patterns (`orders-*`); empty for all topics
    exclude: tuple[str, ...] = ()
    internal: Internal = Internal.LAST
    max_moves: int | None = None
    max_bytes: int | None = None
    max_leader_changes: int | None = None
    rack_aware: bool = True  # whether a partition never ends up on fewer racks than it is on
    keep_order: bool = False  # whether a new replica takes the old one's place in the list

    def includes(self, topic: str) -> bool:
        if is_canary(topic) or (self.internal is Internal.EXCLUDE and topic in INTERNAL_TOPICS):
            return False
        if any(fnmatchcase(topic, pattern) for pattern in self.exclude):
            return False
        return not self.topics or any(fnmatchcase(topic, each) for each in self.topics)


class CannotMake(Exception):
    """There is no such plan at all. The message has the reason and the fix."""


class Why(enum.StrEnum):
    """Why something of an intention is left undone."""

    NO_BROKER = "no broker"  # all brokers that may get replicas have one of the partition
    NO_REPLICA = "no replica"  # no replica is where one would have to be moved from, or to lead
    RACK = "rack"
    ROOM = "room"
    MAX_MOVES = "max moves"
    MAX_BYTES = "max bytes"
    MAX_LEADER_CHANGES = "max leader changes"
    LAST_REPLICA = "last replica"  # no replica in sync would be left to copy from or to lead
    REASSIGNING = "being reassigned"
    UNREGISTERED = "unregistered"  # a replica is on a broker that is not registered any more
    CORDONED = "cordoned"  # its list would name one, which Kafka refuses from 4.4 on
    UNREADABLE = "unreadable"


class Left(msgspec.Struct, frozen=True):
    """Something that stays as it is: a replica, a partition, or a broker off the intention."""

    tp: TopicPartition | None
    broker: int | None
    why: Why
    amount: int = 0  # for a broker, how far off it stays: replicas, bytes or preferred leaders
    cordoned: tuple[int, ...] = ()  # for `Why.CORDONED`, the brokers that are in the way


class MadePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan; `plan.partitions` has only partitions that change, and may be empty."""

    plan: Plan
    left: tuple[Left, ...] = ()
    moves: int = 0  # replicas that are copied to another broker
    bytes: int = 0
    leader_changes: int = 0


REASONS = {
    Why.NO_BROKER: "every broker that may get replicas has one of the partition already",
    Why.NO_REPLICA: "no replica is where one would have to be moved from, or to lead",
    Why.RACK: "the partition would be on fewer racks",
    Why.ROOM: "no broker has room",
    Why.MAX_MOVES: "the most moves are reached",
    Why.MAX_BYTES: "the most bytes are reached",
    Why.MAX_LEADER_CHANGES: "the most leader changes are reached",
    Why.LAST_REPLICA: "no other replica is in sync",
    Why.REASSIGNING: "a reassignment is under way",
    Why.UNREGISTERED: "it has a replica on a broker that is no longer registered, and Kafka takes "
    "no list with such a broker; drain that one first",
    Why.CORDONED: "its list would name a cordoned broker, and Kafka refuses every such list; lift "
    "the cordon first: {uncordon}",
    Why.UNREADABLE: "metadata cannot be read",
}
"""Each reason, as it follows a colon; `reason_of` fills it in."""


def reason_of(left: Left, reasons: Mapping[Why, str] = REASONS) -> str:
    """Return why something stays as it is, as it follows a colon."""
    uncordon = " and ".join(f"ktui broker uncordon {broker}" for broker in left.cordoned)
    return reasons[left.why].format(uncordon=uncordon)


def left_name(left: Left) -> str:
    """Name a broker, a partition, or a replica."""
    if left.tp is None:
        return f"broker {left.broker}"
    return str(left.tp) if left.broker is None else f"{left.tp} on broker {left.broker}"


def left_lines(left: Iterable[Left]) -> Iterator[str]:
    """Yield a sentence for each reason: what stays as it is, and why."""
    by_reason: dict[tuple[Why, str, str], list[str]] = {}
    for each in left:
        noun = "broker" if each.tp is None else "partition" if each.broker is None else "replica"
        by_reason.setdefault((each.why, noun, reason_of(each)), []).append(left_name(each))
    for (_, noun, reason), names in sorted(by_reason.items()):
        one = len(names) == 1
        if noun == "broker":
            verb = "misses its goal" if one else "miss their goal"
        else:
            verb = "stays as it is" if one else "stay as they are"
        yield f"{as_count(len(names), noun)} {verb}: {reason} ({join_some(names)})."


def check_wishes(layout: Layout, wishes: Wishes) -> None:
    """Raise CannotMake if budgets, weights or the names of topics are out of range or unknown."""
    budgets = {
        "max moves": wishes.max_moves,
        "max bytes": wishes.max_bytes,
        "max leader changes": wishes.max_leader_changes,
    }
    for name, most in budgets.items():
        if most is not None and most < 0:
            raise CannotMake(f"{name} is {most:,}; it cannot be less than 0.")
    for broker, weight in sorted(layout.weights.items()):
        if not isfinite(weight) or weight < 0:
            raise CannotMake(f"The weight of broker {broker} is {weight}; give 0 or more.")
    if plain := [name for name in wishes.topics if not {*name} & {*"*?["}]:
        check_topics(layout, plain)


def check_brokers(
    layout: Layout, brokers: Collection[int], *, leaving: bool = False
) -> frozenset[int]:
    """Return brokers as a set, or raise CannotMake; only those `leaving` may be unregistered."""
    if not brokers:
        raise CannotMake("No broker is named.")
    known = layout.known if leaving else layout.known - layout.unregistered
    if unknown := sorted({*brokers} - known):
        has = join_named("broker", sorted(known), most=12)
        raise CannotMake(f"There is no {join_named('broker', unknown)}; the cluster has {has}.")
    return frozenset(brokers)


def check_targets(layout: Layout, brokers: Collection[int]) -> frozenset[int]:
    """Return brokers that are to get replicas as a set; CannotMake if one is down or cordoned."""
    checked = check_brokers(layout, brokers)
    if down := sorted(checked - layout.pool.online):
        are = "is" if len(down) == 1 else "are"
        raise CannotMake(
            f"{join_named('broker', down).capitalize()} {are} down and can get no replicas."
        )
    if cordoned := sorted(checked & layout.pool.cordoned):
        raise CannotMake(
            f"All log dirs of {join_named('broker', cordoned)} are cordoned: they get no replicas. "
            f"Lift a cordon with ktui broker uncordon {cordoned[0]}."
        )
    return checked


def check_topics(layout: Layout, topics: Collection[str]) -> None:
    """Check that the cluster has topics; CannotMake has the closest names."""
    known = {tp.topic for tp in layout.partitions}
    for topic in topics:
        if topic not in known:
            near = join_all(map(shortened, closest_names(topic, sorted(known))), "or")
            hint = f"; did you mean {near}?" if near else "."
            raise CannotMake(f"The cluster has no topic {shortened(topic)}{hint}")


def check_patterns(layout: Layout, patterns: Collection[str]) -> None:
    """Check that each name or shell pattern matches a topic; CannotMake has the closest names."""
    topics = sorted({tp.topic for tp in layout.partitions})
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            near = join_all(map(shortened, closest_names(pattern, topics)), "or")
            hint = f"; did you mean {near}?" if near else ""
            raise CannotMake(f"no topic matches {shortened(pattern)!r}{hint}")


def check_factor(factor: int) -> None:
    """Raise CannotMake for a replication factor below 1."""
    if factor < 1:
        raise CannotMake(f"A replication factor is at least 1, not {factor:,}.")


def check_tolerance(tolerance: float) -> None:
    """Raise CannotMake for a tolerance that is not from 0 to 1."""
    if not 0 <= tolerance <= 1:
        raise CannotMake(f"The tolerance is {tolerance:g}; give a share from 0 to 1, such as 0.1.")
