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
        "bytes_in_flight",
        "bytes_per_broker",
    ]
    """The limit's field in `Limits`."""
    used: int
    """A count, or bytes."""
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
    """The room left under P, L, M, B, S, K, V and W.

    M, B and S also count replicas that other people add; the others count only ours. A step that
    adds because too few replicas are in sync may exceed M, S, V and W, since producers wait for it.
    V and W are full once so many bytes are being copied: the last step that adds may exceed them.

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
        self._bytes = roster.bytes_adding
        self._bytes_taken: Counter[int] = Counter()
        most = inf if self._limits.partitions is None else self._limits.partitions
        self.free_places = most - roster.places_taken
        self.free_steps = most - roster.steps_in_places

    def fits(self, demand: Demand) -> bool:
        """Whether a step fits now; steps are taken whole or not at all."""
        return self.lacks(demand) is None

    def lacks(self, demand: Demand) -> Full | None:
        """Return the first limit that has no room for a step; None if the step fits now."""
        return (
            self._lacks_leader_movement(demand)
            or self.lacks_cuts(demand)
            or self._lacks_on_broker(demand)
            or (None if demand.urgent else self._lacks_for_copies(demand))
        )

    def _lacks_leader_movement(self, demand: Demand) -> Full | None:
        """Return L if too many leaders are moving."""
        most = self._limits.leader_movements
        if not demand.moves_leader or self._below(most, self._leaders):
            return None
        return Full("leader_movements", self._leaders, most or 0)

    def _lacks_for_copies(self, demand: Demand) -> Full | None:
        """Return the first of M, S, V and W that has no room for what a step copies."""
        if not demand.adds:
            return None
        return (
            self._lacks_in_cluster(demand)
            or self._lacks_at_leader(demand)
            or self._lacks_bytes(demand)
        )

    def _lacks_in_cluster(self, demand: Demand) -> Full | None:
        """Return M if the cluster has no room for as many replicas."""
        most = self._limits.replica_movements
        if most is None or self._adding + demand.adds <= most:
            return None
        return Full("replica_movements", self._adding, most, others=self._others.count)

    def _lacks_on_broker(self, demand: Demand) -> Full | None:
        """Return B for the first broker without room for another replica."""
        most = self._limits.per_broker
        for broker in demand.brokers:
            if not self._below(most, self._on(broker)):
                others = self._others.adding.get(broker, 0)
                return Full("per_broker", self._on(broker), most or 0, broker, others)
        return None

    def _lacks_at_leader(self, demand: Demand) -> Full | None:
        """Return S if the leader has no room for as many copies."""
        most, leader = self._limits.per_leader, demand.leader
        if most is None or leader is None:
            return None
        others = self._others.sending.get(leader, 0)
        used = self._roster.sending[leader] + others + self._taken_from[leader]
        return Full("per_leader", used, most, leader, others) if used + demand.adds > most else None

    def _lacks_bytes(self, demand: Demand) -> Full | None:
        """Return V or W if so many bytes are being copied already."""
        if not self._below(self._limits.bytes_in_flight, self._bytes):
            return Full("bytes_in_flight", self._bytes, self._limits.bytes_in_flight or 0)
        most = self._limits.bytes_per_broker
        if most is None:
            return None
        leader = () if demand.leader is None else (demand.leader,)
        for broker in (*leader, *demand.brokers):
            used = self._bytes_at(broker)
            if used >= most:
                return Full("bytes_per_broker", used, most, broker)
        return None

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

    def taken_where_added(self, step: Step) -> tuple[int, int]:
        """Return how full the fullest broker is that a step adds.

        Under W that is by bytes copied to it and from it, then by the replicas being added there.
        """
        by_bytes = self._limits.bytes_per_broker is not None
        taken = ((by_bytes * self._bytes_at(b), self._on(b)) for b in step.adds)
        return max(taken, default=(0, 0))

    def take(self, step: Step, leader: int | None, weight: int) -> None:
        """Count a step that the decision takes.

        Args:
            step: the step.
            leader: the leader that it copies from.
            weight: the bytes that each replica counts.
        """
        self._leaders += step.moves_leader
        self._cuts += raises_epoch(step)
        self._adding += len(step.adds)
        self._taken.update(step.adds)
        if leader is not None:
            self._taken_from[leader] += len(step.adds)
            self._bytes_taken[leader] += weight * len(step.adds)
        self._bytes += weight * len(step.adds)
        for broker in step.adds:
            self._bytes_taken[broker] += weight

    def _bytes_at(self, broker: int) -> int:
        return self._roster.bytes_at[broker] + self._bytes_taken[broker]

    def _on(self, broker: int) -> int:
        there = self._roster.adding[broker] + self._taken[broker]
        return there + self._others.adding.get(broker, 0)

    @staticmethod
    def _below(most: int | None, now: int) -> bool:
        return most is None or now < most
