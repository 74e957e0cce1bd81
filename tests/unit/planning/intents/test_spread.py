"""Plans that even out what brokers hold: filling, spreading, shedding."""

from __future__ import annotations

from collections import Counter

import pytest

from ktui.planning.intents.drain import shed
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Wishes
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from support.layouts import healthy, layout, left, targets

ANY = Wishes()


def arrivals(made: MadePlan) -> Counter[int]:
    """Count the replicas that each broker gets."""
    return Counter(
        broker
        for each in made.plan.partitions
        for broker in {*each.replicas} - {*each.original_replicas}
    )


def test_a_new_broker_gets_its_share_of_the_replicas_from_the_fullest() -> None:
    partitions = healthy(*[(1, 2)] * 4, *[(1, 3)] * 2)
    made = fill(layout(partitions, brokers=[1, 2, 3, 4]), [4], ANY)

    assert arrivals(made) == {4: 3}
    assert all(1 not in each.replicas for each in made.plan.partitions)


def test_a_new_broker_gets_its_share_of_the_bytes_too() -> None:
    sizes = {"a-0": 10, "a-1": 10, "a-2": 1, "a-3": 1}
    made = fill(layout(healthy((1,), (1,), (1,), (1,)), brokers=[1, 2], sizes=sizes), [2], ANY)

    assert made.moves == 2
    assert made.bytes == 11


def test_a_broker_of_half_the_weight_gets_half_as_much() -> None:
    cluster = layout(healthy(*[(1,)] * 9), brokers=[1, 2], weights={2: 0.5})

    assert fill(cluster, [2], ANY).moves == 3


def test_no_partition_loses_a_rack_to_a_broker_that_is_filled() -> None:
    cluster = layout(healthy((1, 2), (1, 2), (1, 2)), brokers=[1, 2, 3], racks="aba")
    made = fill(cluster, [3], ANY)

    assert targets(made).keys() == {"a-0", "a-1"}
    assert {each.replicas for each in made.plan.partitions} == {(2, 3)}


def test_a_broker_that_has_its_share_is_not_filled() -> None:
    with pytest.raises(CannotMake, match="Broker 2 has its share of the replicas already"):
        fill(layout(healthy((1,), (2,)), brokers=[1, 2]), [2], ANY)


def test_a_broker_that_cannot_be_filled_is_named_with_what_it_lacks() -> None:
    made = fill(layout(healthy((1,), (1,)), brokers=[1, 2], room={2: 0}), [2], ANY)

    assert left(made) == {("None", 2, "room")}
    assert made.left[0].amount == 1


def test_the_fewest_bytes_that_make_brokers_even_are_copied() -> None:
    sizes = {"a-0": 50, "a-1": 30, "a-2": 20, "a-3": 100}
    cluster = layout(healthy((1,), (1,), (1,), (1,)), brokers=[1, 2], sizes=sizes)

    assert spread(cluster, ANY, tolerance=0).bytes == 100
    assert spread(cluster, ANY, tolerance=0.2).bytes == 80


def test_replicas_become_even_with_the_smallest_ones() -> None:
    sizes = {"a-0": 5, "a-1": 1, "a-2": 2, "a-3": 9}
    cluster = layout(healthy((1,), (1,), (1,), (1,)), brokers=[1, 2], sizes=sizes)

    assert targets(spread(cluster, ANY, by=By.REPLICAS)).keys() == {"a-1", "a-2"}


def test_brokers_that_are_even_stay_as_they_are() -> None:
    with pytest.raises(CannotMake, match="within 10% of its share of the bytes already"):
        spread(layout(healthy((1,), (2,)), brokers=[1, 2]), ANY)
    with pytest.raises(CannotMake, match="The tolerance is 2; give a share from 0 to 1"):
        spread(layout(healthy((1,), (2,)), brokers=[1, 2]), ANY, tolerance=2)


def test_only_the_named_brokers_become_even() -> None:
    cluster = layout(healthy((1,), (1,), (3,), (3,), (3,)), brokers=[1, 2, 3])

    assert arrivals(spread(cluster, ANY, brokers=[1, 2])) == {2: 1}


def test_a_full_broker_sheds_the_fewest_bytes_that_are_enough() -> None:
    sizes = {"a-0": 50, "a-1": 30, "a-2": 25}
    cluster = layout(healthy((1,), (1,), (1,)), brokers=[1, 2], sizes=sizes)

    assert targets(shed(cluster, 1, 52, ANY)).keys() == {"a-1", "a-2"}
    assert targets(shed(cluster, 1, 50, ANY)).keys() == {"a-0"}


def test_what_a_broker_cannot_shed_is_named_in_bytes() -> None:
    cluster = layout(healthy((1,), (1,)), brokers=[1, 2], sizes={"a-0": 6, "a-1": 5}, room={2: 8})
    made = shed(cluster, 1, 10, ANY)

    assert made.bytes == 6
    assert [(each.broker, each.amount) for each in made.left] == [(1, 4)]
    with pytest.raises(CannotMake, match="nothing to do"):
        shed(cluster, 1, 0, ANY)
