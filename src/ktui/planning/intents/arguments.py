"""Whether what was asked for fits the cluster: brokers, topics and numbers."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from math import isfinite

from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, Wishes
from ktui.planning.names import closest_names, join_all, join_named, shortened


def check_wishes(layout: Layout, wishes: Wishes) -> None:
    """Check budgets, weights and the names of topics.

    Raises:
        CannotMake: one of them is out of range or unknown.
    """
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
    """Return brokers as a set.

    Args:
        layout: the cluster.
        brokers: the brokers.
        leaving: whether they are to give up what they hold. So may those that are unregistered.

    Raises:
        CannotMake: there are none, or the cluster does not have one of them.
    """
    if not brokers:
        raise CannotMake("No broker is named.")
    known = layout.known if leaving else layout.known - layout.unregistered
    if unknown := sorted({*brokers} - known):
        has = join_named("broker", sorted(known), most=12)
        raise CannotMake(f"There is no {join_named('broker', unknown)}; the cluster has {has}.")
    return frozenset(brokers)


def check_targets(layout: Layout, brokers: Collection[int]) -> frozenset[int]:
    """Return brokers that are to get replicas as a set.

    Raises:
        CannotMake: one of them is unknown, down or cordoned.
    """
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
    """Check that the cluster has topics.

    Raises:
        CannotMake: it has not. The message has the closest names.
    """
    known = {tp.topic for tp in layout.partitions}
    for topic in topics:
        if topic not in known:
            near = join_all(map(shortened, closest_names(topic, sorted(known))), "or")
            hint = f"; did you mean {near}?" if near else "."
            raise CannotMake(f"The cluster has no topic {shortened(topic)}{hint}")


def check_patterns(layout: Layout, patterns: Collection[str]) -> None:
    """Check that each name or shell pattern matches a topic of the cluster.

    Raises:
        CannotMake: one does not. The message has the closest names.
    """
    topics = sorted({tp.topic for tp in layout.partitions})
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            near = join_all(map(shortened, closest_names(pattern, topics)), "or")
            hint = f"; did you mean {near}?" if near else ""
            raise CannotMake(f"no topic matches {shortened(pattern)!r}{hint}")


def check_factor(factor: int) -> None:
    """Check a replication factor.

    Raises:
        CannotMake: it is less than 1.
    """
    if factor < 1:
        raise CannotMake(f"A replication factor is at least 1, not {factor:,}.")


def check_tolerance(tolerance: float) -> None:
    """Check a tolerance.

    Raises:
        CannotMake: it is not from 0 to 1.
    """
    if not 0 <= tolerance <= 1:
        raise CannotMake(f"The tolerance is {tolerance:g}; give a share from 0 to 1, such as 0.1.")
