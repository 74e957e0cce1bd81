"""A simulated run, by the decisions of a real one (`pacing.choosing`), if all goes well."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import msgspec

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import InternalOrder, Limits, Order
from ktui.pacing.queue import LastMinute, first_by
from ktui.pacing.roster import Roster
from ktui.pacing.situation import (
    NO_RACKS,
    Decision,
    Done,
    Move,
    Racks,
    Situation,
    WantedPartition,
    raises_epoch,
)
from ktui.pacing.steps import after
from ktui.speed.capacity import Rates
from ktui.speed.copies import NONE_BESIDE, CopiesOfBothEnds, Pair, leader_or_first

POLL_S = 1
"""Seconds between polls, at which ends are seen and decisions made: about as long as an election.
"""
OnDecision = Callable[[int, Decision], None]
"""Called for each decision that submits moves, with the seconds since the start."""
_WAITING = 2_000
"""The least number of queued partitions, or all: a shorter queue saves memory, same result."""


class StepOverhead(msgspec.Struct, frozen=True):
    """Seconds that steps take beside copying."""

    joining_s: int = 0  # of a step that adds, until its end is seen
    other_s: int = POLL_S  # of a step that adds nothing, and of an election


class StepInFlight(msgspec.Struct, frozen=True):
    """A step that is in flight when the simulation begins."""

    wanted: WantedPartition  # the partition as before the step
    move: Move
    left: Mapping[int, float]  # by broker, the bytes that incomplete replicas still lack


class RestOfRun(msgspec.Struct, frozen=True):
    """The rest of a run when the simulation begins."""

    in_flight: Sequence[StepInFlight]
    waiting: Sequence[WantedPartition]  # in the plan's order; `begun` with earlier steps
    racks: Racks = NO_RACKS


class SimulatedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a simulated run."""

    copying_s: float
    waiting_s: float
    batches: int  # decisions that submitted moves; in wave mode, waves
    most_in_flight: int
    peak_extra_replicas: int  # beyond partitions' first and final numbers, of all
    peak_bytes: Counter[int]  # by broker, the most bytes held beyond those at the start
    peak_written: Counter[int]  # by broker, bytes a second to what it was adding at once
    peak_sent: Counter[int]  # by leader, bytes a second that its followers must fetch


def simulate_rest_of_run(
    left: RestOfRun,
    limits: Limits,
    overhead: StepOverhead,
    copying: CopiesOfBothEnds,
    on_decision: OnDecision | None = None,
    inbound: Mapping[TopicPartition, int] | None = None,
) -> SimulatedOutcome:
    """Simulate the rest of a run, of which no replica is being copied yet."""
    return _SimulatedRun(left, limits, overhead, copying, on_decision, inbound).result()


class _SimulatedRun:
    def __init__(
        self,
        left: RestOfRun,
        limits: Limits,
        overhead: StepOverhead,
        copying: CopiesOfBothEnds,
        on_decision: OnDecision | None,
        inbound: Mapping[TopicPartition, int] | None,
    ) -> None:
        self._on_decision = on_decision
        self._roster = Roster(limits, racks=left.racks)
        self._under_way: dict[TopicPartition, WantedPartition] = {}
        """Partitions on the roster, including those in the queue."""
        self._overhead = overhead
        self._now_s = 0
        self._copying_s = 0.0
        self._copying = copying
        self._copies_left: dict[TopicPartition, int] = {}
        self._ends: list[tuple[int, TopicPartition]] = []
        self._held = HeldResources()
        self._fetched = FetchTraffic(inbound or {})
        self._most_in_flight = 0
        self._cuts = LastMinute()
        if left.in_flight:
            self._resume(left.in_flight)
        self._to_come = _in_order(left.waiting, limits)
        self._waiting = len(left.waiting)
        if limits.partitions is not None:
            self._waiting = max(_WAITING, 2 * limits.partitions)

    def _resume(self, in_flight: Sequence[StepInFlight]) -> None:
        self._under_way.update({one.wanted.tp: one.wanted for one in in_flight})
        self._roster.add(one.wanted for one in in_flight)
        in_flight = [one for one in in_flight if one.wanted.tp in self._roster]
        self._roster.submitted(Decision(1, steps=tuple(one.move for one in in_flight)))
        for one in in_flight:
            if one.left:
                self._copy(one.move, one.left)
            else:
                heapq.heappush(self._ends, (POLL_S, one.wanted.tp))

    def result(self) -> SimulatedOutcome:
        while self._submits() or self._roster.in_flight or self._cuts_end_s is not None:
            self._wait()
        return SimulatedOutcome(
            copying_s=self._copying_s,
            waiting_s=self._now_s - self._copying_s,
            batches=self._roster.batch,
            most_in_flight=self._most_in_flight,
            peak_extra_replicas=self._held.peak_extra,
            peak_bytes=self._held.peak_bytes,
            peak_written=self._fetched.peak_written,
            peak_sent=self._fetched.peak_sent,
        )

    def _submits(self) -> bool:
        self._fill_queue()
        self._roster.cuts_lately = self._cuts.count(self._now_s)
        decision = decide_steps(self._roster)
        moves = list(decision.moves)
        if moves:
            self._cuts.add(self._now_s, sum(raises_epoch(move.step) for move in moves))
            if self._on_decision is not None:
                self._on_decision(self._now_s, decision)
            self._roster.submitted(decision)
            self._most_in_flight = max(self._most_in_flight, len(self._roster.in_flight))
        for move in moves:
            self._begin(move)
        return bool(moves)

    def _fill_queue(self) -> None:
        while len(self._roster.queue) <= self._waiting // 2:
            more = {one.tp: one for one in itertools.islice(self._to_come, self._waiting)}
            if not more:
                return
            self._under_way.update(more)
            self._roster.add(more.values())

    def _begin(self, move: Move) -> None:
        tp, adds = move.tp, move.step.adds
        one = self._under_way[tp]
        self._held.begins(one, adds)
        if not adds:
            self._end_after(move, self._overhead.other_s)
            return
        self._copy(move, dict.fromkeys(adds, one.size))

    def _copy(self, move: Move, sizes: Mapping[int, float]) -> None:
        tp, situation = move.tp, self._roster.situation(move.tp)
        leader = leader_or_first(situation.leader, situation.replicas)
        self._copies_left[tp] = len(sizes)
        self._fetched.begins(tp, situation, move.step.adds)
        for broker, size in sizes.items():
            self._copying.add(tp, (leader, broker), size, self._now_s)

    def _end_after(self, move: Move, seconds: int) -> None:
        if move.step.elects is not None:
            seconds += self._overhead.other_s
        heapq.heappush(self._ends, (self._now_s + seconds, move.tp))

    def _wait(self) -> None:
        """Advance time to the next poll at which a step has ended, or K leaves more room."""
        ends, cuts_end_s = self._ends, self._cuts_end_s
        while True:
            self._copy_until(self._next_poll())
            if (ends and ends[0][0] <= self._now_s) or (cuts_end_s or math.inf) <= self._now_s:
                break
        while ends and ends[0][0] <= self._now_s:
            self._over(heapq.heappop(ends)[1])

    @property
    def _cuts_end_s(self) -> float | None:
        """When fewer cuts count under K; None where nothing waits for that."""
        waits = len(self._roster) and self._roster.limits.cuts_per_minute is not None
        return self._cuts.next_end_s(self._now_s) if waits else None

    def _next_poll(self) -> int:
        """The first poll at which a copy or step may have ended, or a cut counts no more."""
        end = self._copying.next_end_s
        if self._ends:
            end = min(end, self._ends[0][0])
        if (cuts_end_s := self._cuts_end_s) is not None:
            end = min(end, cuts_end_s)
        return max(math.ceil(end / POLL_S) * POLL_S, self._now_s + POLL_S)

    def _copy_until(self, poll_s: int) -> None:
        busy_until_s = began_s = float(self._now_s)
        self._now_s = poll_s
        for end_s, tp, broker in self._copying.ended(poll_s):
            busy_until_s = max(busy_until_s, end_s)
            self._fetched.copied(tp, broker)
            self._copied(tp)
        if self._copying.next_end_s < math.inf:
            busy_until_s = poll_s
        self._copying_s += busy_until_s - began_s

    def _copied(self, tp: TopicPartition) -> None:
        left = self._copies_left[tp] - 1
        if left:
            self._copies_left[tp] = left
        else:
            del self._copies_left[tp]
            self._end_after(self._roster.in_flight[tp], self._overhead.joining_s)

    def _over(self, tp: TopicPartition) -> None:
        one, step = self._under_way[tp], self._roster.in_flight[tp].step
        now = after(self._roster.situation(tp), step)
        self._held.ends(one, step.drops, now)
        self._fetched.over(tp)
        if isinstance(self._roster.over(tp, now), Done):
            del self._under_way[tp]


def _in_order(wanted: Sequence[WantedPartition], limits: Limits) -> Iterator[WantedPartition]:
    ordered = _by_order(wanted, limits.order)
    if limits.internal is InternalOrder.NONE:
        return iter(ordered)
    internal = [one for one in ordered if one.tp.topic in INTERNAL_TOPICS]
    others = (one for one in ordered if one.tp.topic not in INTERNAL_TOPICS)
    first = limits.internal is InternalOrder.FIRST
    return itertools.chain(internal, others) if first else itertools.chain(others, internal)


def _by_order(wanted: Sequence[WantedPartition], order: Order) -> Sequence[WantedPartition]:
    if order is Order.PLAN:
        return wanted
    return sorted(wanted, key=lambda one: (first_by(order, size=one.size, ahead=one.ahead), one.tp))


class HeldResources:
    """Extra replicas, and bytes by broker, held beyond those at the start."""

    def __init__(self) -> None:
        self.peak_extra = 0
        self.peak_bytes: Counter[int] = Counter()
        self._bytes: defaultdict[int, int] = defaultdict(int)
        self._extra: dict[TopicPartition, int] = {}
        """The extra replicas of partitions; below 0, how many may be added before one is extra."""
        self._all_extra = 0

    def begins(self, one: WantedPartition, adds: Brokers) -> None:
        """Count the replicas that a step adds, at full size from its beginning."""
        if not adds:
            return
        before = self._extra.get(one.tp)
        if before is None:
            before = _extra_replicas(one, one.situation)
        self._count(one.tp, before, before + len(adds))
        for broker in adds:
            held = self._bytes[broker] = self._bytes[broker] + one.size
            self.peak_bytes[broker] = max(self.peak_bytes[broker], held)

    def ends(self, one: WantedPartition, drops: Brokers, now: Situation) -> None:
        if not drops:
            return
        for broker in drops:
            self._bytes[broker] -= one.size
        if one.tp in self._extra:
            self._count(one.tp, self._extra[one.tp], _extra_replicas(one, now))
        if now.replicas == now.target:
            self._extra.pop(one.tp, None)

    def _count(self, tp: TopicPartition, before: int, held: int) -> None:
        self._extra[tp] = held
        self._all_extra += max(0, held) - max(0, before)
        self.peak_extra = max(self.peak_extra, self._all_extra)


class FetchTraffic:
    """Bytes a second written to, and fetched of, the partitions being copied."""

    def __init__(self, inbound: Mapping[TopicPartition, int]) -> None:
        self.peak_written: Counter[int] = Counter()
        self.peak_sent: Counter[int] = Counter()
        self._inbound = inbound
        self._written: Counter[int] = Counter()
        self._sent: Counter[int] = Counter()
        self._sent_by: dict[TopicPartition, tuple[int, int]] = {}
        """The leader during the copy, and the bytes a second that its followers need."""

    def begins(self, tp: TopicPartition, now: Situation, adds: Brokers) -> None:
        bytes_s = self._inbound.get(tp)
        if not bytes_s:
            return
        for broker in adds:
            self._add(self._written, self.peak_written, broker, bytes_s)
        if now.leader is not None:
            needed = (len(now.replicas) - 1 + len(adds)) * bytes_s
            self._sent_by[tp] = now.leader, needed
            self._add(self._sent, self.peak_sent, now.leader, needed)

    def copied(self, tp: TopicPartition, broker: int) -> None:
        if bytes_s := self._inbound.get(tp):
            self._written[broker] -= bytes_s

    def over(self, tp: TopicPartition) -> None:
        if tp in self._sent_by:
            leader, bytes_s = self._sent_by.pop(tp)
            self._sent[leader] -= bytes_s

    @staticmethod
    def _add(now: Counter[int], peak: Counter[int], broker: int, bytes_s: int) -> None:
        now[broker] += bytes_s
        peak[broker] = max(peak[broker], now[broker])


def _extra_replicas(one: WantedPartition, now: Situation) -> int:
    """The number of extra replicas; below 0, how many may be added before one is extra."""
    return len(now.replicas) - max(len(one.situation.replicas), len(one.situation.target))


_MOST = 400
"""The most partitions and bundles simulated, at 0.1 to 0.3 ms each, of those in flight or waiting.

With 5, forecasts miss by two thirds more (bench/forecast/ablation.py). Of more, some stand for the
others. The largest are simulated one by one, for the time of the last ones depends on them. The
others are bundled by the brokers that they go to, so that each broker keeps what it receives.
"""
T = TypeVar("T")
Onto = tuple[Sequence[int], Sequence[int]]
"""The brokers that receive a partition, and after these all of its target."""


class Bundle(NamedTuple, Generic[T]):
    """A partition, and others onto about the same brokers that it stands for."""

    one: T
    size: float  # the mean size of all of them, in bytes
    others: Sequence[T] = ()


def bundled(
    partitions: Sequence[T], size_of: Callable[[T], int], onto: Callable[[T], Onto]
) -> list[Bundle[T]]:
    """Return partitions in their order; of more than `_MOST`, the smaller ones in bundles."""
    if len(partitions) <= _MOST:
        return [Bundle(one, size_of(one)) for one in partitions]
    numbers, sizes = range(len(partitions)), [size_of(one) for one in partitions]
    alone = set(nlargest(_MOST // 4, numbers, key=sizes.__getitem__))
    rest = sorted((n for n in numbers if n not in alone), key=lambda n: onto(partitions[n]))
    parts = _MOST - len(alone)
    edges = [part * len(rest) // parts for part in range(parts + 1)]
    found: dict[int, Bundle[T]] = {n: Bundle(partitions[n], sizes[n]) for n in alone}
    for begin, end in pairwise(edges):
        of = rest[begin:end]
        mean = sum(sizes[n] for n in of) / len(of)
        middle = of[len(of) // 2]
        others = [partitions[n] for n in of if n != middle]
        found[middle] = Bundle(partitions[middle], mean, others)
    return [found[n] for n in sorted(found)]


def go_together(sizes: Sequence[int], limits: Limits) -> bool:
    """Whether a bundle's partitions are copied at once: no limit keeps half of them waiting."""
    if any(limits.counts_at) or limits.brokers:
        return False
    of_bytes, size = limits.bytes_in_flight, sum(sizes)
    large = None if of_bytes is None or not size else of_bytes * len(sizes) / size
    at_once = (limits.partitions, limits.replica_movements, limits.cuts_per_minute, large)
    return all(most is None or 2 * most >= len(sizes) for most in at_once)


def simulate_in_bundles(
    wanted: Sequence[WantedPartition],
    limits: Limits,
    rates: Rates,
    joining_s: int,
    inbound: Mapping[TopicPartition, int] | None = None,
    racks: Racks = NO_RACKS,
) -> SimulatedOutcome:
    """Simulate a run of `wanted`, online and in sync, in a time that does not grow with them."""
    together = go_together([one.size for one in wanted], limits)
    bundles, written = bundled(wanted, lambda one: one.size, _onto), dict(inbound or {})
    others = {each.one.tp: each.others for each in bundles if each.others}
    parts = []
    for each in bundles:
        count = 1 + len(each.others) if together else 1
        parts.append(msgspec.structs.replace(each.one, size=round(each.size * count)))
        if each.others and written:
            of = [written.get(one.tp, 0) for one in (each.one, *each.others)]
            written[each.one.tp] = sum(of) if together else max(of)
    times = len(wanted) / max(1, len(bundles))
    stand = StandIns(
        {tp: Counter(map(_leader, of)) for tp, of in others.items()} if together else {},
        {} if together else {tp: 1 + len(of) for tp, of in others.items()},
        1.0 if together else times,
    )
    rest, beside = RestOfRun((), parts, racks), StepOverhead(joining_s)
    run = simulate_stand_ins(
        rest, limits, beside, rates, stand, to_cut=len(wanted), inbound=written
    )
    return msgspec.structs.replace(
        run,
        batches=round(run.batches * stand.steps),
        peak_extra_replicas=round(run.peak_extra_replicas * (times if together else 1)),
    )


class StandIns(NamedTuple):
    """For what the partitions of a simulation stand, besides themselves."""

    together: Mapping[TopicPartition, Counter[int]]  # leaders of others copied at once
    in_turn: Mapping[TopicPartition, int]  # how many are copied one after the other
    steps: float  # how many steps a step stands for, on average


def simulate_stand_ins(
    left: RestOfRun,
    limits: Limits,
    overhead: StepOverhead,
    rates: Rates,
    stand: StandIns,
    *,
    to_cut: int,
    inbound: Mapping[TopicPartition, int] | None = None,
) -> SimulatedOutcome:
    """Simulate a run of which some partitions stand for others; `left` has the size of all."""
    least_s, per_minute = 0.0, limits.cuts_per_minute
    if per_minute is not None and stand.steps > 1:  # partitions in one would be cut at once
        least_s = 60.0 * to_cut / per_minute
        limits = msgspec.structs.replace(limits, cuts_per_minute=None)
    beside = StepOverhead(
        round(overhead.joining_s * stand.steps), round(overhead.other_s * stand.steps)
    )
    run = simulate_rest_of_run(left, limits, beside, _StandInCopies(rates, stand), inbound=inbound)
    return msgspec.structs.replace(run, waiting_s=max(run.waiting_s, least_s - run.copying_s))


def _onto(one: WantedPartition) -> Onto:
    now = one.situation
    return sorted({*now.target} - {*now.replicas}), now.target


def _leader(one: WantedPartition) -> int:
    now = one.situation
    return leader_or_first(now.leader, now.replicas)


class _StandInCopies(CopiesOfBothEnds):
    def __init__(self, rates: Rates, stand: StandIns) -> None:
        super().__init__(rates.of_copy, rates.load())
        self._stand = stand

    def add(
        self,
        tp: TopicPartition,
        pair: Pair,
        size: float,
        at_s: float,
        beside: Mapping[int, int] = NONE_BESIDE,
    ) -> None:
        beside = self._stand.together.get(tp, beside)
        one = size / (1 + sum(beside.values())) * self._stand.in_turn.get(tp, 1)
        super().add(tp, pair, one, at_s, beside)
