"""The reason why a partition with a next step waits, by the rules that decide who steps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import cut_batch_size, partitions_to_cut, wave_in_progress
from ktui.pacing.decision import Demand, Place, demand_of
from ktui.pacing.limits import Full, Mode
from ktui.pacing.room import Room
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Situation, Step
from ktui.pacing.usage import Usage


class WaitsForNextWave(msgspec.Struct, frozen=True):
    """The partition begins with the next wave, once all of this one have ended (KIP-1335)."""

    wave: int
    left: int
    """Partitions of the wave that have not ended."""


class WaitsForLoneStep(msgspec.Struct, frozen=True):
    """Another step, which can never fit the limits, is in flight alone until it is over."""

    tp: TopicPartition


class WaitsToGoAlone(msgspec.Struct, frozen=True):
    """The step adds more than M or S allows, and goes alone once nothing else is in flight."""

    adds: int
    most: int
    limit: str = "replica_movements"
    """The limit's field in `Limits`."""
    broker: Place = None
    """The broker whose own limit it is; None for the run's."""


class WaitsForCut(msgspec.Struct, frozen=True):
    """The partition is cut with others in one request, or once no step adds any more."""

    ready: int
    """Partitions that are ready now and not yet cut, including this one."""
    together: int
    """How many must be ready, unless no step adds any more."""


class WaitsForOthers(msgspec.Struct, frozen=True):
    """The partition is an internal one, and begins once no other partition waits to begin."""


WaitsFor = (
    Full | WaitsForNextWave | WaitsForLoneStep | WaitsToGoAlone | WaitsForCut | WaitsForOthers
)


def waiting_for(
    roster: Roster,
    tp: TopicPartition,
    situation: Situation,
    steps: Sequence[Step],
    others: Usage,
    *,
    urgent: bool = False,
    yields: bool = False,
) -> WaitsFor | None:
    """Return the reason why a partition waits; None if it goes with the next decision.

    Args:
        roster: at least the partitions that have begun.
        tp: a partition that is not in flight, not blocked and not held. If absent from the roster,
            it has not begun.
        situation: its present state.
        steps: the steps of which it may take any one next; at least one.
        others: what other people's reassignments take of the limits.
        urgent: whether it goes as an urgent one.
        yields: whether others that wait to begin do so before it.
    """
    room = Room(roster, others)
    if room.is_closed(among_urgent=urgent):
        return WaitsForLoneStep(_lone_step(roster, among_urgent=urgent))
    demands = [
        roster.limits.relevant(
            demand_of(tp, step, situation.leader, roster.racks, among_urgent=urgent)
        )
        for step in steps
    ]
    if tp in roster.ready:
        return _others_of_cut(roster, tp) or room.lacks(demands[0])
    begun = tp in roster.between
    if yields and not begun:
        return WaitsForOthers()
    waves = roster.limits.mode is Mode.WAVE and not urgent
    if not begun and waves and wave_in_progress(roster):
        left = len(roster.in_flight) + len(roster.between) + len(roster.ready)
        return WaitsForNextWave(roster.batch, left)
    holds_place = begun and roster.holds_place(tp)
    if no_place := room.lacks_place(holds_place=holds_place, among_urgent=urgent):
        return no_place
    lacking = [_room(roster, room, demand, others) for demand in demands]
    return None if None in lacking else lacking[0]


def _others_of_cut(roster: Roster, tp: TopicPartition) -> WaitsForCut | None:
    due = partitions_to_cut(roster)
    if not roster.still_adding or tp in due:
        return None
    return WaitsForCut(len(roster.ready) - len(due), cut_batch_size(roster))


def _lone_step(roster: Roster, *, among_urgent: bool) -> TopicPartition:
    moves = (move for move in roster.in_flight.values() if move.alone)
    return next(move.tp for move in moves if move.among_urgent or not among_urgent)


def _room(roster: Roster, room: Room, demand: Demand, others: Usage) -> WaitsFor | None:
    if exceeded := room.exceeded(demand):
        if _nothing_in_the_way(roster, demand, others):
            return room.lacks_cuts(demand)
        return WaitsToGoAlone(demand.adds, exceeded.most, exceeded.limit, exceeded.broker)
    return room.lacks(demand)


def _nothing_in_the_way(roster: Roster, demand: Demand, others: Usage) -> bool:
    """Whether a step that can never fit goes now: no other is in flight that it counts."""
    if demand.among_urgent:
        return not any(move.among_urgent for move in roster.in_flight.values())
    return not roster.in_flight and not others.adding
