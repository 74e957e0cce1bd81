"""Throttles that another program set for just this plan are told from those for anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cli.reassign.plan_throttles import throttles_of_plan
from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
    SettingKey,
    broker_resource,
    topic_resource,
)

PLAN = {TopicPartition("orders", 0): (3, 2), TopicPartition("orders", 1): (1, 3)}
LEADERS = (topic_resource("orders"), LEADER_REPLICAS)
FOLLOWERS = (topic_resource("orders"), FOLLOWER_REPLICAS)
LISTS = {LEADERS: "0:1,0:2,1:1,1:2", FOLLOWERS: "0:3,1:3"}
FOREIGN_LISTS = ["*", "7:3", "0:3,7:3", "0:1", "words", "0:3:3", "99999999999:1"]


def rates(value: str, *brokers: int) -> dict[SettingKey, str]:
    return {(broker_resource(broker), name): value for broker in brokers for name in RATES}


def test_what_kafkas_tool_sets_for_the_plan_is_the_plans() -> None:
    settings = {**LISTS, **rates("5000", 1, 2, 3)}

    assert throttles_of_plan(PLAN, settings) == settings.keys()


def test_rates_only_where_they_bind_are_the_plans_too() -> None:
    bind = {
        (broker_resource(1), LEADER_RATE): "5000",
        (broker_resource(3), FOLLOWER_RATE): "5000",
    }

    assert throttles_of_plan(PLAN, {**LISTS, **bind}) == {*LISTS, *bind}


@pytest.mark.parametrize("replicas", FOREIGN_LISTS)
def test_a_list_with_anything_else_in_it_stays_with_all_rates(replicas: str) -> None:
    settings = {**LISTS, FOLLOWERS: replicas, **rates("5000", 1, 2, 3)}

    assert throttles_of_plan(PLAN, settings) == frozenset()


def test_rates_that_differ_among_the_plans_brokers_stay() -> None:
    settings = {**LISTS, **rates("5000", 1, 2), **rates("777", 3)}

    assert throttles_of_plan(PLAN, settings) == LISTS.keys()


def test_the_rate_of_a_broker_that_no_list_names_stays() -> None:
    settings = {**LISTS, **rates("5000", 1, 2, 3, 9)}

    assert throttles_of_plan(PLAN, settings) == settings.keys() - rates("5000", 9).keys()


ENTRIES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4)).map(lambda each: f"{each[0]}:{each[1]}")
).map(",".join)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["orders", "audit"]), st.sampled_from(REPLICAS)), ENTRIES
    )
)
def test_no_list_of_another_partition_or_follower_is_ever_the_plans(
    lists: dict[tuple[str, str], str],
) -> None:
    settings = {(topic_resource(topic), name): value for (topic, name), value in lists.items()}

    for resource, name in throttles_of_plan(PLAN, settings):
        for entry in filter(None, settings[resource, name].split(",")):
            partition, broker = map(int, entry.split(":"))
            target = PLAN[TopicPartition(resource.name, partition)]
            assert name == LEADER_REPLICAS or broker in target
