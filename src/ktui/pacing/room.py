"""The room that the limits leave, as one decision fills it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Literal

import msgspec

from ktui.pacing.last_minute import raises_epoch
from ktui.pacing.queue import Demand
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Step

NONE: Mapping[int, int] = MappingProxyType({})


class Full(msgspec.Struct, frozen=True):
    """A limit that leaves no room for a step."""

    limit: Literal[
        "partitions",
        "leader_movements",
        "replica_movements",
        "per_broker",
        "per_leader",
        "cuts_per_minute",
    ]
    """The limit's field in `Limits`."""
    used: int
    most: int
    broker: int | None = None
    """The full broker, for a limit per broker or per leader."""
    others: int = 0
    """The part of `used` that other people's reassignments take."""


class Foreign(msgspec.Struct, frozen=True):
    """The replicas that other people's reassignments are adding."""

    adding: Mapping[int, int] = NONE
    """How many of them each broker is to get."""
    sending: Mapping[int, int] = NONE
    """How many of them are copied from each leader."""

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.adding.values())


NOTHING_FOREIGN = Foreign()


class Room:
    """The room left under P, L, M, B, S and K.

    M, B and S also count replicas that other people add; P, L and K count only ours. A step that
    adds because too few replicas are in sync may exceed M and S, since producers wait for it.

    Attributes:
        free_places: how many more partitions may begin.
        free_steps: how many more steps may be in flight for partitions that hold a place; once P
            has been lowered, fewer than these partitions.
    """

    def __init__(self, roster: Roster, others: Foreign) -> None:
        self._limits = roster.limits
        self._leaders = roster.leaders_moving
        self._cuts = roster.cuts_lately
        self._adding = roster.replicas_adding + others.count
        self._roster = roster
        self._others = others
        self._taken: Counter[int] = Counter()
        self._taken_from: Counter[int] = Counter()
        most = inf if self._limits.partitions is None else self._limits.partitions
        self.free_places = most - roster.places_taken
        self.free_steps = most - roster.steps_in_places

    def fits(self, demand: Demand) -> bool:
        """Whether a step fits now; steps are taken whole or not at all."""
        return self.lacks(demand) is None

    def lacks(self, demand: Demand) -> Full | None:
        """Return the first limit that has no room for a step; None if the step fits now."""
        limits = self._limits
        if demand.moves_leader and not self._below(limits.leader_movements, self._leaders):
            return Full("leader_movements", self._leaders, limits.leader_movements or 0)
        if full := self.lacks_cuts(demand):
            return full
        if demand.adds and not demand.urgent and not self._adds_fit(demand.adds):
            most = limits.replica_movements or 0
            return Full("replica_movements", self._adding, most, others=self._others.count)
        for broker in demand.brokers:
            if not self._below(limits.per_broker, self._on(broker)):
                most, others = limits.per_broker or 0, self._others.adding.get(broker, 0)
                return Full("per_broker", self._on(broker), most, broker, others)
        if demand.leader is not None and not demand.urgent:
            return self._lacks_at(demand.leader, demand.adds)
        return None

    def _lacks_at(self, leader: int, adds: int) -> Full | None:
        """Return S if the leader has no room for as many copies."""
        most, others = self._limits.per_leader, self._others.sending.get(leader, 0)
        used = self._roster.sending[leader] + others + self._taken_from[leader]
        if most is None or used + adds <= most:
            return None
        return Full("per_leader", used, most, leader, others)

    def lacks_cuts(self, demand: Demand) -> Full | None:
        """Return K if a step raises a leader epoch, and too many have within the last minute."""
        most = self._limits.cuts_per_minute
        if not demand.raises_epoch or most is None or self._cuts < most:
            return None
        return Full("cuts_per_minute", self._cuts, most)

    def fits_with_leader(self, demand: Demand) -> bool:
        """Whether a step moves leadership and fits."""
        return demand.moves_leader and self.fits(demand)

    def fits_without_leader(self, demand: Demand) -> bool:
        """Whether a step moves no leadership and fits."""
        return not demand.moves_leader and self.fits(demand)

    def may_go_alone(self, demand: Demand) -> bool:
        """Whether a step goes once nothing else moves, though it never fits: it exceeds M or S."""
        return self.exceeded(demand) is not None and self.lacks_cuts(demand) is None

    def exceeded(self, demand: Demand) -> str | None:
        """Return the limit that a step's own adds exceed, as its field in `Limits`."""
        if demand.urgent:
            return None
        for limit in ("replica_movements", "per_leader"):
            most = getattr(self._limits, limit)
            if most is not None and demand.adds > most:
                return limit
        return None

    def take(self, step: Step, leader: int | None) -> None:
        """Count a step that the decision takes, and that copies from this leader."""
        self._leaders += step.moves_leader
        self._cuts += raises_epoch(step)
        self._adding += len(step.adds)
        self._taken.update(step.adds)
        if leader is not None:
            self._taken_from[leader] += len(step.adds)

    def _adds_fit(self, adds: int) -> bool:
        most = self._limits.replica_movements
        return most is None or self._adding + adds <= most

    def _on(self, broker: int) -> int:
        there = self._roster.adding[broker] + self._taken[broker]
        return there + self._others.adding.get(broker, 0)

    @staticmethod
    def _below(most: int | None, now: int) -> bool:
        return most is None or now < most
