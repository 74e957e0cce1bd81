"""Plans that change only who leads, and copy nothing."""

from __future__ import annotations

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import CannotMake, Wishes
from ktui.planning.intents.spread import By, spread
from support.layouts import healthy, layout, left, targets

ANY = Wishes()


def test_leaders_become_even_by_changing_the_order_of_as_few_partitions_as_possible() -> None:
    made = leaders(layout(healthy((1, 2), (1, 2), (1, 3), (1, 3)), brokers=[1, 2, 3]), ANY)

    assert made.moves == 0
    assert made.leader_changes == 2
    assert sorted(each.replicas for each in made.plan.partitions) == [(2, 1), (3, 1)]


def test_a_leader_is_passed_on_over_a_third_broker_where_there_is_no_direct_way() -> None:
    made = leaders(layout(healthy((1, 2), (1, 2), (2, 3)), brokers=[1, 2, 3]), ANY)

    assert made.leader_changes == 2
    assert not made.left


def test_a_broker_of_twice_the_weight_leads_twice_as_many() -> None:
    cluster = layout(healthy(*[(1, 2)] * 6), brokers=[1, 2], weights={1: 2.0})

    assert leaders(cluster, ANY).leader_changes == 2


def test_a_replica_out_of_sync_is_not_made_the_leader() -> None:
    partitions = healthy((1, 2), (1, 2))
    for tp, state in partitions.items():
        partitions[tp] = msgspec.structs.replace(state, isr=(1,))

    with pytest.raises(CannotMake, match="Every broker leads its share"):
        leaders(layout(partitions, brokers=[1, 2]), ANY)


def test_no_more_leaders_change_than_are_allowed() -> None:
    cluster = layout(healthy(*[(1, 2)] * 6), brokers=[1, 2])
    made = leaders(cluster, Wishes(max_leader_changes=1))

    assert made.leader_changes == 1
    assert left(made) == {("None", 1, "max leader changes"), ("None", 2, "max leader changes")}


def test_leaders_within_the_tolerance_stay() -> None:
    cluster = layout(healthy(*[(1, 2)] * 6, *[(2, 1)] * 4), brokers=[1, 2])

    with pytest.raises(CannotMake, match="already"):
        spread(cluster, ANY, by=By.LEADERS, tolerance=0.2)
    assert spread(cluster, ANY, by=By.LEADERS, tolerance=0.1).leader_changes == 1


def test_a_demoted_broker_comes_last_and_others_lead_in_its_place() -> None:
    made = demote(layout(healthy((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1))), {1}, ANY)

    assert targets(made) == {"a-0": (3, 2, 1), "a-1": (3, 2, 1), "a-2": (2, 3, 1)}
    assert made.moves == 0


def test_a_demoted_broker_still_leads_where_no_other_replica_is_in_sync() -> None:
    partitions = healthy((1, 2), (1, 2))
    tp = TopicPartition("a", 1)
    partitions[tp] = msgspec.structs.replace(partitions[tp], isr=(1,))
    made = demote(layout(partitions), {1}, ANY)

    assert targets(made) == {"a-0": (2, 1)}
    assert left(made) == {("a-1", 1, "last replica")}


def test_a_broker_that_is_last_already_is_not_demoted() -> None:
    with pytest.raises(CannotMake, match="not last already"):
        demote(layout(healthy((2, 1))), {1}, ANY)
