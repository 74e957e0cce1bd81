"""What a plan costs and what it reaches, by the same count for every planner."""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter

import msgspec

from bench.checks import check_count
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.intents.layout import Holding, Layout, before_after
from ktui.planning.plan import Plan

Lists = dict[TopicPartition, Brokers]


class Spread(msgspec.Struct, frozen=True):
    """What the fullest broker has, as a multiple of the mean."""

    replicas: float
    bytes: float
    leaders: float

    def __str__(self) -> str:
        return f"{self.replicas:.2f} / {self.bytes:.2f} / {self.leaders:.2f}"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan costs and what it reaches."""

    moves: int
    """Replicas that are copied to a broker which does not have them."""
    bytes: int
    leader_changes: int
    """Partitions whose preferred leader becomes another."""
    spread: Spread
    """After the plan."""
    racks_lacking: int
    """The racks that partitions could be on besides those they are on after the plan."""


def figures_of(layout: Layout, plan: Plan, among: Collection[int]) -> Figures:
    """Count what a plan costs and reaches.

    Args:
        layout: the cluster before the plan.
        plan: the plan.
        among: the brokers that may have replicas after it.

    Raises:
        SystemExit: the plan names a broker twice, or one that may have no replicas.
    """
    change = before_after(layout, plan)
    after = [each.after for each in change.brokers if each.broker in among]
    elsewhere = sum(each.after.replicas for each in change.brokers if each.broker not in among)
    check_count("replicas on brokers that are to have none", elsewhere, 0)
    twice = sum(len({*each.replicas}) < len(each.replicas) for each in plan.partitions)
    check_count("partitions with a broker twice", twice, 0)
    return Figures(
        moves=change.replicas,
        bytes=change.bytes,
        leader_changes=change.leaders,
        spread=spread_of(after),
        racks_lacking=_racks_lacking(layout, lists_after(layout, plan), among),
    )


def lists_after(layout: Layout, plan: Plan) -> Lists:
    """Return the replicas of every partition once a plan is carried out."""
    lists = {tp: state.replicas for tp, state in layout.partitions.items()}
    return lists | {target.tp: target.replicas for target in plan.partitions}


def spread_of(brokers: Collection[Holding]) -> Spread:
    """Return how even brokers are."""

    def highest(of: Callable[[Holding], int]) -> float:
        loads = [of(each) for each in brokers]
        return max(loads) * len(loads) / (sum(loads) or 1)

    return Spread(*(highest(attrgetter(each)) for each in Spread.__struct_fields__))


def _racks_lacking(layout: Layout, lists: Lists, among: Collection[int]) -> int:
    racks = layout.pool.racks
    reachable = len({racks[broker] for broker in among})
    return sum(
        min(len(brokers), reachable) - len({racks[broker] for broker in brokers})
        for brokers in lists.values()
    )
