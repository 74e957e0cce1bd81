"""The room that the limits leave, as one decision fills it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Literal

import msgspec

from ktui.pacing.queue import Demand
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Step


class Full(msgspec.Struct, frozen=True):
    """A limit that leaves no room for a step."""

    limit: Literal["partitions", "leader_movements", "replica_movements", "per_broker"]
    """The limit's field in `Limits`."""
    used: int
    most: int
    broker: int | None = None
    """The full broker, for a limit per broker."""
    others: int = 0
    """The part of `used` that other people's reassignments take."""


class Room:
    """The room left under P, L, M and B.

    M and B also count replicas that other people add; P and L count only ours. A step that adds
    because too few replicas are in sync may exceed M, since producers wait for that step.

    Attributes:
        free_places: how many more partitions may begin.
        free_steps: how many more steps may be in flight for partitions that hold a place; once P
            has been lowered, fewer than these partitions.
    """

    def __init__(self, roster: Roster, others: Mapping[int, int]) -> None:
        self._limits = roster.limits
        self._leaders = roster.leaders_moving
        self._adding = roster.replicas_adding + sum(others.values())
        self._here = roster.adding
        self._others = others
        self._taken: Counter[int] = Counter()
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
        if demand.adds and not demand.urgent and not self._adds_fit(demand.adds):
            most, others = limits.replica_movements or 0, sum(self._others.values())
            return Full("replica_movements", self._adding, most, others=others)
        for broker in demand.brokers:
            if not self._below(limits.per_broker, self._on(broker)):
                most, others = limits.per_broker or 0, self._others.get(broker, 0)
                return Full("per_broker", self._on(broker), most, broker, others)
        return None

    def fits_with_leader(self, demand: Demand) -> bool:
        """Whether a step moves leadership and fits."""
        return demand.moves_leader and self.fits(demand)

    def fits_without_leader(self, demand: Demand) -> bool:
        """Whether a step moves no leadership and fits."""
        return not demand.moves_leader and self.fits(demand)

    def never_fits(self, demand: Demand) -> bool:
        """Whether a step would not fit even if nothing else moved: its own adds exceed M."""
        most = self._limits.replica_movements
        return most is not None and demand.adds > most and not demand.urgent

    def take(self, step: Step) -> None:
        """Count a step that the decision takes."""
        self._leaders += step.moves_leader
        self._adding += len(step.adds)
        self._taken.update(step.adds)

    def _adds_fit(self, adds: int) -> bool:
        most = self._limits.replica_movements
        return most is None or self._adding + adds <= most

    def _on(self, broker: int) -> int:
        return self._here[broker] + self._others.get(broker, 0) + self._taken[broker]

    @staticmethod
    def _below(most: int | None, now: int) -> bool:
        return most is None or now < most
