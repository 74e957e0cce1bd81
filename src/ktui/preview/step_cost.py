"""The steps of partitions and their cost, computed once for all partitions of a pattern."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ktui.cluster.partition import Brokers
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Situation, Step
from ktui.pacing.steps import all_steps


class Pattern(NamedTuple):
    """All that decides a partition's steps, with places instead of broker ids.

    The replicas have the places 0, 1, ..., in order; added replicas come after them.
    """

    replicas: int
    target: tuple[int, ...]
    leader: int
    min_isr: int
    closed: tuple[int, ...] = ()
    """Places of cordoned brokers that no list may name."""


class StepsCost(msgspec.Struct, frozen=True):
    """The cost of one partition's steps, from first to last."""

    alters: int = 0
    elections: int = 0
    leader_epoch_bumps: int = 0
    """Each alter that drops a replica begins an epoch, and so does each election."""
    most_replicas: int = 0
    """The most replicas held at once; in flight, those present and those being added."""
    most_adds: int = 0
    """The most replicas that one step adds, apart from steps that restore min ISR."""


def pattern_of(now: Situation) -> tuple[Pattern, Brokers]:
    """Return a partition's pattern, and the broker at each of its places."""
    brokers = (*now.replicas, *(b for b in now.target if b not in now.replicas))
    places = {broker: place for place, broker in enumerate(brokers)}
    leader = 0 if now.leader not in now.replicas else places[now.leader]
    target = tuple(places[broker] for broker in now.target)
    closed = tuple(places[broker] for broker in now.replicas if broker in now.closed)
    return Pattern(len(now.replicas), target, leader, now.min_isr, closed), brokers


class StepPatterns:
    """The steps of patterns under some limits, if all goes well."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[Pattern, list[Step]] = {}

    def steps(self, pattern: Pattern) -> list[Step]:
        """Return the steps of a pattern, with places instead of broker ids."""
        if pattern not in self._known:
            self._known[pattern] = all_steps(_situation(pattern), self._limits)
        return self._known[pattern]

    def cost(self, pattern: Pattern) -> StepsCost:
        """Count the cost of a pattern's steps."""
        held, leader = pattern.replicas, pattern.leader
        alters = elections = bumps = most_adds = 0
        most = max(held, len(pattern.target))
        for step in self.steps(pattern):
            alters += step.alters
            elections += step.elects is not None
            # the successor of a dropped leader needs no election of its own
            elected = step.elects is not None and leader not in step.drops
            bumps += bool(step.drops) + elected
            most = max(most, held + len(step.adds))
            most_adds = max(most_adds, 0 if step.urgent else len(step.adds))
            held = len(step.target)
            if step.moves_leader:
                leader = pattern.target[0]
        return StepsCost(alters, elections, bumps, most, most_adds)


def healthy_situation(now: Situation) -> Situation:
    """Return a partition with all replicas online and in sync, and one of them leading."""
    return Situation(
        replicas=now.replicas,
        isr=now.replicas,
        leader=now.leader if now.leader in now.replicas else next(iter(now.replicas), None),
        target=now.target,
        online=frozenset((*now.replicas, *now.target)),
        closed=now.closed,
        min_insync_replicas=now.min_isr,
    )


def _situation(pattern: Pattern) -> Situation:
    replicas = tuple(range(pattern.replicas))
    return Situation(
        replicas=replicas,
        isr=replicas,
        leader=pattern.leader,
        target=pattern.target,
        online=frozenset((*replicas, *pattern.target)),
        closed=frozenset(pattern.closed),
        min_insync_replicas=pattern.min_isr,
    )
