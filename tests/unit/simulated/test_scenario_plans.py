"""The targets that an operator's intent turns into, replica by replica."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.simulated.layout import TopicSpec
from ktui.simulated.scenario.targets import (
    ScenarioTargets,
    TooFewBrokers,
    alternate_racks,
    drain_targets,
    expand_targets,
    leaders_off_targets,
    place_replicas,
    replication_factor_targets,
)

NO_RACKS = dict.fromkeys(range(1, 7))
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def topic(name: str, partitions: int, factor: int, brokers: int = 6) -> TopicSpec:
    return TopicSpec(name=name, replicas=place_replicas(partitions, factor, range(1, brokers + 1)))


def after(topics: list[TopicSpec], targets: ScenarioTargets) -> list[tuple[int, ...]]:
    return [
        targets.get(TopicPartition(each.name, number), replicas)
        for each in topics
        for number, replicas in enumerate(each.replicas)
    ]


@given(st.integers(1, 60), st.integers(1, 4), st.sets(st.integers(1, 6), min_size=1, max_size=2))
def test_a_drain_empties_the_broker_and_no_partition_loses_or_doubles_a_replica(
    partitions: int, factor: int, off: set[int]
) -> None:
    topics = [topic("t", partitions, factor)]
    targets = drain_targets(topics, {"t"}, NO_RACKS, off)
    result = after(topics, targets)

    assert all(len(replicas) == factor == len(set(replicas)) for replicas in result)
    assert not off & {broker for replicas in result for broker in replicas}
    for tp, target in targets.items():
        for before, now in zip(topics[0].replicas[tp.partition], target, strict=True):
            assert before in off or before == now


def test_replicas_of_a_drained_broker_are_spread_evenly() -> None:
    topics = [topic("t", 60, 3)]
    loads = Counter(b for replicas in after(topics, drain_targets(topics, {"t"}, NO_RACKS, {3}))
                    for b in replicas)  # fmt: skip

    assert max(loads.values()) - min(loads.values()) <= 1


def test_a_drained_replica_moves_within_its_rack_so_that_no_rack_has_two() -> None:
    topics = [topic("t", 30, 3)]
    for replicas in after(topics, drain_targets(topics, {"t"}, RACKS, {3})):
        assert len({RACKS[broker] for broker in replicas}) == 3


def test_only_the_named_topics_move() -> None:
    topics = [topic("a", 12, 3), topic("b", 12, 3)]

    assert {tp.topic for tp in drain_targets(topics, {"b"}, NO_RACKS, {3})} == {"b"}


def test_a_drain_that_leaves_too_few_brokers_is_refused() -> None:
    with pytest.raises(TooFewBrokers, match="every remaining broker already has a replica of t-"):
        drain_targets([topic("t", 6, 3)], {"t"}, NO_RACKS, {1, 2, 3, 4})


@given(st.integers(1, 120), st.integers(1, 4))
def test_new_brokers_get_their_share_and_no_partition_doubles_a_replica(
    partitions: int, factor: int
) -> None:
    topics = [topic("t", partitions, factor, brokers=4)]
    result = after(topics, expand_targets(topics, {"t"}, NO_RACKS, (5, 6)))
    loads = Counter(b for replicas in result for b in replicas)

    assert all(len(replicas) == factor == len(set(replicas)) for replicas in result)
    assert abs(loads[5] - partitions * factor / 6) <= 1
    assert abs(loads[6] - partitions * factor / 6) <= 1


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 6))
def test_a_change_of_replication_factor_keeps_existing_replicas_in_order(
    partitions: int, factor: int, new_factor: int
) -> None:
    topics = [topic("t", partitions, factor)]
    for before, now in zip(
        topics[0].replicas,
        after(topics, replication_factor_targets(topics, {"t"}, RACKS, new_factor)),
        strict=True,
    ):
        assert len(now) == new_factor == len(set(now))
        assert now[: min(factor, new_factor)] == before[: min(factor, new_factor)]


def test_leadership_is_spread_evenly_over_existing_replicas() -> None:
    topics = [TopicSpec(name="t", replicas=((1, 2, 3),) * 8)]
    result = after(topics, leaders_off_targets(topics, {"t"}, {1}))

    assert Counter(replicas[0] for replicas in result) == {2: 4, 3: 4}
    assert all(set(replicas) == {1, 2, 3} for replicas in result)


def test_a_single_replica_cannot_give_up_leadership() -> None:
    topics = [TopicSpec(name="t", replicas=((1,), (1, 2)))]

    assert leaders_off_targets(topics, {"t"}, {1}) == {TopicPartition("t", 1): (2, 1)}


def test_brokers_are_ordered_with_alternating_racks() -> None:
    assert alternate_racks({1: "a", 2: "a", 3: "b", 4: "b", 5: None}) == [1, 3, 5, 2, 4]
