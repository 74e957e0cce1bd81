"""Plans that empty brokers, and that have another broker take their place."""

from collections.abc import Callable

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.drain import drain, replication_factor, shed, swap
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import CannotMake, Internal, MadePlan, Wishes
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from support.layouts import healthy, layout, left, targets

ANY = Wishes()


def test_a_drained_broker_gives_up_its_replicas_and_the_others_stay_in_place() -> None:
    made = drain(layout(healthy((3, 1, 2), (1, 2, 4), (2, 3, 1))), {3}, ANY)

    found = targets(made)
    assert found.keys() == {"a-0", "a-2"}
    assert found["a-0"][:2] == (1, 2)
    assert found["a-2"][:2] == (2, 1)
    assert {found["a-0"][2], found["a-2"][2]} == {5, 6}
    assert made.plan.partitions[0].original_replicas == (3, 1, 2)
    assert (made.moves, made.bytes, made.leader_changes) == (2, 2, 1)


def test_a_plan_keeps_no_broker_that_is_only_the_id_in_a_list_of_replicas() -> None:
    cluster = layout(healthy((3, 9), (9, 1), (1, 2)), unregistered=[9])

    found = targets(drain(cluster, {3}, ANY))
    taken_over = targets(swap(cluster, 3, 4, ANY))

    assert found.keys() == {"a-0"}
    assert not {3, 9} & {*found["a-0"]}
    assert not {3, 9} & {*taken_over["a-0"]}
    assert targets(drain(cluster, {9}, ANY)).keys() == {"a-0", "a-1"}


@pytest.mark.parametrize(
    "make",
    [
        lambda cluster: demote(cluster, [3], ANY),
        lambda cluster: leaders(cluster, ANY),
        lambda cluster: spread(cluster, ANY, by=By.REPLICAS, tolerance=0),
        lambda cluster: shed(cluster, 3, 10, ANY),
        lambda cluster: fill(cluster, [4, 5], ANY),
        lambda cluster: replication_factor(cluster, ["a"], 3, ANY),
    ],
)
def test_what_has_a_replica_on_an_unregistered_broker_is_left_as_it_is(
    make: Callable[[Layout], MadePlan],
) -> None:
    """Kafka refuses a target that names such a broker, whatever else it changes."""
    lists = [(3, 9)] * 6 + [(3, 1)] * 3
    made = make(layout(healthy(*lists), brokers=range(1, 6), unregistered=[9]))

    assert made.plan.partitions
    assert all(9 not in each.replicas for each in made.plan.partitions)
    assert made.moves == sum(
        len({*each.replicas} - {*(each.original_replicas or ())}) for each in made.plan.partitions
    )


def test_a_partition_on_an_unregistered_broker_is_named_where_it_was_to_change() -> None:
    cluster = layout(healthy((3, 9), (3, 1)), unregistered=[9])

    assert ("a-0", 3, "unregistered") in left(demote(cluster, [3], ANY))
    assert ("a-0", None, "unregistered") in left(replication_factor(cluster, ["a"], 3, ANY))


def test_an_unregistered_broker_gets_no_replicas() -> None:
    cluster = layout(healthy((3, 9), (1, 2)), unregistered=[9])

    with pytest.raises(CannotMake, match=r"There is no broker 9; the cluster has brokers 1, 2, 3"):
        fill(cluster, [9], ANY)


def test_the_leaders_of_a_drained_broker_are_shared_out() -> None:
    made = drain(layout(healthy(*[(1, 2, 3)] * 4)), {1}, ANY)

    assert [each.replicas[:2] for each in made.plan.partitions] == [(2, 3), (3, 2)] * 2


def test_a_new_replica_takes_the_old_ones_place_if_the_order_is_kept() -> None:
    cluster = layout(healthy((1, 2), (3, 1)), brokers=range(1, 5))

    assert targets(drain(cluster, {1}, Wishes(keep_order=True))) == {"a-0": (4, 2), "a-1": (3, 2)}


def test_a_replica_out_of_sync_does_not_become_the_leader() -> None:
    partitions = healthy((1, 2, 3))
    tp = TopicPartition("a", 0)
    partitions[tp] = msgspec.structs.replace(partitions[tp], isr=(1, 3))

    assert targets(drain(layout(partitions), {1}, ANY))["a-0"][0] == 3


def test_small_replicas_go_first_when_bytes_are_limited() -> None:
    cluster = layout(healthy((1,), (1,), (1,)), sizes={"a-0": 7, "a-1": 3, "a-2": 2})
    made = drain(cluster, {1}, Wishes(max_bytes=6))

    assert targets(made).keys() == {"a-1", "a-2"}
    assert left(made) == {("a-0", 1, "max bytes")}


def test_followers_still_go_once_no_more_leaders_may_change() -> None:
    made = drain(layout(healthy((1, 2), (1, 2), (2, 1))), {1}, Wishes(max_leader_changes=1))

    assert made.moves == 2
    assert left(made) == {("a-1", 1, "max leader changes")}


def test_kafkas_own_topics_stand_last_or_first_in_the_plan_or_are_left_out() -> None:
    own = "__consumer_offsets"
    partitions = healthy((1, 2), topic=own) | healthy((1, 2), topic="Z")
    cluster = layout(partitions)

    def order(internal: Internal) -> list[str]:
        return list(targets(drain(cluster, {1}, Wishes(internal=internal))))

    assert order(Internal.LAST) == ["Z-0", f"{own}-0"]
    assert order(Internal.FIRST) == [f"{own}-0", "Z-0"]
    assert order(Internal.EXCLUDE) == ["Z-0"]


def test_the_topic_of_a_canary_is_not_drained() -> None:
    partitions = healthy((3, 1)) | healthy((3, 1), topic="ktui-canary-night")

    assert targets(drain(layout(partitions), {3}, ANY)).keys() == {"a-0"}


def test_a_drain_of_a_broker_that_is_unknown_or_empty_is_refused() -> None:
    cluster = layout(healthy((1, 2)))
    with pytest.raises(CannotMake, match="There is no broker 9; the cluster has brokers 1, 2"):
        drain(cluster, {9}, ANY)
    with pytest.raises(CannotMake, match="No partition has a replica on broker 6"):
        drain(cluster, {6}, ANY)
    with pytest.raises(CannotMake, match="No broker but brokers 1 and 2 may get replicas"):
        drain(layout(healthy((1, 2)), brokers=[1, 2]), {1, 2}, ANY)
    with pytest.raises(CannotMake, match="max moves is -1; it cannot be less than 0"):
        drain(cluster, {1}, Wishes(max_moves=-1))
    with pytest.raises(CannotMake, match="The cluster has no topic order; did you mean orders"):
        drain(layout(healthy((1, 2), topic="orders")), {1}, Wishes(topics=("order",)))


def test_a_new_broker_takes_over_the_places_of_an_old_one() -> None:
    made = swap(layout(healthy((1, 2), (3, 1))), 1, 6, ANY)

    assert targets(made) == {"a-0": (6, 2), "a-1": (3, 6)}


def test_what_the_new_broker_holds_already_goes_as_in_a_drain() -> None:
    made = swap(layout(healthy((1, 6), (1, 2)), brokers=[1, 2, 6]), 1, 6, ANY)

    assert targets(made) == {"a-0": (6, 2), "a-1": (6, 2)}


def test_a_swap_with_a_broker_that_can_get_nothing_is_refused() -> None:
    with pytest.raises(CannotMake, match="Broker 6 is down"):
        swap(layout(healthy((1, 2)), down=[6]), 1, 6, ANY)
    with pytest.raises(CannotMake, match="All log dirs of broker 6 are cordoned"):
        swap(layout(healthy((1, 2)), cordoned=[6]), 1, 6, ANY)
    with pytest.raises(CannotMake, match="name two brokers"):
        swap(layout(healthy((1, 2))), 1, 1, ANY)
