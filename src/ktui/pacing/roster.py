"""The roster: the state of every partition of a run, queued, begun, in flight or blocked."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits, Order
from ktui.pacing.queue import Demands, Precedence, Queue, Rank, Usage, first_by, usual_precedence
from ktui.pacing.situation import (
    NO_RACKS,
    At,
    Blocked,
    Decision,
    Demand,
    Done,
    Move,
    Next,
    Racks,
    Situation,
    Step,
    WantedPartition,
    demand_of,
)
from ktui.pacing.steps import choices, next_step, next_steps


class _Entry(msgspec.Struct):
    wanted: WantedPartition
    number: int
    situation: Situation
    begun: bool
    first: bool
    weight: int
    urgent: bool = False  # whether the partition is, or the step in flight went so
    place: tuple[Usage, ...] = ()  # what counts its place under P; empty without
    held: bool = False
    counted: Demand | None = None  # what the step in flight takes of the limits
    filed: Next | None = None  # what comes next, unless a step is in flight


class Roster:
    """The partitions of a run, each in one of these: queued, between, ready, in flight, blocked.

    The caller reports observed situations (`seen`), submitted decisions (`submitted`), and steps
    that ended or were given up (`over`). `choosing.decide_steps` reads the roster. Done partitions
    leave it.
    """

    def __init__(
        self, limits: Limits, *, urgent_first: bool = False, racks: Racks = NO_RACKS
    ) -> None:
        self.limits = limits
        self.racks = racks
        self.urgent_first = urgent_first
        self.queue = Queue()
        self.between: dict[TopicPartition, tuple[Step, ...]] = {}
        """Begun partitions, with the steps of which each may take any one next."""
        self.ready: dict[TopicPartition, Step] = {}
        """Begun partitions that are ready to be cut together with others."""
        self.in_flight: dict[TopicPartition, Move] = {}
        self.stalled: set[TopicPartition] = set()
        """Partitions in flight that are stalled or cancelled: no cut waits for them."""
        self.blocked: dict[TopicPartition, Blocked] = {}
        self.batch = 0
        """The number of the last decision that submitted moves, or of the last wave."""
        self.used = Usage()
        self.used_by_urgent = Usage()
        self.urgent_waiting: set[TopicPartition] = set()
        self.cuts_lately = 0
        """Steps of ours within the last minute that raised a leader epoch; the caller counts."""
        self.changes = 0
        """Rises with each change that may change a decision."""
        self._entries: dict[TopicPartition, _Entry] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._entries

    def add(self, wanted: Iterable[WantedPartition]) -> dict[TopicPartition, Next]:
        """Add new partitions in order, and return what comes next; done ones are not kept."""
        entries = []
        for one in wanted:
            entry = _Entry(one, self._numbered, one.situation, one.begun, one.first, one.weight)
            entries.append(entry)
            self._entries[one.tp] = entry
            self._numbered += 1
        return self._file_all(entries)

    def seen(self, tp: TopicPartition, situation: Situation) -> Next:
        """Record a situation, and return what comes next; only `over` ends a step in flight."""
        entry = self._entries[tp]
        if entry.filed is not None and entry.situation == situation:
            return entry.filed
        entry.situation = situation
        if tp in self.in_flight:
            step = self.in_flight[tp].step
            self.led_by(tp, situation.leader)
            return step
        return self._file(entry)

    def led_by(self, tp: TopicPartition, leader: int | None) -> None:
        """Charge a step in flight to its leader; while there is none, to the last known one."""
        entry, counted = self._entries[tp], self._entries[tp].counted
        if counted is None or leader is None or not counted.adds:
            return
        if counted.places[At.LEADER] != (leader,):
            self.changes += 1
            self._count(entry, counted.placed(At.LEADER, (leader,)))

    def over(self, tp: TopicPartition, situation: Situation) -> Next:
        self._land(tp)
        return self.seen(tp, situation)

    def not_begun(self, tp: TopicPartition) -> None:
        """Record that nothing was sent for a partition after all: the partition waits again."""
        entry = self._entries[tp]
        entry.begun = False
        self._place(entry, placed=False)

    def redirect(self, tp: TopicPartition, situation: Situation) -> Next:
        """Change the target of a partition, ahead of all others; a step in flight stays."""
        entry = self._entries[tp]
        entry.first, entry.filed = True, None
        return self.seen(tp, situation)

    def withdraw(self, tp: TopicPartition) -> None:
        if tp in self.in_flight:
            self._land(tp)
        self._leave(self._entries.pop(tp))

    @property
    def still_adding(self) -> bool:
        """Whether a step that is not stalled is adding replicas."""
        stalled = sum(bool(self.in_flight[tp].step.adds) for tp in self.stalled)
        return self.used.steps_adding > stalled

    def stall(self, tp: TopicPartition, *, stalled: bool) -> None:
        """Mark a step in flight as stalled, so that no cut waits for it, or unmark it."""
        if stalled == (tp in self.stalled):
            return
        self.changes += 1
        if not stalled:
            self.stalled.discard(tp)
        elif tp in self.in_flight:
            self.stalled.add(tp)

    def hold(self, tp: TopicPartition) -> None:
        """Submit nothing for a partition until its release; it gives up its place."""
        entry = self._entries[tp]
        entry.held = True
        if tp not in self.in_flight:
            self._leave(entry)

    def release(self, tp: TopicPartition) -> None:
        self._entries[tp].held = False
        self.seen(tp, self._entries[tp].situation)

    def set_limits(self, limits: Limits) -> None:
        """Change the limits, at a cost of all that wait if steps or the order change."""
        before, self.limits = self.limits, limits
        self.changes += 1
        if _filing(before) != _filing(limits):
            self._file_again()

    def set_racks(self, racks: Racks) -> None:
        if racks != self.racks:
            self.racks = racks
            self.changes += 1
            if self.limits.counts_at[At.RACK]:
                self._file_again()

    def _file_again(self) -> None:
        self.queue = Queue()
        self._file_all([e for tp, e in self._entries.items() if tp not in self.in_flight])

    def submitted(self, decision: Decision) -> None:
        """Record a submitted decision; refused moves are withdrawn afterwards."""
        self.batch = decision.batch
        moves = list(decision.moves)
        self.queue.take([move.tp for move in moves])
        for move in moves:
            self._fly(move)

    def rank(self, tp: TopicPartition) -> Rank:
        return self._rank(self._entries[tp])

    def _rank(self, entry: _Entry) -> Rank:
        order, precedence, wanted = self.limits.order, self._precedence(entry), entry.wanted
        if order is Order.PLAN:
            return (precedence, entry.number, "", 0)
        first = first_by(order, size=wanted.size, ahead=wanted.ahead)
        return (precedence, first, wanted.tp.topic, wanted.tp.partition)

    def precedence(self, tp: TopicPartition) -> Precedence:
        return self._precedence(self._entries[tp])

    def _precedence(self, entry: _Entry) -> Precedence:
        if entry.first:
            return Precedence.CALLED_OFF
        if entry.urgent:
            return Precedence.URGENT
        return usual_precedence(entry.wanted.tp.topic, self.limits.internal)

    def situation(self, tp: TopicPartition) -> Situation:
        return self._entries[tp].situation

    def filed_as(self, tp: TopicPartition) -> Situation | None:
        """Return the situation by which a partition is filed; None where `seen` may change it."""
        entry = self._entries[tp]
        return None if entry.filed is None else entry.situation

    def goes_first(self, tp: TopicPartition) -> bool:
        return self._entries[tp].first

    def is_urgent(self, tp: TopicPartition) -> bool:
        """Whether a partition goes as an urgent one; in flight, whether it went so."""
        return self._entries[tp].urgent

    def holds_place(self, tp: TopicPartition) -> bool:
        return bool(self._entries[tp].place)

    def weight(self, tp: TopicPartition) -> int:
        return self._entries[tp].weight

    def demand(self, tp: TopicPartition, step: Step) -> Demand:
        return self._demand(self._entries[tp], step)

    def _demand(self, entry: _Entry, step: Step) -> Demand:
        return self.limits.relevant(self._whole_demand(entry, step, 1))

    def _whole_demand(self, entry: _Entry, step: Step, weight: int) -> Demand:
        tp, leader, urgent = entry.wanted.tp, entry.situation.leader, entry.urgent
        return demand_of(tp, step, leader, self.racks, among_urgent=urgent, weight=weight)

    def cost(self, tp: TopicPartition, step: Step) -> Demand:
        """Return all that a step takes of limits, with the bytes of its partition."""
        return self._cost(self._entries[tp], step)

    def _cost(self, entry: _Entry, step: Step) -> Demand:
        return self._whole_demand(entry, step, entry.weight)

    def choices(self, tp: TopicPartition) -> tuple[Step, ...]:
        if tp in self.ready:
            return (self.ready[tp],)
        if tp in self.between:
            return self.between[tp]
        entry = self._entries[tp]
        if isinstance(entry.filed, Step):
            return choices(entry.situation, entry.filed, self.limits)
        return next_steps(entry.situation, self.limits)

    def _file_all(self, entries: list[_Entry]) -> dict[TopicPartition, Next]:
        for entry in entries:
            self._judge_urgency(entry)
        entries.sort(key=self._rank)
        return {entry.wanted.tp: self._file(entry) for entry in entries}

    def _file(self, entry: _Entry) -> Next:
        tp, step = entry.wanted.tp, next_step(entry.situation, self.limits)
        self.changes += 1
        self._judge_urgency(entry)
        if isinstance(step, Done):
            self._leave(self._entries.pop(tp))
        elif entry.held:
            self._leave(entry)
        elif isinstance(step, Blocked):
            self._leave(entry)
            self.blocked[tp] = entry.filed = step
        elif not entry.begun:
            self.blocked.pop(tp, None)
            self.queue.put(tp, self._rank(entry), self._demands(entry, step))
            self._note_urgent(entry)
            entry.filed = step
        else:
            self._file_begun(entry, step)
        return step

    def _demands(self, entry: _Entry, step: Step) -> Demands:
        steps = choices(entry.situation, step, self.limits)
        return tuple(dict.fromkeys([self._demand(entry, each) for each in steps]))

    def _file_begun(self, entry: _Entry, step: Step) -> None:
        tp, placed = entry.wanted.tp, bool(entry.place)
        self._leave(entry)
        if step.cut:
            self.ready[tp] = entry.filed = step
        else:
            self._place(entry, placed=placed or self._has_places)
            self.between[tp] = choices(entry.situation, step, self.limits)
            self._note_urgent(entry)
            if entry.place:
                entry.filed = step  # without one, it takes the next that is free

    def _judge_urgency(self, entry: _Entry) -> None:
        entry.urgent = self.urgent_first and (
            entry.wanted.urgent or entry.situation.urgency is not None
        )

    def _note_urgent(self, entry: _Entry) -> None:
        if entry.urgent:
            self.urgent_waiting.add(entry.wanted.tp)
        else:
            self.urgent_waiting.discard(entry.wanted.tp)

    @property
    def _has_places(self) -> bool:
        most = self.limits.partitions
        return most is None or self.used.places < most

    def _leave(self, entry: _Entry) -> None:
        tp, entry.filed = entry.wanted.tp, None
        self.changes += 1
        if tp in self.queue:
            self.queue.take((tp,))
        self.between.pop(tp, None)
        self.ready.pop(tp, None)
        self.blocked.pop(tp, None)
        self.urgent_waiting.discard(tp)
        if entry.place:
            self._place(entry, placed=False)

    def _place(self, entry: _Entry, *, placed: bool) -> None:
        self.changes += 1
        for usage in entry.place:
            usage.places -= 1
        entry.place = self._counting(entry) if placed else ()
        for usage in entry.place:
            usage.places += 1

    def _counting(self, entry: _Entry) -> tuple[Usage, ...]:
        return (self.used, self.used_by_urgent) if entry.urgent else (self.used,)

    def _fly(self, move: Move) -> None:
        entry = self._entries[move.tp]
        self._leave(entry)
        entry.begun, entry.urgent = True, move.among_urgent
        self._place(entry, placed=move.holds_place)
        self.in_flight[move.tp] = move
        for usage in self._counting(entry):
            usage.count_place(move)
        self._count(entry, self._cost(entry, move.step))

    def _land(self, tp: TopicPartition) -> None:
        self.stalled.discard(tp)
        self.changes += 1
        entry, move = self._entries[tp], self.in_flight.pop(tp)
        for usage in self._counting(entry):
            usage.count_place(move, -1)
        self._count(entry, None)

    def _count(self, entry: _Entry, demand: Demand | None) -> None:
        for usage in self._counting(entry):
            if entry.counted is not None:
                usage.count(entry.counted, -1)
            if demand is not None:
                usage.count(demand)
        entry.counted = demand


def _filing(limits: Limits) -> tuple[object, ...]:
    counted = (limits.counts_at, limits.cuts_per_minute is not None)
    order = (limits.order, limits.internal)
    return (limits.replicas, limits.extra_replicas, limits.shape, *order, *counted)
