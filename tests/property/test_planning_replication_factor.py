"""Whatever the replicas, racks and brokers, a new factor is reached with the least change."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, product

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.replication_factor import (
    BrokerPool,
    FactorProblem,
    PresentReplicas,
    change_replication_factor,
)

BROKERS = range(1, 7)
Partitions = dict[TopicPartition, PresentReplicas]
Targets = dict[TopicPartition, Brokers]


class Case(msgspec.Struct, frozen=True):
    """Partitions of one topic or two, and the cluster that they are in."""

    partitions: Partitions
    factor: int
    pool: BrokerPool

    def targets(self) -> Targets:
        return change_replication_factor(self.partitions, self.factor, self.pool)

    @property
    def growing(self) -> Partitions:
        return {tp: p for tp, p in self.partitions.items() if len(p.brokers) < self.factor}

    @property
    def shrinking(self) -> Partitions:
        return {tp: p for tp, p in self.partitions.items() if len(p.brokers) > self.factor}


@st.composite
def cases(draw: st.DrawFn, *, most: int = 5, topics: int = 2) -> Case:
    some = st.sets(st.sampled_from(BROKERS))
    online = frozenset(draw(st.sets(st.sampled_from(BROKERS), min_size=1)))
    racks = st.sampled_from(["a", "b", "c", None])
    pool = BrokerPool(
        online=online,
        cordoned=frozenset(draw(some)) if draw(st.booleans()) else frozenset(),
        racks={broker: draw(racks) for broker in BROKERS},
        replicas={broker: draw(st.integers(0, 9)) for broker in BROKERS},
    )
    partitions = {}
    for number in range(draw(st.integers(1, most))):
        brokers = tuple(draw(st.lists(st.sampled_from(BROKERS), unique=True, max_size=4)))
        dead = frozenset(brokers) - online
        behind = frozenset(brokers) & draw(some) - dead
        topic = draw(st.sampled_from(["orders", "payments"][:topics]))
        partitions[TopicPartition(topic, number)] = PresentReplicas(brokers, behind, dead)
    return Case(partitions, draw(st.integers(1, 4)), pool)


def planned(case: Case) -> Targets:
    """The targets; none at all where there are too few brokers, which has to be true."""
    try:
        return case.targets()
    except FactorProblem:
        assert any(
            case.factor > len(case.pool.online)
            or case.factor > len({*p.brokers} | {*case.pool.targets})
            for p in case.growing.values()
        )
        return {}


@given(cases())
def test_every_partition_gets_the_factor_without_doubles_and_nothing_else_moves(case: Case) -> None:
    for tp, target in planned(case).items():
        before = case.partitions[tp].brokers
        assert len(target) == len({*target}) == case.factor
        if tp in case.shrinking:
            assert target == tuple(broker for broker in before if broker in target)
        elif before:
            assert target[: len(before)] == before
        assert {*target} - {*before} <= {*case.pool.targets}


@given(cases())
def test_no_live_in_sync_replica_goes_while_a_dead_one_stays_and_a_live_leader_stays(
    case: Case,
) -> None:
    targets = planned(case)
    for tp, before in case.shrinking.items() if targets else ():
        gone, stay = {*before.brokers} - {*targets[tp]}, {*targets[tp]}
        if stay & before.dead:
            assert gone <= before.dead
        if before.brokers[0] not in before.dead:
            assert targets[tp][0] == before.brokers[0]


@given(cases())
def test_each_grown_partition_is_in_as_many_racks_as_its_brokers_allow(case: Case) -> None:
    targets = planned(case)
    for tp, before in case.growing.items() if targets else ():
        best = max(case.pool.spread((*before.brokers, *new)) for new in choices(case, before))
        assert case.pool.spread(targets[tp]) == best


@given(cases())
def test_replicas_in_sync_that_share_a_rack_go_before_those_that_do_not(case: Case) -> None:
    targets = planned(case)
    for tp, before in case.shrinking.items() if targets else ():
        if before.dead or before.behind:
            continue
        others = combinations(before.brokers[1:], case.factor - 1)
        best = max(case.pool.spread((before.brokers[0], *kept)) for kept in others)
        assert case.pool.spread(targets[tp]) == best


@given(cases(most=3, topics=1))
def test_a_topic_is_spread_as_evenly_as_racks_and_present_replicas_allow(case: Case) -> None:
    targets = planned(case)
    if not targets:
        return
    fixed = {tp: targets[tp] for tp in case.partitions if tp not in case.growing}

    best = min(unevenness(case, fixed | grown) for grown in all_growths(case))

    assert unevenness(case, targets) == best


@given(cases(), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_in_which_the_cluster_was_read(
    case: Case, dice: random.Random
) -> None:
    shuffled = list(case.partitions.items())
    dice.shuffle(shuffled)

    again = msgspec.structs.replace(case, partitions=dict(shuffled))

    assert planned(again) == planned(case)


@given(cases())
def test_the_plan_of_a_plan_changes_nothing(case: Case) -> None:
    targets = planned(case)
    then = {tp: PresentReplicas(target) for tp, target in targets.items()}

    assert change_replication_factor(then, case.factor, case.pool) == targets


def choices(case: Case, before: PresentReplicas) -> Iterator[Brokers]:
    """Yield the sets of new replicas that a partition can get."""
    usable = [broker for broker in case.pool.targets if broker not in before.brokers]
    yield from combinations(usable, case.factor - len(before.brokers))


def all_growths(case: Case) -> Iterator[Targets]:
    """Yield every way to grow the partitions, each into as many racks as possible."""
    ways = []
    for before in case.growing.values():
        grown = [(*before.brokers, *new) for new in choices(case, before)]
        best = max(map(case.pool.spread, grown))
        ways.append([replicas for replicas in grown if case.pool.spread(replicas) == best])
    for chosen in product(*ways):
        yield dict(zip(case.growing, chosen, strict=True))


def unevenness(case: Case, targets: Mapping[TopicPartition, Brokers]) -> int:
    """The sum of squares of brokers' replicas: the lower, the more evenly they are spread."""
    counts = Counter(broker for replicas in targets.values() for broker in replicas)
    return sum(counts[broker] ** 2 for broker in case.pool.targets)
