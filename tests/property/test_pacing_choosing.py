"""Whatever happens to a run and its limits, each decision keeps the limits in force."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import SHAPES, USUAL_CUT_TOGETHER, InternalOrder, Limits, Mode, Order, Shape
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import (
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
from support.rule_book import Taken, full_limits, is_urgent, out_of_turn, taken_by
from support.runs.pacing import broker_limits, foreign_use, on_the_way, replica_lists

BROKERS = range(7)
RACKS = {broker: "abc"[broker // 2] for broker in range(6)}  # broker 6 has none
THEIRS = TopicPartition("audit", 0)
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
        self.theirs: list[Taken] = []
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
        return self.urgent_first and is_urgent(now.isr, now.target, now.min_insync_replicas)

    @rule(limits=all_limits())
    def change_limits(self, limits: Limits) -> None:
        self.limits = limits
        self.roster.set_limits(limits)

    @rule(
        adds=st.dictionaries(st.sampled_from(BROKERS), st.integers(1, 3), max_size=2),
        leader=st.sampled_from(BROKERS),
    )
    def others_move(self, adds: dict[int, int], leader: int) -> None:
        on = [broker for broker, count in adds.items() for _ in range(count)]
        self.theirs = [Taken(tp=THEIRS, adds=(b,), leader=leader, theirs=True) for b in on]
        self.others = foreign_use(adds, {leader: len(on)})
        self.others.taken["per_rack"].update(RACKS[b] for b in on if b in RACKS)

    @rule()
    def others_stop(self) -> None:
        self.others, self.theirs = NOTHING_FOREIGN, []

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
        """Check that partitions of Kafka's own begin in turn."""
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
        waiting = {*self.situations} - self.begun - {move.tp for move in moves}
        could = [p for p in waiting if p in self.roster and isinstance(self.next(p), Step)]
        begins = [move.tp for move in begin]
        assert not (why := out_of_turn(self.limits, begins, going=(), waiting=could)), why

    def check_places(self, moves: list[Move]) -> None:
        """Check the places that partitions keep between two steps, too."""
        ready = self.ready()
        places = {among: self.places(among_urgent=among) for among in (False, True)}
        for move in moves:
            if move.tp not in ready and not self.roster.holds_place(move.tp):
                assert below(places[move.among_urgent] + 1, self.limits.partitions)
                for among in {False, move.among_urgent}:
                    places[among] += 1

    def places(self, *, among_urgent: bool) -> int:
        return (self.roster.used_by_urgent if among_urgent else self.roster.used).places

    def check_room(self, moves: list[Move]) -> None:
        """Check each move against those in flight, and those taken before it."""
        beside = [*map(self.taken, self.in_flight.values()), *self.theirs]
        for move in moves:
            assert not (full := full_limits(self.limits, self.taken(move), beside, RACKS)), full
            beside.append(self.taken(move))

    def taken(self, move: Move) -> Taken:
        return taken_by(move, self.situations[move.tp].leader, self.sizes[move.tp])

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
        usual = [move.tp for move in begins if not move.among_urgent]
        why = out_of_turn(self.limits, usual, going=self.active(), waiting=())
        assert not why, why
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
        beside = [self.taken(move) for move in (*self.in_flight.values(), *moves)]
        waits = [
            (step, self.taken(Move(partition, step, among_urgent=True)))
            for step in next_steps(self.situations[partition], self.limits)
        ]
        return any(
            not full_limits(self.limits, taken, beside, RACKS)
            and (not raises_epoch(step) or below(raised + 1, self.limits.cuts_per_minute))
            for step, taken in waits
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
        self.others_stop()
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
