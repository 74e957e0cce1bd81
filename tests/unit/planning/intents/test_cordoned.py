"""No plan names a cordoned broker where Kafka refuses such targets, from 4.4 on."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import Brokers
from ktui.planning.intents.drain import drain
from ktui.planning.intents.leader_flow import demote
from ktui.planning.intents.made_plan import MadePlan, Wishes, left_lines
from ktui.planning.intents.rack_repair import replication_factor
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from support.layouts import healthy, layout, left, targets

ANY = Wishes()


def drained(*lists: Brokers, gone: set[int]) -> MadePlan:
    return drain(layout(healthy(*lists), brokers=range(1, 5), refused=[4]), gone, ANY)


def test_a_cordoned_broker_is_drained() -> None:
    made = drained((4, 1), (2, 4), gone={4})

    assert [*targets(made)] == ["a-0", "a-1"]
    assert not any(4 in brokers for brokers in targets(made).values())
    assert made.left == ()


def test_another_broker_is_drained_of_all_that_shares_no_partition_with_a_cordoned_one() -> None:
    made = drained((1, 2), (1, 4), gone={1})

    assert targets(made) == {"a-0": (2, 3)}
    assert left(made) == {("a-1", 1, "cordoned")}
    (line,) = left_lines(made.left)
    assert line == (
        "1 replica stays as it is: its list would name a cordoned broker, and Kafka refuses every "
        "such list; lift the cordon first: ktui broker uncordon 4 (a-1 on broker 1)."
    )


def test_both_brokers_of_a_partition_are_drained_or_neither() -> None:
    room = {1: 0, 2: 0, 3: 1}
    cluster = layout(healthy((1, 4)), brokers=range(1, 5), refused=[4], room=room)

    made = drain(cluster, {1, 4}, ANY)

    assert targets(made) == {}
    assert {why for _, _, why in left(made)} >= {"cordoned"}


@pytest.mark.parametrize("demoted", [1, 4])
def test_no_order_is_changed_that_has_a_cordoned_broker(demoted: int) -> None:
    made = demote(layout(healthy((1, 4), (4, 1)), refused=[4]), [demoted], ANY)

    assert targets(made) == {}
    assert {why for _, _, why in left(made)} == {"cordoned"}


@pytest.mark.parametrize("factor", [2, 4])
def test_another_replication_factor_leaves_partitions_on_a_cordoned_broker(factor: int) -> None:
    cluster = layout(healthy((1, 2, 4), (1, 2, 3)), refused=[4])

    made = replication_factor(cluster, ["a"], factor, ANY)

    assert [*targets(made)] == ["a-1"]
    assert left(made) == {("a-0", None, "cordoned")}


def test_a_broker_is_filled_from_a_cordoned_one_and_not_beside_it() -> None:
    cluster = layout(healthy((1, 4), (1, 4), (1, 4)), brokers=range(1, 5), refused=[4])

    made = fill(cluster, [3], ANY)

    assert targets(made)
    assert not any(4 in brokers for brokers in targets(made).values())


@pytest.mark.parametrize("by", [By.BYTES, By.REPLICAS])
def test_a_cordoned_broker_gives_in_a_spread(by: By) -> None:
    cluster = layout(healthy(*[(1, 4)] * 4), brokers=range(1, 5), refused=[4])

    made = spread(cluster, ANY, None, by)

    assert targets(made)
    assert not any(4 in brokers for brokers in targets(made).values())


def test_where_kafka_accepts_it_a_cordoned_broker_keeps_its_replicas_in_a_drain() -> None:
    cluster = layout(healthy((1, 4)), brokers=range(1, 5), cordoned=[4])

    assert 4 in targets(drain(cluster, {1}, ANY))["a-0"]
