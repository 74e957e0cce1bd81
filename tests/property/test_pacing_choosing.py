"""Whatever happens to a run and its limits, each decision keeps the limits in force."""

from __future__ import annotations

import random
from collections import Counter
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import (
    SHAPES,
    USUAL_CUT_TOGETHER,
    InternalOrder,
    Limits,
    Mode,
    Order,
    Shape,
)
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import (
    LEAST,
    Blocked,
    Decision,
    Done,
    Move,
    Next,
    Situation,
    Step,
    WantedPartition,
    raises_epoch,
)
from ktui.pacing.steps import after, next_step, next_steps
from support.runs.pacing import (
    broker_limits,
    foreign_moves,
    most_at,
    on_the_way,
    replica_lists,
)

BROKERS = range(7)
RACKS = {broker: "abc"[broker // 2] for broker in range(6)}
"""Broker 6 has none."""
COUNTS = st.sampled_from((None, 1, 2, 3, 5))
MIB = 1024 * 1024
SIZES = st.sampled_from((None, 1, MIB, 3 * MIB))

some_replicas = replica_lists(BROKERS, 4)
ways = st.tuples(some_replicas, some_replicas)
plans = st.lists(ways, min_size=1, max_size=12)


@st.composite
def all_limits(draw: st.DrawFn) -> Limits:
    shape = draw(st.sampled_from(SHAPES))
    gentle = shape is Shape.GENTLE
    return Limits(
        replicas=draw(st.sampled_from((1, 2, None))),
        partitions=draw(COUNTS),
        leader_movements=draw(COUNTS),
        replica_movements=draw(COUNTS),
        per_broker=draw(COUNTS),
        per_leader=draw(COUNTS),
        per_rack=draw(COUNTS),
        cuts_per_minute=draw(COUNTS),
        bytes_in_flight=draw(SIZES),
        bytes_per_broker=draw(SIZES),
        extra_replicas=draw(st.sampled_from((None, 1))) if gentle else None,
        cut_together=draw(COUNTS) if gentle else None,
        shape=shape,
        mode=draw(st.sampled_from(Mode)),
        order=draw(st.sampled_from(Order)),
        internal=draw(st.sampled_from(InternalOrder)) if gentle else InternalOrder.NONE,
        brokers=draw(broker_limits(BROKERS)),
    )


def tp(number: int) -> TopicPartition:
    """Return a partition; every other one is of a topic of Kafka's own."""
    return TopicPartition("orders" if number % 2 else "__consumer_offsets", number)


def moves_coordinator(move: Move) -> bool:
    return move.step.moves_leader and move.tp.topic == "__consumer_offsets"


def racks_of_step(move: Move) -> set[str]:
    return {RACKS[broker] for broker in move.step.adds if broker in RACKS}


def below(count: int, limit: int | None) -> bool:
    return limit is None or count <= limit


class RunMachine(RuleBasedStateMachine):
    """A run, and an independent model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        self.roster = Roster(self.limits)
        self.urgent_first = False
        self.situations: dict[TopicPartition, Situation] = {}
        self.in_flight: dict[TopicPartition, Move] = {}
        self.begun: set[TopicPartition] = set()
        self.waves: dict[TopicPartition, int] = {}
        self.others = NOTHING_FOREIGN
        self.submitted = 0
        self.sizes: dict[TopicPartition, int] = {}
        self.decided: tuple[object, Decision] | None = None
        """What the last decision rested on, and the decision."""

    @initialize(plan=plans, limits=all_limits(), urgent_first=st.booleans())
    def begin(
        self,
        *,
        plan: list[tuple[tuple[int, ...], tuple[int, ...]]],
        limits: Limits,
        urgent_first: bool,
    ) -> None:
        self.limits = limits
        self.urgent_first = urgent_first
        self.roster = Roster(limits, urgent_first=urgent_first, racks=RACKS)
        chance = random.Random(len(plan))  # noqa: S311 - sizes, not secrets
        for n, one in enumerate(plan):
            situation = on_the_way(*one, min_isr=n % 3 + 1)
            self.situations[tp(n)] = replace(situation, online=frozenset(BROKERS))
        self.sizes = {tp(n): chance.randrange(5) * MIB for n in range(len(plan))}
        self.roster.add(
            WantedPartition(tp(n), self.situations[tp(n)], size=self.sizes[tp(n)])
            for n in range(len(plan))
        )

    def next(self, partition: TopicPartition) -> Next:
        return next_step(self.situations[partition], self.limits)

    def active(self) -> set[TopicPartition]:
        """Return the partitions that have begun, are not blocked and have not ended."""
        between = (p for p in self.begun - {*self.in_flight} if isinstance(self.next(p), Step))
        return {*between, *self.in_flight}

    def ready(self) -> set[TopicPartition]:
        steps = ((p, self.next(p)) for p in self.begun - {*self.in_flight})
        return {p for p, step in steps if isinstance(step, Step) and step.cut}

    def urgent(self, partition: TopicPartition) -> bool:
        """Return whether a partition that waits goes as an urgent one."""
        now = self.situations[partition]
        enough = max(2, now.min_insync_replicas)
        return self.urgent_first and len(now.isr) < enough and len(now.isr) < len(now.target)

    @rule(limits=all_limits())
    def change_limits(self, limits: Limits) -> None:
        self.limits = limits
        self.roster.set_limits(limits)

    @rule(others=foreign_moves(BROKERS, 3))
    def others_move(self, others: Usage) -> None:
        self.others = others

    @rule()
    def others_stop(self) -> None:
        self.others = NOTHING_FOREIGN

    @rule()
    def a_minute_passes(self) -> None:
        self.roster.cuts_lately = 0

    @rule(data=st.data())
    def a_step_ends(self, data: st.DataObject) -> None:
        if self.in_flight:
            self.succeed(data.draw(st.sampled_from(sorted(self.in_flight))))

    @rule()
    def all_steps_end(self) -> None:
        for moved in sorted(self.in_flight):
            self.succeed(moved)

    def succeed(self, moved: TopicPartition) -> None:
        now = after(self.situations[moved], self.in_flight.pop(moved).step)
        self.situations[moved] = now
        outcome = self.roster.over(moved, now)
        assert outcome == self.next(moved)

    @rule(data=st.data(), gone=st.frozensets(st.sampled_from(BROKERS), max_size=7))
    def a_partition_degrades(self, data: st.DataObject, gone: frozenset[int]) -> None:
        still = sorted(p for p in self.situations if p in self.roster and p not in self.in_flight)
        if not still:
            return
        self.lose(data.draw(st.sampled_from(still)), gone)

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_dies(self, broker: int) -> None:
        self.decide()
        for partition in sorted(self.situations):
            if partition in self.roster and partition not in self.in_flight:
                self.lose(partition, frozenset({broker}))
        self.decide()

    def lose(self, degraded: TopicPartition, gone: frozenset[int]) -> None:
        now = self.situations[degraded]
        isr = tuple(b for b in now.replicas if b not in gone)
        leader = now.leader if now.leader in isr else next(iter(isr), None)
        now = replace(now, isr=isr, leader=leader, online=frozenset(BROKERS) - gone)
        self.situations[degraded] = now
        self.roster.seen(degraded, now)

    @rule()
    def everything_recovers(self) -> None:
        for partition, now in self.situations.items():
            if partition in self.roster and partition not in self.in_flight:
                self.situations[partition] = replace(
                    now,
                    isr=now.replicas,
                    leader=now.replicas[0] if now.leader is None else now.leader,
                    online=frozenset(BROKERS),
                )
                self.roster.seen(partition, self.situations[partition])

    @rule()
    def decide(self) -> None:
        decision = decide_steps(self.roster, self.others)
        assert decide_steps(self.roster, self.others) == decision
        self.check_same_grounds(decision)
        self.check(decision)
        self.roster.submitted(decision)
        self.roster.cuts_lately += sum(raises_epoch(move.step) for move in decision.moves)
        for move in decision.moves:
            self.in_flight[move.tp] = move
            self.begun.add(move.tp)

    def check_same_grounds(self, decision: Decision) -> None:
        """Check that nothing but what counts as a change makes another decision."""
        roster = self.roster
        grounds = (roster.changes, roster.cuts_lately, roster.batch, self.others)
        if self.decided is not None and self.decided[0] == grounds:
            assert self.decided[1] == decision
        self.decided = grounds, decision

    @rule()
    def nothing_happens(self) -> None:
        for partition, now in self.situations.items():
            if partition in self.roster and partition not in self.in_flight:
                self.roster.seen(partition, now)

    def check(self, decision: Decision) -> None:
        moves = list(decision.moves)
        for move in moves:
            assert move.tp not in self.in_flight
            assert move.step in next_steps(self.situations[move.tp], self.limits)
            assert move.among_urgent == self.urgent(move.tp)
        assert len({move.tp for move in moves}) == len(moves)
        self.check_places(moves)
        self.check_room(moves)
        self.check_cuts(decision)
        self.check_epochs(moves)
        self.check_mode(moves)
        self.check_progress(moves)
        self.check_urgent(moves)
        self.check_internal(moves)

    def step_of(self, partition: TopicPartition) -> Step:
        step = self.next(partition)
        assert isinstance(step, Step)
        return step

    def goes_one_by_one(self, move: Move) -> bool:
        return self.limits.internal is not InternalOrder.NONE and moves_coordinator(move)

    def check_internal(self, moves: list[Move]) -> None:
        """Check that one leader of Kafka's own partitions moves, and that these begin in turn."""
        if any(map(self.goes_one_by_one, moves)):
            assert sum(map(moves_coordinator, (*self.in_flight.values(), *moves))) == 1
        begin = [move for move in moves if move.tp not in self.begun and not move.among_urgent]
        own = [move.tp.topic == "__consumer_offsets" for move in begin]
        if self.limits.internal is InternalOrder.FIRST and self.limits.leader_movements is None:
            for cut in (False, True):  # of one decision, cuts come after all other steps
                kind = [
                    internal
                    for move, internal in zip(begin, own, strict=True)
                    if move.step.cut is cut
                ]
                assert kind == sorted(kind, reverse=True)
        if self.limits.internal is InternalOrder.LAST and any(own):
            others = {p for p in self.situations if p in self.roster and p.topic == "orders"}
            waiting = others - self.begun - {move.tp for move in moves}
            assert not [p for p in waiting if isinstance(self.next(p), Step)]

    def check_places(self, moves: list[Move]) -> None:
        ready = self.ready()
        taken = [*self.in_flight.values()]
        places = {among: self.places(among_urgent=among) for among in (False, True)}
        for move in moves:
            if move.tp not in ready:
                steps = sum(each.holds_place for each in self.counted(move, taken))
                held = self.roster.holds_place(move.tp)
                beside = steps if held else max(steps, places[move.among_urgent])
                assert below(beside + 1, self.limits.partitions)
                for among in {False, move.among_urgent}:
                    places[among] += not held
            taken.append(move)

    def places(self, *, among_urgent: bool) -> int:
        return (self.roster.used_by_urgent if among_urgent else self.roster.used).places

    def counted(self, move: Move, moves: list[Move]) -> list[Move]:
        """Return those moves that the limits count for one: of an urgent one only such ones."""
        return [each for each in moves if each.among_urgent or not move.among_urgent]

    def check_room(self, moves: list[Move]) -> None:
        """Check each move against those in flight, and those taken before it."""
        taken = [*self.in_flight.values()]
        for move in moves:
            counted = self.counted(move, taken)
            others = NOTHING_FOREIGN if move.among_urgent else self.others
            assert not any(each.alone for each in counted)
            assert self.has_room(move, counted) or (
                move.alone and not counted and not others.adding
            )
            taken.append(move)

    def has_room(self, move: Move, counted: list[Move]) -> bool:
        """Whether L, B, M, S, V, W and Z let a move go beside those that they count for it."""
        limits, adds = self.limits, move.step.adds
        others = NOTHING_FOREIGN if move.among_urgent else self.others
        moving = sum(each.step.moves_leader for each in counted)
        if move.step.moves_leader and not below(moving + 1, limits.leader_movements):
            return False
        on, at, sent, whole = (
            Counter(others.taken["per_broker"]),
            Counter[int](),
            Counter(others.taken["per_leader"]),
            0,
        )
        in_racks = Counter(others.taken["per_rack"])
        for each in counted:
            in_racks.update(racks_of_step(each))
            there, leader = each.step.adds, self.situations[each.tp].leader or 0
            size = max(LEAST, self.sizes[each.tp])
            on.update(there)
            sent[leader] += len(there)
            at.update({leader: size * len(there)})
            at.update(dict.fromkeys(there, size))
            whole += size * len(there)
        leader = self.situations[move.tp].leader or 0
        if not all(below(on[b] + 1, most_at(limits, "per_broker", b)) for b in adds):
            return False
        return (
            not adds
            or move.step.urgent
            or (
                below(on.total() + len(adds), limits.replica_movements)
                and all(below(in_racks[r] + 1, limits.per_rack) for r in racks_of_step(move))
                and below(sent[leader] + len(adds), most_at(limits, "per_leader", leader))
                and whole < (limits.bytes_in_flight or inf)
                and all(
                    at[b] < (most_at(limits, "bytes_per_broker", b) or inf) for b in (leader, *adds)
                )
            )
        )

    def check_cuts(self, decision: Decision) -> None:
        """Check that partitions wait to be cut together, apart from those that go one by one."""
        together = self.limits.cut_together or self.limits.partitions
        for cut in decision.cuts:
            assert below(len(cut), together)
            assert all(move.step.cut for move in cut)
        adding = [*self.in_flight.values(), *decision.steps]
        ready = {p for p in self.ready() if not self.goes_one_by_one(Move(p, self.step_of(p)))}
        waited_for = [move for cut in decision.cuts for move in cut if move.tp in ready]
        if waited_for and any(move.step.adds for move in adding):
            together = together or USUAL_CUT_TOGETHER
            assert len(waited_for) <= len(ready)
            caps = (self.limits.leader_movements, self.limits.cuts_per_minute)
            assert len(ready) >= min(together, *(cap or together for cap in caps))

    def check_epochs(self, moves: list[Move]) -> None:
        raised = sum(bool(m.step.drops) or m.step.moves_leader or m.step.cut for m in moves)
        if raised:
            assert below(self.roster.cuts_lately + raised, self.limits.cuts_per_minute)

    def check_mode(self, moves: list[Move]) -> None:
        begins = [move for move in moves if move.tp not in self.begun]
        if any(not move.among_urgent for move in begins) and self.limits.mode is Mode.WAVE:
            assert not self.active()
        unlimited = replace(self.limits, partitions=None, mode=Mode.ROLLING, order=Order.TOPIC)
        held_back = unlimited != Limits(
            replicas=self.limits.replicas,
            extra_replicas=self.limits.extra_replicas,
            cut_together=self.limits.cut_together,
            shape=self.limits.shape,
        )
        if self.limits.mode is Mode.ROLLING and not held_back and self.alone() is None:
            free = (self.limits.partitions or 99) - self.roster.used.places
            taken = sum(move.holds_place for move in moves if not self.roster.holds_place(move.tp))
            waiting = len(self.roster.queue) - len(begins)
            assert waiting == 0 or taken >= free

    def check_urgent(self, moves: list[Move]) -> None:
        """Check that no urgent partition with a step that fits waits, whatever else is in flight.

        They go before the others, so none of those begins instead.
        """
        assert moves == sorted(moves, key=lambda move: not move.among_urgent)
        going = {move.tp for move in moves} | self.in_flight.keys()
        for waits in sorted({p for p in self.situations if p in self.roster} - going):
            if self.urgent(waits) and isinstance(self.next(waits), Step):
                assert not self.urgent_fits(waits, moves)

    def urgent_fits(self, partition: TopicPartition, moves: list[Move]) -> bool:
        """Whether a step would fit beside all urgent steps, whatever else is in flight."""
        urgent = [m for m in (*self.in_flight.values(), *moves) if m.among_urgent]
        if any(move.alone for move in urgent):
            return False
        held = self.roster.holds_place
        new = sum(move.among_urgent and not held(move.tp) for move in moves)
        places = 0 if held(partition) else self.places(among_urgent=True) + new
        if not below(max(places, sum(m.holds_place for m in urgent)) + 1, self.limits.partitions):
            return False
        raised = self.roster.cuts_lately + sum(raises_epoch(move.step) for move in moves)
        moving = any(map(moves_coordinator, (*self.in_flight.values(), *moves)))
        return any(
            self.has_room(Move(partition, step, among_urgent=True), urgent)
            and not (moving and self.goes_one_by_one(Move(partition, step)))
            and (not raises_epoch(step) or below(raised + 1, self.limits.cuts_per_minute))
            for step in next_steps(self.situations[partition], self.limits)
        )

    def alone(self) -> TopicPartition | None:
        return next((p for p, move in self.in_flight.items() if move.alone), None)

    def check_progress(self, moves: list[Move]) -> None:
        """Check that something moves wherever it can when nobody else is in the way."""
        if self.in_flight or self.others.adding or self.roster.cuts_lately:
            return
        left = [p for p in self.situations if p in self.roster]
        if any(isinstance(self.next(p), Step) for p in left):
            assert moves

    @invariant()
    def only_done_partitions_have_left(self) -> None:
        for partition in self.situations:
            ended = partition not in self.in_flight and isinstance(self.next(partition), Done)
            assert (partition not in self.roster) == ended

    @invariant()
    def each_partition_is_in_one_place(self) -> None:
        for partition in self.situations:
            if partition not in self.roster:
                continue
            places = (
                partition in self.roster.queue,
                partition in self.roster.between,
                partition in self.roster.ready,
                partition in self.roster.in_flight,
                partition in self.roster.blocked,
            )
            assert sum(places) == 1
            waits = partition not in self.in_flight and isinstance(self.next(partition), Blocked)
            assert (partition in self.roster.blocked) == waits

    def teardown(self) -> None:
        """Check that the run ends once the brokers are well and nobody else moves partitions."""
        if not self.situations:
            return
        self.others = NOTHING_FOREIGN
        self.all_steps_end()
        self.everything_recovers()
        for _ in range(40 * len(self.situations)):
            self.a_minute_passes()
            self.decide()
            self.all_steps_end()
        assert len(self.roster) == 0
        for now in self.situations.values():
            assert (now.replicas, now.leader) == (now.target, now.target[0])


TestRun = RunMachine.TestCase
TestRun.settings = settings(stateful_step_count=25)


@given(plans, all_limits(), st.randoms(use_true_random=False))
def test_topic_order_does_not_depend_on_the_order_of_the_plan(
    plan: list[tuple[tuple[int, ...], tuple[int, ...]]], limits: Limits, chance: random.Random
) -> None:
    limits = replace(limits, order=Order.TOPIC)
    wanted = [WantedPartition(tp(n), on_the_way(*one)) for n, one in enumerate(plan)]
    shuffled = chance.sample(wanted, len(wanted))
    one, other = Roster(limits), Roster(limits)
    one.add(wanted)
    other.add(shuffled)

    assert decide_steps(one) == decide_steps(other)


@given(plans, st.integers(1, 4), st.sampled_from(Shape))
def test_a_wave_completes_before_the_next_begins(
    plan: list[tuple[tuple[int, ...], tuple[int, ...]]], most: int, shape: Shape
) -> None:
    roster = Roster(Limits(replicas=1, partitions=most, mode=Mode.WAVE, shape=shape))
    roster.add(WantedPartition(tp(n), on_the_way(*one)) for n, one in enumerate(plan))
    todo = sorted(p for p in map(tp, range(len(plan))) if p in roster)
    waves: dict[int, set[TopicPartition]] = {}
    while len(roster):
        decision = decide_steps(roster)
        waves.setdefault(decision.batch, set()).update(move.tp for move in decision.moves)
        roster.submitted(decision)
        for moved in list(roster.in_flight):
            roster.over(moved, after(roster.situation(moved), roster.in_flight[moved].step))

    assert [sorted(waves[n]) for n in sorted(waves)] == [
        todo[n : n + most] for n in range(0, len(todo), most)
    ]
