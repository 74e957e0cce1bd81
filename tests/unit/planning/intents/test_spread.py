"""Intents that spread replicas, leaders and bytes."""

from collections import Counter

import msgspec
import pytest

from ktui.planning.intents.drain import bytes_above, replication_factor
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Wishes, left_lines
from ktui.planning.intents.placing import Rule, Strategy, placement, rack_repair
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from ktui.planning.replication_factor import BrokerPool
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


def rule(strategy: Strategy, topics: str = "*", **lists: tuple[int, ...]) -> Rule:
    named = {int(number.strip("p")): brokers for number, brokers in lists.items()}
    return Rule(topics=topics, strategy=strategy, lists=named)


def test_the_first_rule_that_a_topic_matches_counts() -> None:
    cluster = layout(
        healthy((1, 4), topic="logs") | healthy((1, 4), topic="orders"), racks="abcabc"
    )
    made = placement(cluster, [rule(Strategy.ANY, "logs"), rule(Strategy.CROSS_RACK, "[lo]*")], ANY)

    assert targets(made).keys() == {"orders-0"}


def test_all_replicas_of_a_partition_gather_on_the_rack_that_takes_the_fewest_moves() -> None:
    cluster = layout(healthy((1, 2, 4)), brokers=range(1, 8), racks="abaabba")

    assert targets(placement(cluster, [rule(Strategy.IN_RACK)], ANY)) == {"a-0": (1, 4, 3)}


def test_a_partition_that_fits_on_no_single_rack_is_named() -> None:
    cluster = layout(healthy((1, 2, 3)), brokers=[1, 2, 3], racks="aab")
    made = placement(cluster, [rule(Strategy.IN_RACK)], ANY)

    assert left(made) == {("a-0", None, "no broker")}


def test_more_replicas_than_racks_cannot_each_have_another() -> None:
    cluster = layout(healthy((1, 2, 3)), brokers=[1, 2, 3], racks="aab")

    assert left(placement(cluster, [rule(Strategy.CROSS_RACK)], ANY)) == {("a-0", None, "rack")}


def test_the_leaders_of_a_topic_are_balanced_without_a_move() -> None:
    made = placement(
        layout(healthy(*[(1, 2)] * 4), brokers=[1, 2]), [rule(Strategy.BALANCED_LEADERS)], ANY
    )

    assert (made.moves, made.leader_changes) == (0, 2)


def test_a_partition_gets_the_replicas_that_its_rule_names() -> None:
    cluster = layout(healthy((1, 2), (1, 2)))
    made = placement(cluster, [rule(Strategy.STATIC, p0=(3, 1, 4))], ANY)

    assert targets(made) == {"a-0": (3, 1, 4)}
    assert (made.moves, made.leader_changes) == (2, 1)
    no_moves = placement(cluster, [rule(Strategy.STATIC, p0=(3, 1))], Wishes(max_moves=0))
    assert left(no_moves) == {("a-0", None, "max moves")}


def test_a_rule_that_cannot_be_kept_is_refused() -> None:
    cluster = layout(healthy((1, 2)), down=[6])
    with pytest.raises(CannotMake, match="Broker 6 is down"):
        placement(cluster, [rule(Strategy.STATIC, p0=(6, 1))], ANY)
    with pytest.raises(CannotMake, match="name each broker once"):
        placement(cluster, [rule(Strategy.STATIC, p0=(1, 1))], ANY)
    with pytest.raises(CannotMake, match="Topic a has no partition 7"):
        placement(cluster, [rule(Strategy.STATIC, p7=(1, 2))], ANY)
    with pytest.raises(CannotMake, match="names no replicas"):
        placement(cluster, [rule(Strategy.STATIC)], ANY)
    with pytest.raises(CannotMake, match="placed by its rule already"):
        placement(cluster, [rule(Strategy.ANY)], ANY)


def test_topics_get_another_replication_factor() -> None:
    cluster = layout(healthy((1, 2), (2, 3, 1)) | healthy((1, 2), topic="other"))
    made = replication_factor(cluster, ["a"], 3, ANY)

    assert targets(made).keys() == {"a-0"}
    assert targets(made)["a-0"][:2] == (1, 2)
    with pytest.raises(CannotMake, match=r"no topic othr; did you mean other\?"):
        replication_factor(cluster, ["othr"], 3, ANY)
    with pytest.raises(CannotMake, match="Every partition has 2 replicas already"):
        replication_factor(cluster, ["other"], 2, ANY)
    with pytest.raises(CannotMake, match="at least 1, not 0"):
        replication_factor(cluster, ["other"], 0, ANY)
    with pytest.raises(CannotMake, match="cannot have 7 replicas: 6 brokers are online"):
        replication_factor(cluster, ["other"], 7, ANY)


def test_a_dead_replica_goes_first_when_there_are_too_many() -> None:
    cluster = layout(healthy((1, 2, 3)), down=[2])

    assert targets(replication_factor(cluster, ["a"], 2, ANY)) == {"a-0": (1, 3)}


def test_a_new_replica_goes_where_there_is_room() -> None:
    cluster = layout(healthy((1,)), brokers=[1, 2, 3, 4], room={2: 0, 3: 0})

    assert targets(replication_factor(cluster, ["a"], 2, ANY)) == {"a-0": (1, 4)}


def test_a_partition_that_gets_too_few_replicas_is_named() -> None:
    cluster = layout(healthy((1,), (1,)), brokers=[1, 2], room={2: 1})
    made = replication_factor(cluster, ["a"], 2, ANY)

    assert made.moves == 1
    assert left(made) == {("a-1", None, "room")}
    assert [*left_lines(made.left)] == ["1 partition stays as it is: no broker has room (a-1)."]


def test_a_partition_gets_the_racks_that_it_lacks_and_its_leader_stays() -> None:
    cluster = layout(healthy((1, 4, 2), (1, 2, 3)), racks="abcabc")
    made = rack_repair(cluster, ANY)

    assert targets(made) == {"a-0": (1, 2, 6)}
    assert made.leader_changes == 0


def test_racks_that_are_as_many_as_they_can_be_need_no_repair() -> None:
    with pytest.raises(CannotMake, match="nothing to repair"):
        rack_repair(layout(healthy((1, 2, 4)), brokers=[1, 2, 4], racks="aba"), ANY)
    with pytest.raises(CannotMake, match=r"set broker\.rack"):
        rack_repair(layout(healthy((1, 2))), ANY)


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


def test_a_broker_that_is_last_already_is_not_demoted() -> None:
    with pytest.raises(CannotMake, match="not last already"):
        demote(layout(healthy((2, 1))), {1}, ANY)


def disk_use_layout(room: dict[int, int], disks: dict[int, int]) -> Layout:
    known = frozenset({1, 2})
    pool = BrokerPool(online=known)
    return Layout(partitions={}, pool=pool, known=known, room=room, disks=disks)


@pytest.mark.parametrize(("share", "above"), [(0.8, 100), (0.85, 50), (0.0, 900), (0.8999, 1)])
def test_what_is_in_use_above_the_share_is_to_be_freed(share: float, above: int) -> None:
    assert bytes_above(disk_use_layout({1: 100}, {1: 1000}), 1, share) == above


def test_nothing_is_to_be_freed_where_no_more_is_in_use() -> None:
    with pytest.raises(CannotMake, match="90% of the disks of broker 1 is in use"):
        bytes_above(disk_use_layout({1: 100}, {1: 1000}), 1, 0.9)


@pytest.mark.parametrize(("room", "disks"), [({}, {1: 1000}), ({1: 10}, {}), ({1: 0}, {1: 0})])
def test_without_the_size_of_its_disks_nobody_can_say(
    room: dict[int, int], disks: dict[int, int]
) -> None:
    with pytest.raises(CannotMake, match="give the bytes to free"):
        bytes_above(disk_use_layout(room, disks), 1, 0.8)


def test_a_broker_that_the_cluster_does_not_have_is_named() -> None:
    with pytest.raises(CannotMake, match="no broker 9"):
        bytes_above(disk_use_layout({}, {}), 9, 0.8)
