"""Plans made from intentions, on random small clusters."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from math import ceil, floor, inf

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.intents.drain import drain, replication_factor, shed, swap
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import CannotMake, Internal, MadePlan, Why, Wishes
from ktui.planning.intents.placing import Rule, Strategy, placement, rack_repair
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


Lists = dict[TopicPartition, Brokers]
RACKS = {1: "x", 2: "x", 3: "y", 4: "y", 5: "z"}

ONE_BYTE = st.just(1)


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    brokers: int = 5,
    holding: int | None = None,
    partitions: int = 6,
    factor: int = 3,
    sizes: st.SearchStrategy[int] = ONE_BYTE,
    room: st.SearchStrategy[int] | None = None,
) -> Layout:
    """Draw a healthy cluster on racks."""
    known = range(1, brokers + 1)
    lists = draw(
        st.lists(
            st.lists(
                st.sampled_from(known[:holding]), min_size=1, max_size=factor, unique=True
            ).map(tuple),
            min_size=1,
            max_size=partitions,
        )
    )
    tps = [TopicPartition("ab"[number % 2], number) for number in range(len(lists))]
    return Layout(
        partitions={
            tp: PartitionState(tp, None, here, here, here[0])
            for tp, here in zip(tps, lists, strict=True)
        },
        pool=BrokerPool(online=frozenset(known), racks={broker: RACKS[broker] for broker in known}),
        known=frozenset(known),
        sizes={tp: draw(sizes) for tp in tps},
        room={} if room is None else {broker: draw(room) for broker in known},
    )


def planned(make: Callable[[], MadePlan]) -> MadePlan:
    try:
        return make()
    except CannotMake:
        reject()


def before(layout: Layout) -> Lists:
    return {tp: state.replicas for tp, state in layout.partitions.items()}


def after(layout: Layout, made: MadePlan) -> Lists:
    return before(layout) | {target.tp: target.replicas for target in made.plan.partitions}


def spread_of(brokers: Brokers) -> int:
    return len({RACKS[broker] for broker in brokers})


def moves_between(old: Brokers, new: Brokers) -> int:
    return len({*new} - {*old})


# ---------------------------------------------------------------------- drain


def most_drained(layout: Layout, gone: set[int], *, racks: bool) -> int:
    """Return the most replicas that can leave, when each takes one byte of room."""
    tps = sorted(layout.partitions)
    targets = [broker for broker in sorted(layout.known) if broker not in gone]

    def choices(tp: TopicPartition) -> Iterator[Brokers]:
        here = layout.partitions[tp].replicas
        kept = [broker for broker in here if broker not in gone]
        free = [broker for broker in targets if broker not in here]
        for count in range(len(here) - len(kept) + 1):
            for new in combinations(free, count):
                staying = [broker for broker in here if broker in gone][count:]
                if not racks or spread_of((*kept, *new, *staying)) >= spread_of(here):
                    yield new

    def most(place: int, room: Mapping[int, float]) -> float:
        if place == len(tps):
            return 0
        best = -inf
        for new in choices(tps[place]):
            left = {broker: left - (broker in new) for broker, left in room.items()}
            if min(left.values()) >= 0:
                best = max(best, len(new) + most(place + 1, left))
        return best

    return int(most(0, {broker: layout.room.get(broker, inf) for broker in targets}))


@settings(max_examples=60)
@given(
    clusters(partitions=5, room=st.integers(0, 3)),
    st.sets(st.sampled_from([1, 2, 3]), min_size=1, max_size=2),
)
def test_as_many_replicas_are_drained_as_disks_have_room_for(
    layout: Layout, gone: set[int]
) -> None:
    made = planned(lambda: drain(layout, gone, Wishes(rack_aware=False)))

    assert made.moves == most_drained(layout, gone, racks=False)
    held = sum(len(gone & {*brokers}) for brokers in before(layout).values())
    assert len(made.left) == held - made.moves


@given(clusters(), st.sets(st.sampled_from([1, 2, 3]), min_size=1, max_size=3))
def test_a_drain_moves_each_replica_once_and_gives_up_racks_only_where_none_is_left(
    layout: Layout, gone: set[int]
) -> None:
    made = planned(lambda: drain(layout, gone, Wishes()))

    targets = layout.known - gone
    bound = 0
    for tp, brokers in after(layout, made).items():
        here = layout.partitions[tp].replicas
        bound += min(len(gone & {*here}), len(targets - {*here}))
        if not gone & {*brokers}:
            kept = tuple(broker for broker in here if broker in targets)
            free = sorted(targets - {*here})
            best = max(
                spread_of((*kept, *new)) for new in combinations(free, len(here) - len(kept))
            )
            assert spread_of(brokers) >= min(best, spread_of(here))
    assert made.moves == bound


# ---------------------------------------------------------------------- leaders


@settings(max_examples=80)
@given(clusters(brokers=4, partitions=6))
def test_leaders_become_as_even_as_replicas_allow_with_the_fewest_changes(layout: Layout) -> None:
    made = planned(lambda: leaders(layout, Wishes()))

    lists = before(layout)
    able = Counter(broker for brokers in lists.values() for broker in brokers)
    shares = dict.fromkeys(layout.known, 0.0)
    left, sharing = float(len(lists)), set(layout.known)
    while full := {broker for broker in sharing if able[broker] < left / len(sharing)}:
        shares |= {broker: float(able[broker]) for broker in full}
        left -= sum(able[broker] for broker in full)
        sharing -= full
    shares |= {broker: left / len(sharing) for broker in sharing}

    def cost(chosen: tuple[int, ...]) -> tuple[int, int]:
        leads = Counter(chosen)
        off = sum(
            max(leads[b] - ceil(share - 1e-9), floor(share + 1e-9) - leads[b], 0)
            for b, share in shares.items()
        )
        return off, sum(new != here[0] for new, here in zip(chosen, lists.values(), strict=True))

    found = tuple(brokers[0] for brokers in after(layout, made).values())
    assert cost(found) == min(map(cost, product(*lists.values())))
    assert made.moves == 0


# ---------------------------------------------------------------------- bytes


def fewest_bytes_to_even(layout: Layout, tolerance: float) -> float:
    """Return the fewest bytes to copy until all brokers are within the tolerance; or infinity."""
    lists, known = before(layout), sorted(layout.known)
    sizes = layout.sizes
    share = sum(sizes[tp] * len(brokers) for tp, brokers in lists.items()) / len(known)
    low, high = share * (1 - tolerance) - 1e-9, share * (1 + tolerance) + 1e-9
    best = inf
    for chosen in product(*(combinations(known, len(brokers)) for brokers in lists.values())):
        loads = Counter(dict.fromkeys(known, 0))
        copied = 0
        for (tp, here), new in zip(lists.items(), chosen, strict=True):
            copied += sizes[tp] * moves_between(here, new)
            for broker in new:
                loads[broker] += sizes[tp]
        if copied < best and all(low <= load <= high for load in loads.values()):
            best = copied
    return best


@settings(max_examples=25)
@given(
    clusters(brokers=4, partitions=6, factor=2, sizes=st.integers(1, 100)),
    st.sampled_from([0.1, 0.2, 0.4]),
)
def test_bytes_become_even_with_nearly_the_fewest_copied(layout: Layout, tolerance: float) -> None:
    made = planned(lambda: spread(layout, Wishes(rack_aware=False), tolerance=tolerance))

    least = fewest_bytes_to_even(layout, tolerance)
    if least == inf:
        assert made.left
    else:
        assert not made.left
        assert made.bytes <= 1.05 * least


@given(
    clusters(partitions=8, sizes=st.integers(0, 50)),
    st.sampled_from(range(1, 6)),
    st.integers(1, 200),
)
def test_a_broker_sheds_the_fewest_bytes_that_are_enough(
    layout: Layout, broker: int, wanted: int
) -> None:
    made = planned(lambda: shed(layout, broker, wanted, Wishes(rack_aware=False)))

    held = [
        layout.size(tp)
        for tp, brokers in before(layout).items()
        if broker in brokers and len(brokers) < len(layout.known)
    ]
    sums = [sum(chosen) for count in range(len(held) + 1) for chosen in combinations(held, count)]
    if max(sums) < wanted:
        assert made.bytes == max(sums)
        assert [left.amount for left in made.left] == [wanted - max(sums)]
    else:
        assert made.bytes == min(each for each in sums if each >= wanted)
        assert not made.left


# ---------------------------------------------------------------------- counts of replicas


@given(clusters(partitions=12, holding=4))
def test_a_broker_is_filled_to_its_share_and_no_further(layout: Layout) -> None:
    lists = before(layout)
    share = sum(map(len, lists.values())) // 5
    if not share:
        with pytest.raises(CannotMake, match="Broker 5 has its share of the replicas already"):
            fill(layout, [5], Wishes(rack_aware=False))
        return
    made = fill(layout, [5], Wishes(rack_aware=False))

    assert made.moves == share
    for target in made.plan.partitions:
        assert {*target.replicas} - {*lists[target.tp]} == {5}


@given(clusters(), st.integers(1, 5))
def test_another_replication_factor_copies_only_the_replicas_that_are_missing(
    layout: Layout, factor: int
) -> None:
    made = planned(lambda: replication_factor(layout, ["a"], factor, Wishes()))

    lists = before(layout)
    assert made.moves == sum(max(factor - len(lists[tp]), 0) for tp in lists if tp.topic == "a")
    assert not made.left
    for tp, brokers in after(layout, made).items():
        assert len(brokers) == (factor if tp.topic == "a" else len(lists[tp]))


@given(clusters())
def test_each_partition_gets_all_racks_that_it_can_have_and_nothing_else_moves(
    layout: Layout,
) -> None:
    made = planned(lambda: rack_repair(layout, Wishes()))

    lists = before(layout)
    lacking = {tp: min(len(each), 3) - spread_of(each) for tp, each in lists.items()}
    assert made.moves == sum(lacking.values())
    for tp, brokers in after(layout, made).items():
        assert spread_of(brokers) == min(len(brokers), 3)
        assert moves_between(lists[tp], brokers) == lacking[tp]
