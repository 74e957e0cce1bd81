"""The part of a cluster that a snapshot has: all of it, or what shares the brokers of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.check.placement import Placement
from ktui.planning.names import join_some
from ktui.planning.plan import Plan
from ktui.simulated.scenario.cluster import MOST_BROKERS
from ktui.simulated.scenario.world import MOST_PARTITIONS, MOST_REPLICAS


class CannotSnapshot(Exception):
    """No twin can be made of a cluster; the message says why, and what to do."""


class Scope(msgspec.Struct, frozen=True):
    """The topics and the brokers of a snapshot."""

    topics: Mapping[str, tuple[PartitionState, ...]]
    """The partitions of each topic, by number; topics by name."""
    brokers: tuple[int, ...]
    """Those that are up, and those that are down."""
    incomplete: tuple[str, ...] = ()
    """The topics of which the cluster does not show all partitions; they are left out."""


def scope_of(placement: Placement, plan: Plan | None) -> Scope:
    """Return what a snapshot has: topics are whole.

    Args:
        plan: the plan; None for the whole cluster.

    Raises:
        CannotSnapshot: a topic of the plan is not shown, or the part is larger than a scenario.
    """
    by_topic: dict[str, list[PartitionState]] = {}
    for tp in sorted(placement.partitions):
        by_topic.setdefault(tp.topic, []).append(placement.partitions[tp])
    brokers = set(placement.brokers)
    if plan is not None:
        _check_topics(plan, by_topic)
        touched = _touched(plan, placement.partitions)
        by_topic = {
            topic: states
            for topic, states in by_topic.items()
            if any(not touched.isdisjoint(state.replicas) for state in states)
        }
        brokers = touched & placement.brokers | _brokers(by_topic.values())
    incomplete = tuple(topic for topic, states in by_topic.items() if not _whole(states))
    whole = {topic: tuple(s) for topic, s in by_topic.items() if topic not in incomplete}
    scope = Scope(whole, tuple(sorted(brokers)), incomplete)
    _check_room(scope)
    return scope


def _check_topics(plan: Plan, known: Mapping[str, object]) -> None:
    missing = dict.fromkeys(each.topic for each in plan.partitions if each.topic not in known)
    if missing:
        raise CannotSnapshot(
            f"the cluster does not show topics of the plan: {join_some([*missing], most=10)}. They "
            "do not exist, or Describe on them is not granted. See: ktui plan check PLAN"
        )


def _touched(plan: Plan, known: Mapping[TopicPartition, PartitionState]) -> set[int]:
    touched: set[int] = set()
    for target in plan.partitions:
        state = known.get(target.tp)
        touched.update(target.replicas, () if state is None else state.replicas)
    return touched


def _brokers(topics: Iterable[Iterable[PartitionState]]) -> set[int]:
    return {broker for states in topics for state in states for broker in state.replicas}


def _whole(states: list[PartitionState]) -> bool:
    numbers = [state.tp.partition for state in states]
    return numbers[0] == 0 and all(b == a + 1 for a, b in pairwise(numbers))


def _check_room(scope: Scope) -> None:
    states = [state for states in scope.topics.values() for state in states]
    for count, most, noun in (
        (len(scope.brokers), MOST_BROKERS, "brokers"),
        (len(states), MOST_PARTITIONS, "partitions"),
        (sum(len(state.replicas) for state in states), MOST_REPLICAS, "replicas"),
    ):
        if count > most:
            raise CannotSnapshot(
                f"that would be {count:,} {noun}, and a snapshot may have {most:,}. Name a plan: "
                "the snapshot then has only what shares the plan's brokers"
            )
