"""Plans made from intentions, on random small clusters."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.intents.drain import drain, shed, swap
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import CannotMake, Internal, MadePlan, Why, Wishes
from ktui.planning.intents.placement import Rule, Strategy, placement
from ktui.planning.intents.placing import rack_repair
from ktui.planning.intents.rack_repair import replication_factor
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from ktui.planning.replication_factor import BrokerPool

BROKERS = tuple(range(1, 7))
TOPICS = ("a", "b", "__consumer_offsets", "ktui-canary-x")
Intention = Callable[[Layout, Wishes], MadePlan]


def layout_of(seed: int) -> Layout:
    """Make a cluster of up to six brokers, some down or cordoned, some partitions in a bad way."""
    chance = random.Random(seed)  # noqa: S311 - a test's dice
    known = BROKERS[: chance.randint(2, 6)]
    down = {chance.choice(known)} if chance.random() < 0.4 else set()
    cordoned = frozenset({chance.choice(known)} if chance.random() < 0.3 else ())
    tps = [TopicPartition(chance.choice(TOPICS), n) for n in range(chance.randint(1, 8))]
    return Layout(
        partitions={tp: state_of(tp, known, frozenset(down), chance) for tp in tps},
        pool=BrokerPool(
            online=frozenset(known) - down,
            cordoned=cordoned,
            refuses_cordoned=chance.random() < 0.5,
            racks={broker: chance.choice(["r1", "r2", "r3", None]) for broker in known},
        ),
        known=frozenset(known),
        sizes={tp: chance.randint(0, 9) for tp in tps},
        room={broker: chance.randint(0, 30) for broker in known if chance.random() < 0.5},
        weights={broker: chance.choice([0.5, 1.0, 2.0]) for broker in known},
    )


def state_of(
    tp: TopicPartition, known: Brokers, down: frozenset[int], chance: random.Random
) -> PartitionState:
    replicas = tuple(chance.sample(known, chance.randint(1, min(3, len(known)))))
    isr = tuple(b for b in replicas if b not in down and chance.random() < 0.9)
    adding = tuple(b for b in known if b not in replicas and chance.random() < 0.05)
    return PartitionState(
        tp,
        None,
        (*adding, *replicas),
        isr,
        isr[0] if isr else None,
        adding=adding,
        offline=tuple(b for b in replicas if b in down),
        described=chance.random() < 0.95,
    )


layouts = st.integers(0, 10**9).map(layout_of)


wishes = st.builds(
    Wishes,
    topics=st.sampled_from([(), ("a*",)]),
    exclude=st.sampled_from([(), ("b",)]),
    internal=st.sampled_from(Internal),
    max_moves=st.none() | st.integers(0, 6),
    max_bytes=st.none() | st.integers(0, 30),
    max_leader_changes=st.none() | st.integers(0, 4),
    rack_aware=st.booleans(),
    keep_order=st.booleans(),
)


@st.composite
def intentions(draw: st.DrawFn) -> tuple[str, Intention]:
    """Draw an intention with its arguments, which may not fit the cluster."""
    some = draw(st.sets(st.sampled_from(BROKERS), min_size=1, max_size=3))
    one, two = draw(st.sampled_from(BROKERS)), draw(st.sampled_from(BROKERS))
    number, by = draw(st.integers(1, 4)), draw(st.sampled_from(By))
    rules = [
        Rule(topics="a", strategy=draw(st.sampled_from([Strategy.IN_RACK, Strategy.CROSS_RACK]))),
        Rule(topics="*", strategy=Strategy.BALANCED_LEADERS),
    ]
    tolerance = draw(st.sampled_from([0.0, 0.1, 0.5]))
    possible: list[tuple[str, Intention]] = [
        ("drain", lambda at, w: drain(at, some, w)),
        ("swap", lambda at, w: swap(at, one, two, w)),
        ("fill", lambda at, w: fill(at, some, w)),
        ("factor", lambda at, w: replication_factor(at, ["a"], number, w)),
        ("spread", lambda at, w: spread(at, w, None, by, tolerance)),
        ("shed", lambda at, w: shed(at, one, number * 4, w)),
        ("leaders", leaders),
        ("demote", lambda at, w: demote(at, some, w)),
        ("racks", rack_repair),
        ("placement", lambda at, w: placement(at, rules, w)),
    ]
    return draw(st.sampled_from(possible))


def made(intention: Intention, layout: Layout, asked: Wishes) -> MadePlan:
    try:
        return intention(layout, asked)
    except CannotMake as problem:
        assert str(problem)[-1] in ".?"  # noqa: PT017 - a sentence
        reject()


def racks(layout: Layout, brokers: Brokers) -> int:
    return len({layout.pool.racks.get(broker) for broker in brokers} - {None})


@settings(max_examples=250)
@given(intentions(), layouts, wishes)
def test_every_plan_keeps_to_brokers_room_budgets_and_scope(
    chosen: tuple[str, Intention], layout: Layout, asked: Wishes
) -> None:
    name, intention = chosen
    plan = made(intention, layout, asked)

    room = dict(layout.room)
    for tp, state in layout.partitions.items():
        for broker in state.adding:
            if broker in room:
                room[broker] -= layout.size(tp)
    moves = copied = changes = 0
    for target in plan.plan.partitions:
        state = layout.partitions[target.tp]
        assert asked.includes(target.topic)
        assert state.described
        assert not state.reassigning
        assert target.replicas != state.replicas
        assert len({*target.replicas}) == len(target.replicas) > 0
        assert target.original_replicas == state.original
        assert not layout.pool.refused & {*target.replicas}
        if name != "factor":
            assert len(target.replicas) == len(state.replicas)
        for broker in {*target.replicas} - {*state.replicas}:
            assert broker in layout.pool.targets
            moves += 1
            copied += layout.size(target.tp)
            if broker in room:
                room[broker] -= layout.size(target.tp)
                assert room[broker] >= 0
        changes += target.replicas[0] != state.replicas[0]
        if asked.rack_aware and name not in {"drain", "swap", "factor", "placement"}:
            assert racks(layout, target.replicas) >= racks(layout, state.replicas)
    assert (plan.moves, plan.bytes, plan.leader_changes) == (moves, copied, changes)
    assert asked.max_moves is None or moves <= asked.max_moves
    assert asked.max_bytes is None or copied <= asked.max_bytes
    assert asked.max_leader_changes is None or changes <= asked.max_leader_changes
    again = msgspec.structs.replace(layout, partitions=dict(reversed([*layout.partitions.items()])))
    assert intention(again, asked) == plan
    if name in {"leaders", "demote"}:
        assert not moves


@settings(max_examples=250)
@given(layouts, wishes, st.sets(st.sampled_from(BROKERS[:2]), min_size=1))
def test_every_replica_of_a_drained_broker_goes_or_is_left_for_a_reason_that_is_true(
    layout: Layout, asked: Wishes, gone: set[int]
) -> None:
    plan = made(lambda at, w: drain(at, gone, w), layout, asked)

    after = {tp: state.target for tp, state in layout.partitions.items()}
    after |= {target.tp: target.replicas for target in plan.plan.partitions}
    staying = {
        (tp, broker)
        for tp, brokers in after.items()
        for broker in gone & {*brokers}
        if asked.includes(tp.topic)
    }
    assert {(left.tp, left.broker) for left in plan.left} == staying
    room = room_left(layout, after)
    # A list that still names a cordoned broker is given up last: it has taken a place till then.
    given_up = any(left.why is Why.CORDONED for left in plan.left)
    for left in plan.left:
        assert left.tp is not None
        state, size = layout.partitions[left.tp], layout.size(left.tp)
        others = [b for b in layout.pool.targets if b not in gone and b not in after[left.tp]]
        assert {
            Why.REASSIGNING: state.reassigning,
            Why.UNREADABLE: not state.described,
            Why.CORDONED: bool(layout.pool.refused & {*state.replicas}),
            Why.LAST_REPLICA: not set(state.isr) & layout.pool.online,
            Why.NO_BROKER: given_up or not others,
            Why.ROOM: given_up or all(room.get(broker, size) < size for broker in others),
            Why.MAX_MOVES: given_up or plan.moves == asked.max_moves,
            Why.MAX_BYTES: given_up or plan.bytes + size > (asked.max_bytes or 0),
            Why.MAX_LEADER_CHANGES: given_up or plan.leader_changes == asked.max_leader_changes,
        }[left.why]


def room_left(layout: Layout, after: dict[TopicPartition, Brokers]) -> dict[int, int]:
    room = dict(layout.room)
    for tp, state in layout.partitions.items():
        for broker in {*after[tp]} - {*state.original}:
            if broker in room:
                room[broker] -= layout.size(tp)
    return room


@given(layouts, wishes, st.sets(st.sampled_from(BROKERS[:3]), min_size=1))
def test_a_demoted_broker_is_last_everywhere_or_leads_for_a_reason_that_is_true(
    layout: Layout, asked: Wishes, last: set[int]
) -> None:
    plan = made(lambda at, w: demote(at, last, w), layout, asked)

    left = {each.tp for each in plan.left}
    for target in plan.plan.partitions:
        assert sorted(target.replicas) == sorted(layout.partitions[target.tp].replicas)
        demoted = [broker in last for broker in target.replicas]
        assert demoted == sorted(demoted)
        assert not demoted[0]
    changed = {target.tp for target in plan.plan.partitions}
    for tp, state in layout.partitions.items():
        if tp not in changed and asked.includes(tp.topic):
            demoted = [broker in last for broker in state.target]
            assert tp in left or (demoted == sorted(demoted) and not demoted[0])
    for each in plan.left:
        assert each.tp is not None
        state = layout.partitions[each.tp]
        assert {
            Why.REASSIGNING: state.reassigning,
            Why.UNREADABLE: not state.described,
            Why.CORDONED: bool(layout.pool.refused & {*state.replicas}),
            Why.LAST_REPLICA: not {*state.isr} & layout.pool.online - last,
            Why.MAX_LEADER_CHANGES: plan.leader_changes == asked.max_leader_changes,
        }[each.why]


@given(layouts, st.sampled_from([By.BYTES, By.REPLICAS]), st.sampled_from([0.0, 0.1, 0.3]))
def test_brokers_are_never_less_even_after_they_were_spread(
    layout: Layout, by: By, tolerance: float
) -> None:
    plan = made(lambda at, w: spread(at, w, None, by, tolerance), layout, Wishes())

    after = {target.tp: target.replicas for target in plan.plan.partitions}
    for tp, brokers in after.items():
        assert len({*brokers}) == len(brokers) == len(layout.partitions[tp].replicas)
        assert racks(layout, brokers) >= racks(layout, layout.partitions[tp].replicas)
    loads = [load_of(layout, {}, by), load_of(layout, after, by)]
    if by is By.BYTES:
        assert (
            unevenness(layout, loads[1], tolerance)
            <= unevenness(layout, loads[0], tolerance) + 1e-6
        )


def load_of(layout: Layout, after: dict[TopicPartition, Brokers], by: By) -> dict[int, int]:
    loads = dict.fromkeys(sorted(layout.pool.online), 0)
    for tp, state in layout.partitions.items():
        for broker in after.get(tp, state.target):
            if broker in loads and Wishes().includes(tp.topic):
                loads[broker] += layout.size(tp) if by is By.BYTES else 1
    return loads


def unevenness(layout: Layout, loads: dict[int, int], tolerance: float) -> float:
    weights = sum(map(layout.weight, loads))
    off = 0.0
    for broker, load in loads.items():
        share = sum(loads.values()) * layout.weight(broker) / weights
        low = 0 if broker in layout.pool.cordoned else share * (1 - tolerance)
        off += max(load - share * (1 + tolerance), low - load, 0)
    return off
