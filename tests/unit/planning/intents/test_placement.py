"""Plans that place topics by rules."""

from __future__ import annotations

import pytest

from ktui.planning.intents.made_plan import CannotMake, Wishes
from ktui.planning.intents.placement import Rule, Strategy, placement
from support.layouts import healthy, layout, left, targets

ANY = Wishes()


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
