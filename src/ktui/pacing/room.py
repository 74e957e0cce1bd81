"""The room that the limits leave, as one decision fills it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ktui.pacing.limits import COUNTED, FIELDS, BrokerLimits, Full, Limit, Limits
from ktui.pacing.queue import Usage
from ktui.pacing.roster import Roster
from ktui.pacing.situation import At, Demand, Move, Place, Step


class WaitsToGoAlone(msgspec.Struct, frozen=True):
    """The step adds more than M or S allows, and goes alone once nothing else is in flight."""

    adds: int
    most: int
    limit: str = "replica_movements"  # the limit's field in `Limits`
    broker: Place = None  # the broker whose own limit it is; None for the run's


NOTHING_FOREIGN = Usage()
"""What other people's reassignments take of the limits where there are none."""


class _InForce(NamedTuple):
    field: str
    limit: Limit
    of_run: int | None
    own: Mapping[Any, int | None]  # that of single brokers, in the place of the run's

    def most_at(self, place: Place) -> int | None:
        return self.own.get(place, self.of_run) if self.own else self.of_run

    @property
    def lowest(self) -> int | None:
        return min((m for m in (self.of_run, *self.own.values()) if m is not None), default=None)


@lru_cache(64)  # asked for each decision
def _in_force(limits: Limits) -> tuple[_InForce, ...]:
    own = set(BrokerLimits.__struct_fields__) if limits.brokers else set()
    found = [
        _InForce(field, limit, getattr(limits, field), limits.own_of(field) if field in own else {})
        for field, limit in COUNTED
        if limits.is_set(field)
    ]
    return tuple(sorted(found, key=lambda each: not each.limit.binds_urgent))


class Room:
    """The room left under the limits.

    Some limits also count replicas that other people add. A step that adds because too few replicas
    are in sync may exceed those that do not bind urgent steps, since producers wait for it. Limits
    in bytes are full once so many are being copied: the last step that adds may exceed them. For an
    urgent partition, all but K count only what urgent partitions have in flight. Of the leaders of
    internal partitions one moves at a time, urgent or not.
    """

    def __init__(self, roster: Roster, others: Usage) -> None:
        self._limits = roster.limits
        self._in_force = _in_force(roster.limits)
        self._cuts = roster.cuts_lately
        self._whole = _Share(roster.used, others)
        self._urgent = _Share(roster.used_by_urgent, NOTHING_FOREIGN)

    def _share(self, *, among_urgent: bool) -> _Share:
        return self._urgent if among_urgent else self._whole

    def may_begin(self, *, among_urgent: bool) -> bool:
        most, share = self._limits.partitions, self._share(among_urgent=among_urgent)
        return most is None or share.places < most

    def may_go_on(self, *, holds_place: bool, among_urgent: bool) -> bool:
        """Whether a begun partition may take a step, under P alone, which may have been lowered."""
        most, share = self._limits.partitions, self._share(among_urgent=among_urgent)
        free = most is None or share.steps_in_places < most
        return free if holds_place else self.may_begin(among_urgent=among_urgent)

    def is_closed(self, *, among_urgent: bool) -> bool:
        return self._share(among_urgent=among_urgent).alone > 0

    def lacks_place(self, *, holds_place: bool, among_urgent: bool) -> Full | None:
        """Return P if it lets a partition neither begin nor go on; None if it does."""
        if self.may_go_on(holds_place=holds_place, among_urgent=among_urgent):
            return None
        share = self._share(among_urgent=among_urgent)
        used = share.steps_in_places if holds_place else share.places
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
        if demand.moves_coordinator and (moving := self._whole.coordinators_moving):
            return Full("leader_movements", moving, 1, among_internal=True)
        if (cuts := self.lacks_cuts(demand)) is not None:
            return cuts
        share = self._share(among_urgent=demand.among_urgent)
        for each in self._in_force:
            if demand.urgent and not each.limit.binds_urgent:
                return None
            if (full := self._lacks_of(each, share, demand)) is not None:
                return full
        return None

    @staticmethod
    def _lacks_of(each: _InForce, share: _Share, demand: Demand) -> Full | None:
        field, limit = each.field, each.limit
        if limit.costs is None:
            return None
        for place, cost in limit.costs(demand):
            most = each.most_at(place)
            if most is None:
                continue
            others = share.others.taken[field][place] if limit.counts_others else 0
            used = share.used(field, place) + others
            if used + (1 if limit.in_bytes else cost) > most:
                return Full(
                    field,
                    used,
                    most,
                    place,
                    own=place in each.own,
                    others=others,
                    among_urgent=demand.among_urgent,
                )
        return None

    def lacks_cuts(self, demand: Demand) -> Full | None:
        most = self._limits.cuts_per_minute
        if not demand.raises_epoch or most is None or self._cuts < most:
            return None
        return Full("cuts_per_minute", self._cuts, most)

    def may_go_alone(self, demand: Demand) -> bool:
        """Whether a step goes once nothing else moves, though it never fits: it exceeds M or S."""
        return self.exceeded(demand) is not None and self.lacks_cuts(demand) is None

    def exceeded(self, demand: Demand) -> WaitsToGoAlone | None:
        """Return the limit that a step's own adds exceed; without a leader, by the lowest S."""
        leader = next(iter(demand.places[At.LEADER]), None)
        for each in self._in_force:
            if demand.urgent or not each.limit.may_exceed:
                continue
            of_leader = At.LEADER in each.limit.at
            place = leader if of_leader else None
            most = each.lowest if of_leader and leader is None else each.most_at(place)
            if most is not None and demand.adds > most:
                broker = place if place in each.own else None
                return WaitsToGoAlone(demand.adds, most, each.field, broker)
        return None

    def taken_where_added(self, step: Step) -> tuple[int, int]:
        """How full the fullest broker is that a step adds: under W by bytes, then by replicas."""
        share, by_size = self._whole, self._limits.by_size
        on = share.others.taken["per_broker"]
        taken = (
            (by_size * share.used("bytes_per_broker", b), share.used("per_broker", b) + on[b])
            for b in step.adds
        )
        return max(taken, default=(0, 0))

    def take(self, move: Move, demand: Demand, *, begins: bool) -> None:
        """Count a step that the decision takes; it `begins` if its partition takes a new place."""
        self._cuts += demand.raises_epoch
        for share in (self._whole, self._urgent) if move.among_urgent else (self._whole,):
            share.take(move, demand, begins=begins)


class _Share:
    """The use of the limits by all partitions, or by urgent ones, and by others beside them."""

    def __init__(self, used: Usage, others: Usage) -> None:
        self._used = used
        self._taken = Usage()
        self.others = others
        self._full: dict[At, set[Place]] = {}
        """The places found to be full: a decision makes no room again."""

    def is_known_full(self, demand: Demand) -> bool:
        if demand.urgent:
            return False
        for kind, full in self._full.items():  # noqa: SIM110 - asked most: a loop is quicker
            if not full.isdisjoint(demand.places[kind]):
                return True
        return False

    def note_full(self, full: Full) -> None:
        """Remember a full place, if it has no room for any step that adds."""
        if full.at is not None and full.used >= full.most:
            for kind in FIELDS[full.limit].at:
                self._full.setdefault(kind, set()).add(full.at)

    def take(self, move: Move, demand: Demand, *, begins: bool) -> None:
        self._taken.count(demand)
        self._taken.count_place(move)
        self._taken.places += begins

    @property
    def places(self) -> int:
        """Partitions that hold a place, or steps in places where these are more."""
        return max(self._used.places + self._taken.places, self.steps_in_places)

    @property
    def steps_in_places(self) -> int:
        return self._used.steps_in_places + self._taken.steps_in_places

    @property
    def alone(self) -> int:
        return self._used.alone + self._taken.alone

    @property
    def coordinators_moving(self) -> int:
        return self._used.coordinators_moving + self._taken.coordinators_moving

    def used(self, field: str, place: Place) -> int:
        return self._used.taken[field][place] + self._taken.taken[field][place]
