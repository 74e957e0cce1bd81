"""Plans that drain brokers, or change the replication factor of topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.generate import CannotGenerate, change_factor, drain_brokers
from ktui.planning.plan import Plan
from ktui.planning.replication_factor import BrokerPool

BROKERS = range(1, 7)


def states(*replicas: tuple[int, ...], topic: str = "a") -> dict[TopicPartition, PartitionState]:
    tps = [TopicPartition(topic, number) for number in range(len(replicas))]
    return {
        tp: PartitionState(tp, None, brokers, brokers, brokers[0])
        for tp, brokers in zip(tps, replicas, strict=True)
    }


def pool(*online: int) -> BrokerPool:
    return BrokerPool(online=frozenset(online or BROKERS))


def targets(plan: Plan) -> dict[str, tuple[int, ...]]:
    return {str(each.tp): each.replicas for each in plan.partitions}


def test_a_drained_broker_gives_up_its_replicas_and_the_others_stay_in_place() -> None:
    plan = drain_brokers(states((3, 1, 2), (1, 2, 4), (2, 3, 1)), {3}, BROKERS, pool())

    found = targets(plan)
    assert found.keys() == {"a-0", "a-2"}
    assert found["a-0"][:2] == (1, 2)
    assert found["a-2"][:2] == (2, 1)
    assert {found["a-0"][2], found["a-2"][2]} == {5, 6}
    assert plan.partitions[0].original_replicas == (3, 1, 2)


def test_the_leaders_of_a_drained_broker_are_shared_out() -> None:
    plan = drain_brokers(states(*[(1, 2, 3)] * 4), {1}, BROKERS, pool())

    assert [each.replicas[:2] for each in plan.partitions] == [(2, 3), (3, 2)] * 2


def test_the_topic_of_a_canary_is_not_drained() -> None:
    partitions = states((3, 1)) | states((3, 1), topic="ktui-canary-night")

    assert targets(drain_brokers(partitions, {3}, BROKERS, pool())).keys() == {"a-0"}


def test_the_only_replica_of_a_partition_is_moved() -> None:
    (replicas,) = targets(drain_brokers(states((3,)), {3}, BROKERS, pool())).values()

    assert len(replicas) == 1
    assert replicas != (3,)


def test_a_drain_of_a_broker_that_is_unknown_or_empty_is_refused() -> None:
    with pytest.raises(CannotGenerate, match="There is no broker 9; the cluster has brokers 1, 2"):
        drain_brokers(states((1, 2)), {9}, BROKERS, pool())
    with pytest.raises(CannotGenerate, match="No partition has a replica on broker 6"):
        drain_brokers(states((1, 2)), {6}, BROKERS, pool())
    with pytest.raises(CannotGenerate, match="cannot have 2 replicas: 1 broker is online"):
        drain_brokers(states((1, 2)), {1}, {1, 2}, pool(1, 2))


@given(
    st.lists(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True), min_size=1),
    st.sets(st.sampled_from(BROKERS), min_size=1, max_size=3),
)
def test_no_drain_changes_a_replication_factor(placed: list[list[int]], drained: set[int]) -> None:
    before = states(*map(tuple, placed))
    if not any(drained & {*each} for each in placed):
        return
    plan = drain_brokers(before, drained, BROKERS, pool())

    assert {each.tp for each in plan.partitions} == {
        tp for tp, state in before.items() if drained & {*state.replicas}
    }
    for target in plan.partitions:
        assert len({*target.replicas}) == len(before[target.tp].replicas)
        assert not drained & {*target.replicas}
        kept = [broker for broker in before[target.tp].replicas if broker not in drained]
        assert {*target.replicas[: len(kept)]} == {*kept}


def test_topics_get_another_replication_factor() -> None:
    cluster = states((1, 2), (2, 3, 1)) | states((1, 2), topic="other")
    plan = change_factor(cluster, ["a"], 3, pool())

    assert targets(plan).keys() == {"a-0"}
    assert targets(plan)["a-0"][:2] == (1, 2)
    with pytest.raises(CannotGenerate, match=r"no topic othr; did you mean other\?"):
        change_factor(cluster, ["othr"], 3, pool())
    with pytest.raises(CannotGenerate, match="Every partition has 2 replicas already"):
        change_factor(cluster, ["other"], 2, pool())
