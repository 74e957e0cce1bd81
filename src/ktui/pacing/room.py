"""The room that the limits leave, as one decision fills it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from ktui.pacing.decision import Move
from ktui.pacing.last_minute import raises_epoch
from ktui.pacing.queue import Demand
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Step
from ktui.pacing.usage import Usage

AtBroker = Literal["per_broker", "per_leader", "bytes_per_broker"]
"""The limits that bind at each broker, as fields in `Limits`."""

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
    among_urgent: bool = False
    """Whether `used` is what urgent partitions use: the step's partition is one of them."""
    among_internal: bool = False
    """Whether `used` counts the leaders of internal partitions alone, of which one moves."""
    own: bool = False
    """Whether the limit is the broker's own, in the place of the run's."""


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that a step's own adds exceed: it leaves room for them at no time."""

    limit: str
    """The limit's field in `Limits`."""
    most: int
    broker: int | None = None
    """The broker whose own limit it is; None for the run's."""


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

    For an urgent partition, all but K count only what urgent partitions have in flight: nothing
    else takes that room. Of the leaders of internal partitions one moves at a time, urgent or not.
    """

    def __init__(self, roster: Roster, others: Foreign) -> None:
        self._limits = roster.limits
        self._by_size = roster.limits.by_size
        per_leader = (roster.limits.per_leader, *roster.limits.own_of("per-leader").values())
        self._lowest_per_leader = min((s for s in per_leader if s is not None), default=None)
        self._cuts = roster.cuts_lately
        self._whole = _Share(roster.used, others)
        self._urgent = _Share(roster.used_by_urgent, NOTHING_FOREIGN)

    def _share(self, *, among_urgent: bool) -> _Share:
        return self._urgent if among_urgent else self._whole

    def may_begin(self, *, among_urgent: bool) -> bool:
        """Whether another partition may begin, under P alone."""
        most, share = self._limits.partitions, self._share(among_urgent=among_urgent)
        return most is None or max(share.places, share.steps_in_places) < most

    def may_go_on(self, *, holds_place: bool, among_urgent: bool) -> bool:
        """Whether a begun partition may take a step, under P alone.

        Once P has been lowered, fewer steps may be in flight than partitions hold a place.
        """
        most, share = self._limits.partitions, self._share(among_urgent=among_urgent)
        free = most is None or share.steps_in_places < most
        return free if holds_place else self.may_begin(among_urgent=among_urgent)

    def is_closed(self, *, among_urgent: bool) -> bool:
        """Whether a step is in flight alone until it is over."""
        return self._share(among_urgent=among_urgent).alone > 0

    def lacks_place(self, *, holds_place: bool, among_urgent: bool) -> Full | None:
        """Return P if it lets a partition neither begin nor go on; None if it does."""
        if self.may_go_on(holds_place=holds_place, among_urgent=among_urgent):
            return None
        share = self._share(among_urgent=among_urgent)
        used = share.steps_in_places if holds_place else max(share.places, share.steps_in_places)
        return Full("partitions", used, self._limits.partitions or 0, among_urgent=among_urgent)

    def fits(self, demand: Demand) -> bool:
        """Whether a step fits now; steps are taken whole or not at all."""
        share = self._share(among_urgent=demand.among_urgent)
        if share.is_known_full(demand) or share.alone > 0:
            return False
        full = self.lacks(demand)
        if full is not None:
            share.note_full(full)
        return full is None

    def lacks(self, demand: Demand) -> Full | None:
        """Return the first limit that has no room for a step; None if the step fits now."""
        return (
            self._lacks_leader_movement(demand)
            or self.lacks_cuts(demand)
            or self._lacks_on_broker(demand)
            or (None if demand.urgent else self._lacks_for_copies(demand))
        )

    def _lacks_leader_movement(self, demand: Demand) -> Full | None:
        """Return L if too many leaders are moving, or one of an internal partition is."""
        if demand.moves_coordinator and (moving := self._whole.coordinators_moving):
            return Full("leader_movements", moving, 1, among_internal=True)
        used = self._share(among_urgent=demand.among_urgent).leaders_moving
        most = self._limits.leader_movements
        if not demand.moves_leader or self._below(most, used):
            return None
        return Full("leader_movements", used, most or 0, among_urgent=demand.among_urgent)

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
        share, most = self._share(among_urgent=demand.among_urgent), self._limits.replica_movements
        if most is None or share.replicas_adding + demand.adds <= most:
            return None
        return Full(
            "replica_movements",
            share.replicas_adding,
            most,
            others=share.others.count,
            among_urgent=demand.among_urgent,
        )

    def _lacks_on_broker(self, demand: Demand) -> Full | None:
        """Return B for the first broker without room for another replica."""
        limits, share = self._limits, self._share(among_urgent=demand.among_urgent)
        for broker in demand.brokers:
            most = limits.per_broker_at(broker)
            if most is not None and (used := share.on(broker)) >= most:
                others = share.others.adding.get(broker, 0)
                return self._full_at(broker, "per_broker", used, most, demand, others)
        return None

    def _lacks_at_leader(self, demand: Demand) -> Full | None:
        """Return S if the leader has no room for as many copies."""
        leader = demand.leader
        most = None if leader is None else self._limits.per_leader_at(leader)
        if most is None or leader is None:
            return None
        share = self._share(among_urgent=demand.among_urgent)
        used, others = share.sent_by(leader), share.others.sending.get(leader, 0)
        if used + demand.adds <= most:
            return None
        return self._full_at(leader, "per_leader", used, most, demand, others)

    def _lacks_bytes(self, demand: Demand) -> Full | None:
        """Return V or W if so many bytes are being copied already."""
        share, among = self._share(among_urgent=demand.among_urgent), demand.among_urgent
        most = self._limits.bytes_in_flight
        if not self._below(most, share.bytes_adding):
            return Full("bytes_in_flight", share.bytes_adding, most or 0, among_urgent=among)
        if not self._by_size:
            return None
        leader = () if demand.leader is None else (demand.leader,)
        for broker in (*leader, *demand.brokers):
            most = self._limits.bytes_per_broker_at(broker)
            if most is not None and (used := share.bytes_at(broker)) >= most:
                return self._full_at(broker, "bytes_per_broker", used, most, demand)
        return None

    def _full_at(
        self, broker: int, limit: AtBroker, used: int, most: int, demand: Demand, others: int = 0
    ) -> Full:
        own = bool(self._limits.brokers) and broker in self._limits.own_of(limit)
        return Full(
            limit, used, most, broker, own=own, others=others, among_urgent=demand.among_urgent
        )

    def lacks_cuts(self, demand: Demand) -> Full | None:
        """Return K if a step raises a leader epoch, and too many have within the last minute."""
        most = self._limits.cuts_per_minute
        if not demand.raises_epoch or most is None or self._cuts < most:
            return None
        return Full("cuts_per_minute", self._cuts, most)

    def may_go_alone(self, demand: Demand) -> bool:
        """Whether a step goes once nothing else moves, though it never fits: it exceeds M or S."""
        return self.exceeded(demand) is not None and self.lacks_cuts(demand) is None

    def exceeded(self, demand: Demand) -> Exceeded | None:
        """Return the limit that a step's own adds exceed.

        Without a leader, the demand stands for those of all leaders: the lowest S counts.
        """
        if demand.urgent:
            return None
        limits, leader = self._limits, demand.leader
        if limits.replica_movements is not None and demand.adds > limits.replica_movements:
            return Exceeded("replica_movements", limits.replica_movements)
        most = self._lowest_per_leader if leader is None else limits.per_leader_at(leader)
        if most is None or demand.adds <= most:
            return None
        own = leader is not None and leader in limits.own_of("per-leader")
        return Exceeded("per_leader", most, leader if own else None)

    def taken_where_added(self, step: Step) -> tuple[int, int]:
        """Return how full the fullest broker is that a step adds.

        Under W that is by bytes copied to it and from it, then by the replicas being added there.
        """
        whole = self._whole
        taken = ((self._by_size * whole.bytes_at(b), whole.on(b)) for b in step.adds)
        return max(taken, default=(0, 0))

    def take(self, move: Move, leader: int | None, weight: int, *, begins: bool) -> None:
        """Count a step that the decision takes.

        Args:
            move: the step.
            leader: the leader that it copies from.
            weight: the bytes that each replica counts.
            begins: whether its partition takes a place that it did not hold.
        """
        self._cuts += raises_epoch(move.step)
        for share in (self._whole, self._urgent) if move.among_urgent else (self._whole,):
            share.take(move, leader, weight, begins=begins)

    @staticmethod
    def _below(most: int | None, now: int) -> bool:
        return most is None or now < most


class _Share:
    """The use of the limits by all partitions, or by the urgent ones, during a decision.

    Args:
        used: what is in flight.
        others: what other people add; it counts beside that.
    """

    def __init__(self, used: Usage, others: Foreign) -> None:
        self._used = used
        self._taken = Usage()
        self.others = others
        self._full_receivers: set[int] = set()
        self._full_leaders: set[int] = set()
        """The brokers found to be full: a decision makes no room again."""

    def is_known_full(self, demand: Demand) -> bool:
        """Whether a broker of a step was found to be full before."""
        if demand.urgent:
            return False
        full = demand.leader in self._full_leaders
        return full or not self._full_receivers.isdisjoint(demand.brokers)

    def note_full(self, full: Full) -> None:
        """Remember a full broker, if a limit of a broker has no room for any step that adds."""
        if full.broker is not None and full.limit != "per_leader":
            self._full_receivers.add(full.broker)
            if full.limit == "bytes_per_broker":
                self._full_leaders.add(full.broker)

    def take(self, move: Move, leader: int | None, weight: int, *, begins: bool) -> None:
        self._taken.count(move, weight)
        self._taken.places += begins
        if leader is not None:
            self._taken.count_at_leader(leader, len(move.step.adds), weight)

    @property
    def places(self) -> int:
        return self._used.places + self._taken.places

    @property
    def steps_in_places(self) -> int:
        return self._used.steps_in_places + self._taken.steps_in_places

    @property
    def alone(self) -> int:
        return self._used.alone + self._taken.alone

    @property
    def leaders_moving(self) -> int:
        return self._used.leaders_moving + self._taken.leaders_moving

    @property
    def coordinators_moving(self) -> int:
        return self._used.coordinators_moving + self._taken.coordinators_moving

    @property
    def replicas_adding(self) -> int:
        ours = self._used.replicas_adding + self._taken.replicas_adding
        return ours + self.others.count

    @property
    def bytes_adding(self) -> int:
        return self._used.bytes_adding + self._taken.bytes_adding

    def bytes_at(self, broker: int) -> int:
        return self._used.bytes_at[broker] + self._taken.bytes_at[broker]

    def on(self, broker: int) -> int:
        """Return how many replicas are being added on a broker."""
        ours = self._used.adding[broker] + self._taken.adding[broker]
        return ours + self.others.adding.get(broker, 0)

    def sent_by(self, leader: int) -> int:
        """Return how many replicas are being copied from a leader."""
        ours = self._used.sending[leader] + self._taken.sending[leader]
        return ours + self.others.sending.get(leader, 0)
