"""The roster: the state of every partition of a run, queued, begun, in flight or blocked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import Decision, Move, WantedPartition
from ktui.pacing.limits import Limits, Order
from ktui.pacing.queue import Demand, Demands, Queue, Rank, demands_by
from ktui.pacing.situation import Blocked, Done, Next, Situation, Step
from ktui.pacing.steps import choices, next_step, next_steps


class _Entry(msgspec.Struct):
    wanted: WantedPartition
    number: int
    """The partition's place in the plan."""
    situation: Situation
    begun: bool
    first: bool
    placed: bool = False
    """Whether the partition holds a place under P."""
    held: bool = False
    sender: int | None = None
    """The leader that the step in flight copies from; None if it adds nothing."""


class Roster:
    """The partitions of a run, each in one of these: queued, between, ready, in flight, blocked.

    The caller reports observed situations (`seen`), submitted decisions (`submitted`), and steps
    that ended or were given up (`over`). `choosing.decide_steps` reads the roster and changes
    nothing. Done partitions leave the roster.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.queue = Queue()
        """Partitions not begun, with a first step."""
        self.between: dict[TopicPartition, tuple[Step, ...]] = {}
        """Begun partitions, with the steps of which each may take any one next."""
        self.ready: dict[TopicPartition, Step] = {}
        """Begun partitions that are ready to be cut together with others."""
        self.in_flight: dict[TopicPartition, Move] = {}
        self.stalled: set[TopicPartition] = set()
        """Partitions in flight that are stalled or cancelled: no cut waits for them."""
        self.blocked: dict[TopicPartition, Blocked] = {}
        """Partitions, begun or not, with no step to take."""
        self.batch = 0
        """The number of the last decision that submitted moves, or of the last wave."""
        self.places_taken = 0
        self.steps_in_places = 0
        """Steps in flight that hold a place."""
        self.leaders_moving = 0
        self.steps_adding = 0
        self.alone_in_flight = 0
        """Steps in flight that no other step may join."""
        self.replicas_adding = 0
        self.adding: Counter[int] = Counter()
        """Replicas that our steps are adding, by broker."""
        self.sending: Counter[int] = Counter()
        """Replicas that our steps are adding, by the leader that they are copied from."""
        self.bytes_adding = 0
        """Bytes of the replicas that our steps are adding."""
        self.bytes_at: Counter[int] = Counter()
        """The same by broker: copied to it, and copied from it where it leads."""
        self.cuts_lately = 0
        """Steps of ours within the last minute that raised a leader epoch; the caller counts."""
        self._entries: dict[TopicPartition, _Entry] = {}
        self._numbered = 0

    def __len__(self) -> int:
        """Count the partitions that are not done."""
        return len(self._entries)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether a partition is on the roster and not done."""
        return tp in self._entries

    def add(self, wanted: Iterable[WantedPartition]) -> dict[TopicPartition, Next]:
        """Add partitions in the plan's order; none may be on the roster already.

        Returns:
            The next step of each, or why there is none; done partitions are not kept.
        """
        entries = []
        for one in wanted:
            entries.append(_Entry(one, self._numbered, one.situation, one.begun, one.first))
            self._entries[one.tp] = entries[-1]
            self._numbered += 1
        return self._file_all(entries)

    def seen(self, tp: TopicPartition, situation: Situation) -> Next:
        """Record a partition's present situation, and return what comes next.

        A partition in flight keeps its step: only `over` ends a step.
        """
        entry = self._entries[tp]
        entry.situation = situation
        if tp in self.in_flight:
            step = self.in_flight[tp].step
            self._copy_from(situation.leader, entry, step)
            return step
        return self._file(entry)

    def over(self, tp: TopicPartition, situation: Situation) -> Next:
        """End the step in flight, and return what comes next."""
        self._land(tp)
        return self.seen(tp, situation)

    def not_begun(self, tp: TopicPartition) -> None:
        """Record that nothing was sent for a partition after all: the partition waits again."""
        entry = self._entries[tp]
        entry.begun = False
        self._place(entry, placed=False)

    def redirect(self, tp: TopicPartition, situation: Situation) -> Next:
        """Change the target of a partition from now on, ahead of all others.

        A step in flight stays: only `over` ends a step.
        """
        self._entries[tp].first = True
        return self.seen(tp, situation)

    def withdraw(self, tp: TopicPartition) -> None:
        """Remove a partition that was stopped, refused, changed elsewhere or deleted."""
        if tp in self.in_flight:
            self._land(tp)
        self._leave(self._entries.pop(tp))

    @property
    def still_adding(self) -> bool:
        """Whether a step that is not stalled is adding replicas."""
        stalled = sum(bool(self.in_flight[tp].step.adds) for tp in self.stalled)
        return self.steps_adding > stalled

    def stall(self, tp: TopicPartition, *, stalled: bool) -> None:
        """Mark a step in flight as stalled, so that no cut waits for it, or unmark it."""
        if stalled and tp in self.in_flight:
            self.stalled.add(tp)
        else:
            self.stalled.discard(tp)

    def hold(self, tp: TopicPartition) -> None:
        """Submit nothing for a partition until its release; it gives up its place."""
        entry = self._entries[tp]
        entry.held = True
        if tp not in self.in_flight:
            self._leave(entry)

    def release(self, tp: TopicPartition) -> None:
        """Release a held partition."""
        self._entries[tp].held = False
        self.seen(tp, self._entries[tp].situation)

    def set_limits(self, limits: Limits) -> None:
        """Change the limits, from the next decision on.

        If steps or the order change, this costs as much as partitions wait; otherwise nothing.
        """
        before, self.limits = self.limits, limits
        if _filing(before) != _filing(limits):
            in_flight = self.in_flight
            self.queue = Queue()
            self._file_all([e for tp, e in self._entries.items() if tp not in in_flight])

    def submitted(self, decision: Decision) -> None:
        """Record a submitted decision; refused moves are withdrawn afterwards."""
        self.batch = decision.batch
        moves = list(decision.moves)
        self.queue.take([move.tp for move in moves])
        for move in moves:
            self._fly(move)

    def rank(self, tp: TopicPartition) -> Rank:
        """Return a partition's sort key in the order in force."""
        entry = self._entries[tp]
        order, later = self.limits.order, not entry.first
        if order is Order.PLAN:
            return (later, entry.number, "", 0)
        size = entry.wanted.size
        rank = {Order.SIZE_DESC: -size, Order.SIZE_ASC: size}.get(order, 0)
        return (later, rank, tp.topic, tp.partition)

    def situation(self, tp: TopicPartition) -> Situation:
        """Return a partition's last known situation."""
        return self._entries[tp].situation

    def goes_first(self, tp: TopicPartition) -> bool:
        """Whether a partition goes before the others, whatever the order."""
        return self._entries[tp].first

    def holds_place(self, tp: TopicPartition) -> bool:
        """Whether a partition counts under P."""
        return self._entries[tp].placed

    def weight(self, tp: TopicPartition) -> int:
        """Return the bytes that each replica of a partition counts under V and W."""
        return self._entries[tp].wanted.weight

    def choices(self, tp: TopicPartition) -> tuple[Step, ...]:
        """Return the steps of which a partition may take any one next; empty if it has none."""
        if tp in self.ready:
            return (self.ready[tp],)
        return self.between.get(tp) or next_steps(self._entries[tp].situation, self.limits)

    def _file_all(self, entries: list[_Entry]) -> dict[TopicPartition, Next]:
        entries.sort(key=lambda entry: self.rank(entry.wanted.tp))
        return {entry.wanted.tp: self._file(entry) for entry in entries}

    def _file(self, entry: _Entry) -> Next:
        """File a partition by its next step."""
        tp, step = entry.wanted.tp, next_step(entry.situation, self.limits)
        if isinstance(step, Done):
            self._leave(self._entries.pop(tp))
        elif entry.held:
            self._leave(entry)
        elif isinstance(step, Blocked):
            self._leave(entry)
            self.blocked[tp] = step
        elif not entry.begun:
            self.blocked.pop(tp, None)
            self.queue.put(tp, self.rank(tp), self._demands(entry, step))
        else:
            self._file_begun(entry, step)
        return step

    def _demands(self, entry: _Entry, step: Step) -> Demands:
        leader, steps = entry.situation.leader, choices(entry.situation, step, self.limits)
        return tuple(dict.fromkeys(Demand.of(each, leader, self.limits) for each in steps))

    def _file_begun(self, entry: _Entry, step: Step) -> None:
        tp, placed = entry.wanted.tp, entry.placed
        self._leave(entry)
        if step.cut:
            self.ready[tp] = step
        else:
            self._place(entry, placed=placed or self._has_places)
            self.between[tp] = choices(entry.situation, step, self.limits)

    @property
    def _has_places(self) -> bool:
        """Whether a place is free, for a partition that was blocked or begun by another process."""
        most = self.limits.partitions
        return most is None or self.places_taken < most

    def _leave(self, entry: _Entry) -> None:
        """Remove a partition from its queue or set, and free its place."""
        tp = entry.wanted.tp
        self.queue.take((tp,))
        self.between.pop(tp, None)
        self.ready.pop(tp, None)
        self.blocked.pop(tp, None)
        self._place(entry, placed=False)

    def _place(self, entry: _Entry, *, placed: bool) -> None:
        self.places_taken += placed - entry.placed
        entry.placed = placed

    def _fly(self, move: Move) -> None:
        entry = self._entries[move.tp]
        self._leave(entry)
        entry.begun = True
        self._place(entry, placed=move.holds_place)
        self.in_flight[move.tp] = move
        self._count(move, 1)
        self._copy_from(entry.situation.leader, entry, move.step)

    def _land(self, tp: TopicPartition) -> None:
        self.stalled.discard(tp)
        move = self.in_flight.pop(tp)
        self._count(move, -1)
        self._copy_from(None, self._entries[tp], move.step)

    def _copy_from(self, leader: int | None, entry: _Entry, step: Step) -> None:
        """Count the replicas that a step in flight adds at the leader that they are copied from."""
        if entry.sender is not None:
            self._count_at(entry.sender, entry, -len(step.adds))
        entry.sender = leader if step.adds else None
        if entry.sender is not None:
            self._count_at(entry.sender, entry, len(step.adds))

    def _count_at(self, sender: int, entry: _Entry, adds: int) -> None:
        self.sending[sender] += adds
        self.bytes_at[sender] += adds * entry.wanted.weight

    def _count(self, move: Move, sign: int) -> None:
        weight = self.weight(move.tp)
        self.steps_in_places += sign * move.holds_place
        self.leaders_moving += sign * move.step.moves_leader
        self.steps_adding += sign * bool(move.step.adds)
        self.alone_in_flight += sign * move.alone
        self.replicas_adding += sign * len(move.step.adds)
        self.bytes_adding += sign * len(move.step.adds) * weight
        for broker in move.step.adds:
            self.adding[broker] += sign
            self.bytes_at[broker] += sign * weight


def _filing(limits: Limits) -> tuple[object, ...]:
    """The limits that decide where partitions are filed."""
    counted = (*demands_by(limits), limits.cuts_per_minute is not None)
    return (limits.replicas, limits.extra_replicas, limits.shape, limits.order, *counted)
