"""Whatever happens to a run and its limits, each decision keeps the limits in force."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.decision import Decision, Move, WantedPartition
from ktui.pacing.last_minute import raises_epoch
from ktui.pacing.limits import SHAPES, USUAL_CUT_TOGETHER, Limits, Mode, Order, Shape
from ktui.pacing.room import NOTHING_FOREIGN, Foreign
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Blocked, Done, Next, Situation, Step
from ktui.pacing.steps import after, next_step, next_steps
from ktui.pacing.weight import LEAST
from support.runs.pacing import foreign_moves, on_the_way, replica_lists, tp

BROKERS = range(7)
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
        cuts_per_minute=draw(COUNTS),
        bytes_in_flight=draw(SIZES),
        bytes_per_broker=draw(SIZES),
        extra_replicas=draw(st.sampled_from((None, 1))) if gentle else None,
        cut_together=draw(COUNTS) if gentle else None,
        shape=shape,
        mode=draw(st.sampled_from(Mode)),
        order=draw(st.sampled_from(Order)),
    )


def below(count: int, limit: int | None) -> bool:
    return limit is None or count <= limit


class RunMachine(RuleBasedStateMachine):
    """A run, and an independent model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        self.roster = Roster(self.limits)
        self.situations: dict[TopicPartition, Situation] = {}
        self.in_flight: dict[TopicPartition, Move] = {}
        self.begun: set[TopicPartition] = set()
        self.waves: dict[TopicPartition, int] = {}
        self.others = NOTHING_FOREIGN
        self.submitted = 0
        self.sizes: dict[TopicPartition, int] = {}

    @initialize(plan=plans, limits=all_limits())
    def begin(self, plan: list[tuple[tuple[int, ...], tuple[int, ...]]], limits: Limits) -> None:
        self.limits = limits
        self.roster = Roster(limits)
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

    @rule(limits=all_limits())
    def change_limits(self, limits: Limits) -> None:
        self.limits = limits
        self.roster.set_limits(limits)

    @rule(others=foreign_moves(BROKERS, 3))
    def others_move(self, others: Foreign) -> None:
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
        degraded = data.draw(st.sampled_from(still))
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
        self.check(decision)
        self.roster.submitted(decision)
        self.roster.cuts_lately += sum(raises_epoch(move.step) for move in decision.moves)
        for move in decision.moves:
            self.in_flight[move.tp] = move
            self.begun.add(move.tp)

    def check(self, decision: Decision) -> None:
        moves = list(decision.moves)
        for move in moves:
            assert move.tp not in self.in_flight
            assert move.step in next_steps(self.situations[move.tp], self.limits)
        assert len({move.tp for move in moves}) == len(moves)
        self.check_places(moves)
        self.check_leaders(moves)
        self.check_adds(decision)
        self.check_bytes(decision)
        self.check_cuts(decision)
        self.check_epochs(moves)
        self.check_mode(moves)
        self.check_progress(moves)

    def check_places(self, moves: list[Move]) -> None:
        ready = self.ready()
        placed = [move for move in moves if move.tp not in ready]
        if placed:
            cuts = {p for p, move in self.in_flight.items() if not move.holds_place}
            in_flight = len({*self.in_flight} - cuts) + len(placed)
            assert below(in_flight, self.limits.partitions)
        if any(move.tp not in self.begun for move in moves):
            holding = self.roster.places_taken
            new = sum(not self.roster.holds_place(move.tp) for move in placed)
            assert below(holding + new, self.limits.partitions)

    def check_leaders(self, moves: list[Move]) -> None:
        moving = [move for move in (*moves, *self.in_flight.values()) if move.step.moves_leader]
        if any(move.step.moves_leader for move in moves):
            assert below(len(moving), self.limits.leader_movements)

    def check_adds(self, decision: Decision) -> None:
        in_flight = [move.step.adds for move in self.in_flight.values()]
        here = list(chain(*in_flight, *([b] * n for b, n in self.others.adding.items())))
        sent = Counter(self.others.sending)
        for moved, move in self.in_flight.items():
            sent[self.situations[moved].leader or 0] += len(move.step.adds)
        for move in decision.steps:
            here += move.step.adds
            leader = self.situations[move.tp].leader or 0
            sent[leader] += len(move.step.adds)
            alone = move.alone and not self.in_flight and len(list(decision.moves)) == 1
            if move.step.adds and not move.step.urgent and not alone:
                assert below(len(here), self.limits.replica_movements)
                assert below(sent[leader], self.limits.per_leader)
            for broker in move.step.adds:
                assert below(here.count(broker), self.limits.per_broker)

    def check_bytes(self, decision: Decision) -> None:
        """Check that no step adds where V or W are in flight already; the last may exceed them."""
        at: Counter[int] = Counter()
        whole = 0
        for move in (*self.in_flight.values(), *decision.steps):
            leader, adds = self.situations[move.tp].leader or 0, move.step.adds
            if move.tp not in self.in_flight and adds and not move.step.urgent:
                assert whole < (self.limits.bytes_in_flight or inf)
                for broker in (leader, *adds):
                    assert at[broker] < (self.limits.bytes_per_broker or inf)
            size = max(LEAST, self.sizes[move.tp])
            whole += size * len(adds)
            at.update({leader: size * len(adds)})
            at.update(dict.fromkeys(adds, size))

    def check_cuts(self, decision: Decision) -> None:
        together = self.limits.cut_together or self.limits.partitions
        for cut in decision.cuts:
            assert below(len(cut), together)
            assert all(move.step.cut for move in cut)
        adding = [*self.in_flight.values(), *decision.steps]
        waited_for = [move for cut in decision.cuts for move in cut if move.tp in self.ready()]
        if waited_for and any(move.step.adds for move in adding):
            together = together or USUAL_CUT_TOGETHER
            assert len(waited_for) <= len(self.ready())
            caps = (self.limits.leader_movements, self.limits.cuts_per_minute)
            assert len(self.ready()) >= min(together, *(cap or together for cap in caps))

    def check_epochs(self, moves: list[Move]) -> None:
        raised = sum(bool(m.step.drops) or m.step.moves_leader or m.step.cut for m in moves)
        if raised:
            assert below(self.roster.cuts_lately + raised, self.limits.cuts_per_minute)

    def check_mode(self, moves: list[Move]) -> None:
        begins = [move for move in moves if move.tp not in self.begun]
        if begins and self.limits.mode is Mode.WAVE:
            assert not self.active()
        unlimited = replace(self.limits, partitions=None, mode=Mode.ROLLING, order=Order.TOPIC)
        held_back = unlimited != Limits(
            replicas=self.limits.replicas,
            extra_replicas=self.limits.extra_replicas,
            cut_together=self.limits.cut_together,
            shape=self.limits.shape,
        )
        if self.limits.mode is Mode.ROLLING and not held_back and self.alone() is None:
            free = (self.limits.partitions or 99) - self.roster.places_taken
            taken = sum(move.holds_place for move in moves if not self.roster.holds_place(move.tp))
            waiting = len(self.roster.queue) - len(begins)
            assert waiting == 0 or taken >= free

    def alone(self) -> TopicPartition | None:
        return next((p for p, move in self.in_flight.items() if move.alone), None)

    def check_progress(self, moves: list[Move]) -> None:
        """Check that something moves wherever it can when nobody else is in the way."""
        if self.in_flight or self.others.count or self.roster.cuts_lately:
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
