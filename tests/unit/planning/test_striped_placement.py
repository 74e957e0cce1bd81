"""Placement of replicas in stripes, as Kafka's tool proposes it."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.replication_factor import (
    BrokerRacks,
    PlacementProblem,
    TopicSize,
    place_topics,
    topic_sizes,
    usable_racks,
)
from support.java_random import JavaRandom, hash_order

SEEDS = st.integers(0, 2**32)
RACK_SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


class Drawn(msgspec.Struct, frozen=True):
    """The replicas that Kafka 4.3.1 places with java.util.Random and this seed."""

    seed: int
    brokers: dict[int, str | None]
    replication_factor: int
    replicas: str


def in_racks(**racks: Sequence[int]) -> dict[int, str | None]:
    return {broker: rack for rack in hash_order(racks) for broker in racks[rack]}


DRAWN_BY_KAFKA = {
    "one rack, three times round": Drawn(
        0,
        dict.fromkeys(range(5)),
        3,
        "[0,1,2][1,2,3][2,3,4][3,4,0][4,0,1][1,0,3][0,3,2][3,2,4][2,4,1][4,1,0][3,4,2][4,2,1]",
    ),
    "brokers from 1": Drawn(
        42, dict.fromkeys(range(1, 4)), 2, "[3,1][1,2][2,3][1,2][2,3][3,1][2,1][1,3]"
    ),
    "three racks": Drawn(
        7,
        in_racks(A=[0, 1], B=[2, 3], C=[4, 5]),
        3,
        "[3,5,1][4,0,2][1,3,5][2,4,0][5,1,3][0,2,4][1,3,5][2,4,0]",
    ),
    "uneven racks": Drawn(
        3, in_racks(**{"zone-b": [4], "zone-a": [0, 3]}), 2, "[3,4][4,0][3,4][4,3]"
    ),
    "one broker": Drawn(1, {5: None}, 1, "[5][5][5]"),
}


def placed(
    brokers: BrokerRacks, partitions: int, replication_factor: int, seed: int = 0
) -> list[Brokers]:
    size = TopicSize(partitions, replication_factor)
    draw = random.Random(seed).randrange  # noqa: S311 - a test's dice
    return list(place_topics({"orders": size}, brokers, draw).values())


def rounds(replicas: Sequence[Brokers], brokers: int) -> Iterator[Sequence[Brokers]]:
    """Yield the partitions of each whole round, in which each broker begins a stripe."""
    for start in range(0, len(replicas) - brokers + 1, brokers):
        yield replicas[start : start + brokers]


@pytest.mark.parametrize("name", DRAWN_BY_KAFKA)
def test_the_same_random_numbers_place_replicas_as_kafka_does(name: str) -> None:
    drawn = DRAWN_BY_KAFKA[name]
    size = TopicSize(drawn.replicas.count("["), drawn.replication_factor)
    replicas = place_topics({"orders": size}, drawn.brokers, JavaRandom(drawn.seed).next_int)
    assert "".join(f"[{','.join(map(str, ids))}]" for ids in replicas.values()) == drawn.replicas


def test_every_topic_is_placed_by_itself_in_partitions_from_zero() -> None:
    sizes = {"orders": TopicSize(2, 3), "audit": TopicSize(1, 1), "none": TopicSize(0, 1)}
    replicas = place_topics(sizes, dict.fromkeys((1, 2, 3)))
    assert list(replicas) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
        TopicPartition("audit", 0),
    ]
    assert [len(ids) for ids in replicas.values()] == [3, 3, 1]


def test_only_the_given_brokers_are_used() -> None:
    assert {b for ids in placed(dict.fromkeys((0, 1, 3)), 20, 2) for b in ids} == {0, 1, 3}


def test_without_a_seed_placements_differ() -> None:
    sizes, brokers = {"orders": TopicSize(40, 3)}, dict.fromkeys(range(20))
    assert len({tuple(place_topics(sizes, brokers).values()) for _ in range(5)}) > 1


@given(RACK_SIZES, st.integers(0, 60), st.data(), SEEDS)
def test_no_partition_has_a_broker_twice_and_each_uses_as_many_racks_as_it_can(
    sizes: list[int], partitions: int, data: st.DataObject, seed: int
) -> None:
    brokers = racks_of_sizes(sizes)
    factor = data.draw(st.integers(1, len(brokers)))
    replicas = placed(brokers, partitions, factor, seed)
    assert len(replicas) == partitions
    for ids in replicas:
        assert len(ids) == len(set(ids)) == factor
        assert len({brokers[b] for b in ids}) == min(factor, len(sizes))


@given(st.integers(1, 8), st.integers(1, 4), st.data(), SEEDS)
def test_without_racks_every_round_uses_each_broker_alike(
    count: int, times: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, count))
    replicas = placed(dict.fromkeys(range(count)), times * count, factor, seed)
    for stripe in rounds(replicas, count):
        assert Counter(ids[0] for ids in stripe) == dict.fromkeys(range(count), 1)
        assert Counter(b for ids in stripe for b in ids) == dict.fromkeys(range(count), factor)


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 4), st.data(), SEEDS)
def test_in_every_round_racks_of_one_size_lead_and_hold_alike(
    racks: int, brokers_each: int, times: int, data: st.DataObject, seed: int
) -> None:
    brokers = racks_of_sizes([brokers_each] * racks)
    factor = data.draw(st.integers(1, racks))
    replicas = placed(brokers, times * len(brokers), factor, seed)
    for stripe in rounds(replicas, len(brokers)):
        leaders = Counter(brokers[ids[0]] for ids in stripe)
        held = Counter(brokers[b] for ids in stripe for b in ids)
        assert leaders == dict.fromkeys(set(brokers.values()), brokers_each)
        assert held == dict.fromkeys(set(brokers.values()), brokers_each * factor)


def racks_of_sizes(sizes: Sequence[int]) -> dict[int, str | None]:
    racks = [f"rack-{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return dict(enumerate(racks))


@pytest.mark.parametrize(
    ("factor", "brokers", "message"),
    [
        (0, 2, "Invalid replication factor 0: the replication factor must be positive."),
        (-1, 0, "Invalid replication factor -1: the replication factor must be positive."),
        (1, 0, "All brokers are currently fenced, or have all their log directories cordoned."),
        (
            3,
            2,
            (
                "The target replication factor of 3 cannot be reached because only 2 broker(s) are "
                "registered or some brokers have all their log directories cordoned."
            ),
        ),
    ],
)
def test_too_few_brokers_are_reported_in_kafkas_words(
    factor: int, brokers: int, message: str
) -> None:
    with pytest.raises(PlacementProblem) as problem:
        placed(dict.fromkeys(range(brokers)), 1, factor)
    assert str(problem.value) == message


@pytest.mark.parametrize(
    ("brokers", "used"),
    [
        ({0: "a", 1: "a", 2: "b"}, {0: "a", 1: "a", 2: "b"}),
        ({0: None, 1: None}, {0: None, 1: None}),
        ({}, {}),
    ],
)
def test_racks_are_used_if_every_broker_or_none_has_one(
    brokers: Mapping[int, str | None], used: Mapping[int, str | None]
) -> None:
    assert usable_racks(brokers, rack_aware=True) == used


def test_mixed_racks_are_refused_unless_racks_are_off() -> None:
    mixed = {0: "rack0", 1: "rack0", 2: None, 3: "rack1"}
    with pytest.raises(PlacementProblem) as problem:
        usable_racks(mixed, rack_aware=True)
    assert str(problem.value) == (
        "Not all brokers have rack information. Add --disable-rack-aware in command line to make "
        "replica assignment without rack information."
    )
    assert usable_racks(mixed, rack_aware=False) == dict.fromkeys(range(4))


def test_racks_that_are_off_have_no_influence() -> None:
    racked = usable_racks({0: "a", 1: "a", 2: "b"}, rack_aware=False)
    assert placed(racked, 12, 2, seed=5) == placed(dict.fromkeys(range(3)), 12, 2, seed=5)


def test_a_topic_keeps_its_number_of_partitions_and_the_replicas_of_its_lowest_one() -> None:
    current = {
        TopicPartition("foo", 1): (1, 2, 3),
        TopicPartition("foo", 0): (0, 1),
        TopicPartition("bar", 2): (3,),
    }
    assert topic_sizes(current) == {"foo": TopicSize(2, 2), "bar": TopicSize(1, 1)}
