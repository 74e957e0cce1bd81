"""Plans made from intentions move the least that does, as trying everything shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from math import ceil, floor, inf

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.intents.drain import drain, shed
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import leaders
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Wishes
from ktui.planning.intents.placing import rack_repair
from ktui.planning.intents.rack_repair import replication_factor
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import spread
from ktui.planning.replication_factor import BrokerPool

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
