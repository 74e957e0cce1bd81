"""The choice of partitions that step now, in order, rolling or in waves; and why others wait."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import USUAL_CUT_TOGETHER, Full, InternalOrder, Mode
from ktui.pacing.queue import Precedence, Usage
from ktui.pacing.room import NOTHING_FOREIGN, Room, WaitsToGoAlone
from ktui.pacing.roster import Roster
from ktui.pacing.situation import (
    Decision,
    Demand,
    Move,
    Situation,
    Step,
    demand_of,
    moves_coordinator,
)

LARGE_CUT_TOGETHER = 10  # without C and P, so many that are ready are enough if they are large
LARGE_BYTES = 10 * 1024**3
"""From so many bytes on, partitions that are ready are large; each new replica holds as many."""


def decide_steps(roster: Roster, others: Usage = NOTHING_FOREIGN) -> Decision:
    """Decide what to submit now; a decision without moves means to wait.

    Begun partitions go on before others begin; called-off and urgent ones do both before the rest.
    Internal ones that go last begin once no other waits to begin. A decision costs as much as the
    moves it takes and, while a place is free, the number of kinds of waiting first steps: never the
    number of waiting partitions. `others` is what other people's reassignments take.
    """
    return _Deciding(roster, others).decision()


def cut_batch_size(roster: Roster) -> int:
    """Return how many partitions are to be ready before they are cut while others still add.

    Until the cut, brokers hold the old replicas and the new, so large partitions wait for fewer. L
    counts leaders that a cut moves, and K each cut: both also cap how many wait together.
    """
    limits = roster.limits
    batch_size = limits.cut_together or limits.partitions or _usual_batch_size(roster)
    caps = (limits.leader_movements, limits.cuts_per_minute)
    return min([batch_size, *(cap for cap in caps if cap is not None)])


def _usual_batch_size(roster: Roster) -> int:
    large = sum(map(roster.weight, roster.ready)) >= LARGE_BYTES
    return LARGE_CUT_TOGETHER if large else USUAL_CUT_TOGETHER


def partitions_to_cut(roster: Roster) -> list[TopicPartition]:
    """Return the ready partitions to cut now: those that wait for no other, and the rest by C."""
    due = {tp for tp in roster.ready if _waits_for_no_other(roster, tp)}
    batch_size = cut_batch_size(roster)
    count = (len(roster.ready) - len(due)) // batch_size * batch_size
    others = [tp for tp in roster.ready if tp not in due]
    if count < len(others):
        others = heapq.nsmallest(count, others, key=roster.rank)
    return sorted([*due, *others], key=roster.rank)


def _waits_for_no_other(roster: Roster, tp: TopicPartition) -> bool:
    own_limit = roster.limits.internal is not InternalOrder.NONE
    return roster.goes_first(tp) or (own_limit and moves_coordinator(tp, roster.ready[tp]))


def wave_in_progress(roster: Roster) -> bool:
    """Whether partitions have begun and not ended, so that no new wave begins (KIP-1335)."""
    return bool(roster.in_flight or roster.between or roster.ready)


class _Deciding:
    def __init__(self, roster: Roster, others: Usage) -> None:
        self._roster = roster
        self._limits = roster.limits
        self._room = Room(roster, others)
        self._quiet = not roster.in_flight and not others.adding
        self._wave_in_progress = self._limits.mode is Mode.WAVE and wave_in_progress(roster)
        self._moves: list[Move] = []
        self._taken: set[TopicPartition] = set()
        self._began = False

    def decision(self) -> Decision:
        if self._roster.urgent_waiting:
            self._go_on(Precedence.URGENT)
            self._begin(Precedence.URGENT)
            self._run_urgent_alone()
        if not self._room.is_closed(among_urgent=False):
            self._go_on(Precedence.INTERNAL_LAST)
            self._cut(partitions_to_cut(self._roster))
            self._begin(Precedence.USUAL)
            if self._limits.internal is InternalOrder.LAST and not self._others_wait():
                self._begin(Precedence.INTERNAL_LAST)
            if not self._adding():
                self._cut(self._still_ready())
            if self._quiet and not self._moves:
                self._run_alone(among_urgent=False)
        return Decision(
            batch=self._batch(),
            steps=tuple(move for move in self._moves if not move.step.cut),
            cuts=self._requests([move for move in self._moves if move.step.cut]),
        )

    def _go_on(self, until: Precedence) -> None:
        for tp in sorted(self._roster.between.keys() - self._taken, key=self._roster.rank):
            if self._roster.precedence(tp) > until:
                return
            step = self._fitting(tp, self._roster.between[tp]) if self._may_go_on(tp) else None
            if step is not None:
                self._take(tp, step)

    def _may_go_on(self, tp: TopicPartition) -> bool:
        return self._room.may_go_on(
            holds_place=self._roster.holds_place(tp), among_urgent=self._roster.is_urgent(tp)
        )

    def _still_ready(self) -> list[TopicPartition]:
        left = [tp for tp in self._roster.ready if tp not in self._taken]
        return sorted(left, key=self._roster.rank)

    def _cut(self, ready: Iterable[TopicPartition]) -> None:
        for tp in ready:
            step = self._fitting(tp, self._roster.choices(tp))
            if step is not None:
                self._take(tp, step, holds_place=False)

    def _begin(self, until: Precedence) -> None:
        """Fill the free places from the queue, in its order.

        With L, partitions that move leadership come first ("if possible add reassignments that
        involve no leader movement", KIP-435). In wave mode, partitions begin only when the whole
        last wave has ended (KIP-1335); urgent ones join the wave in progress.
        """
        if self._limits.leader_movements is None:
            self._begin_among(self._fits_to_begin, until)
        else:
            self._begin_among(lambda d: d.moves_leader and self._fits_to_begin(d), until)
            self._begin_among(lambda d: not d.moves_leader and self._fits_to_begin(d), until)

    def _may_begin(self, *, among_urgent: bool) -> bool:
        waits = self._wave_in_progress and not among_urgent
        return not waits and self._room.may_begin(among_urgent=among_urgent)

    def _fits_to_begin(self, demand: Demand) -> bool:
        return self._room.fits(demand) and self._may_begin(among_urgent=demand.among_urgent)

    def _none_may_begin(self, until: Precedence) -> bool:
        urgent = until is Precedence.URGENT and self._may_begin(among_urgent=True)
        return not urgent and not self._may_begin(among_urgent=False)

    def _begin_among(self, fits: Callable[[Demand], bool], until: Precedence) -> None:
        if self._none_may_begin(until):
            return
        for tp in self._roster.queue.walk(fits):
            if self._roster.precedence(tp) > until:
                return
            if tp in self._taken:
                continue
            steps = self._roster.choices(tp)
            step = steps[0] if len(steps) == 1 else self._fitting(tp, steps)
            if step is None:  # a walk yields only those of which a step fits
                continue
            self._take(tp, step)
            self._began = True
            if self._none_may_begin(until):
                return

    def _others_wait(self) -> bool:
        waiting = self._roster.queue.first(len(self._taken) + 1)
        left = next((tp for tp in waiting if tp not in self._taken), None)
        return left is not None and self._roster.precedence(left) < Precedence.INTERNAL_LAST

    def _run_urgent_alone(self) -> None:
        """Start an urgent partition whose own adds exceed M or S, since no other is in flight."""
        in_flight = any(move.among_urgent for move in self._roster.in_flight.values())
        if not in_flight and not any(move.among_urgent for move in self._moves):
            self._run_alone(among_urgent=True)

    def _run_alone(self, *, among_urgent: bool) -> None:
        if never := [tp for tp in self._roster.between if self._may_go_alone(tp, among_urgent)]:
            tp = min(never, key=self._roster.rank)
            self._take(tp, self._roster.choices(tp)[0], alone=True)
        elif self._may_begin(among_urgent=among_urgent):
            for tp in self._roster.queue.walk(
                lambda d: d.among_urgent == among_urgent and self._room.may_go_alone(d)
            ):
                last = self._roster.precedence(tp) is Precedence.INTERNAL_LAST
                if last and self._others_wait():
                    return
                self._take(tp, self._roster.choices(tp)[0], alone=True)
                self._began = True
                return

    def _may_go_alone(self, tp: TopicPartition, among_urgent: bool) -> bool:  # noqa: FBT001
        if self._roster.is_urgent(tp) != among_urgent:
            return False
        demand = self._roster.demand(tp, self._roster.choices(tp)[0])
        return self._may_go_on(tp) and self._room.may_go_alone(demand)

    def _fitting(self, tp: TopicPartition, steps: Sequence[Step]) -> Step | None:
        """Return the step of a partition that fits; of several, the one with the most room."""
        fitting = [step for step in steps if self._room.fits(self._roster.demand(tp, step))]
        if len(fitting) > 1:
            return min(fitting, key=self._room.taken_where_added)
        return fitting[0] if fitting else None

    def _take(
        self, tp: TopicPartition, step: Step, *, holds_place: bool = True, alone: bool = False
    ) -> None:
        roster = self._roster
        urgent = roster.is_urgent(tp)
        move = Move(tp, step, alone=alone, holds_place=holds_place, among_urgent=urgent)
        self._moves.append(move)
        self._taken.add(tp)
        begins = holds_place and not roster.holds_place(tp)
        self._room.take(move, roster.cost(tp, step), begins=begins)

    def _adding(self) -> bool:
        """Whether a step of ours is or will be adding; stalled steps may stay so forever."""
        return self._roster.still_adding or any(move.step.adds for move in self._moves)

    def _requests(self, cuts: list[Move]) -> tuple[tuple[Move, ...], ...]:
        most = self._limits.cut_together or self._limits.partitions or USUAL_CUT_TOGETHER
        return tuple(tuple(cuts[n : n + most]) for n in range(0, len(cuts), most))

    def _batch(self) -> int:
        """The number of this decision if it submits moves; in wave mode, of the wave."""
        last = self._roster.batch
        begins_wave = self._began and not self._wave_in_progress
        counts = begins_wave or self._limits.mode is Mode.ROLLING or last == 0
        return last + 1 if self._moves and counts else last


class WaitsForNextWave(msgspec.Struct, frozen=True):
    """The partition begins with the next wave, once all of this one have ended (KIP-1335)."""

    wave: int
    left: int


class WaitsForLoneStep(msgspec.Struct, frozen=True):
    """Another step, which can never fit the limits, is in flight alone until it is over."""

    tp: TopicPartition


class WaitsForCut(msgspec.Struct, frozen=True):
    """The partition is cut with others in one request, or once no step adds any more."""

    ready: int  # partitions that are ready now and not yet cut, including this one
    together: int  # how many must be ready, unless no step adds any more


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

    `roster` has at least the partitions that have begun: one that is absent has not. `tp` is not in
    flight, blocked or held, and may take any one of `steps` next. `yields`: others that wait to
    begin do so before it.
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
    if alone := room.exceeded(demand):
        if _nothing_in_the_way(roster, demand, others):
            return room.lacks_cuts(demand)
        return alone
    return room.lacks(demand)


def _nothing_in_the_way(roster: Roster, demand: Demand, others: Usage) -> bool:
    """Whether a step that can never fit goes now: no other is in flight that it counts."""
    if demand.among_urgent:
        return not any(move.among_urgent for move in roster.in_flight.values())
    return not roster.in_flight and not others.adding
