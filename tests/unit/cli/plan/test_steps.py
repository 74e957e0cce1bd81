"""`ktui plan check --steps` says beforehand which way each partition goes, under the limits."""

from __future__ import annotations

import pytest

from ktui.cli.context.errors import BadInput
from ktui.simulated import events
from support.cli.plan_desk import Desk, answer, check
from support.simulated.moving_clusters import a_cluster, wait

Way = list[tuple[list[int], int | None]]


def way(desk: Desk, *limits: str) -> Way:
    """Give the steps of orders-0 from 1, 2 and 3 to 4, 5 and 6."""
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    told = answer(check(desk.plan(orders_0=(4, 5, 6)), "--json", "--steps", *limits))
    (partition,) = told["partitions"]
    assert list(partition) == ["topic", "partition", "steps"]
    assert all(list(step) == ["replicas", "elect"] for step in partition["steps"])
    return [(step["replicas"], step["elect"]) for step in partition["steps"]]


def test_without_a_limit_named_one_replica_is_added_at_a_time_and_all_cut_together(
    desk: Desk,
) -> None:
    assert way(desk) == [
        ([1, 2, 3, 4], None),
        ([1, 2, 3, 4, 5], None),
        ([1, 2, 3, 4, 5, 6], None),
        ([4, 5, 6], None),
    ]


def test_the_shape_of_kip_435_moves_the_leader_first(desk: Desk) -> None:
    assert way(desk, "--shape", "kip-435", "--replicas", "2") == [
        ([4, 1, 2, 3], 4),
        ([4, 5, 3], None),
        ([4, 5, 6], None),
    ]


def test_extra_replicas_are_held_to_their_limit(desk: Desk) -> None:
    assert [len(replicas) for replicas, _ in way(desk, "--extra-replicas", "1")] == [
        *(4, 3, 4, 3, 4, 3)
    ]


def test_a_limit_that_is_lifted_leaves_one_step(desk: Desk) -> None:
    assert way(desk, "--replicas", "none") == [([4, 5, 6], 4)]


def test_a_partition_that_someone_else_moves_starts_from_where_it_was(desk: Desk) -> None:
    desk.cluster(a_cluster(moving=["orders-0"]))  # from 1, 2 and 3 to 4, 2 and 3

    told = answer(check(desk.plan(orders_0=(5, 2, 3)), "--json", "--steps"))

    assert sorted(told["partitions"][0]["steps"][-1]["replicas"]) == [2, 3, 5]
    assert all(4 not in step["replicas"] for step in told["partitions"][0]["steps"])


def test_a_broker_that_is_down_is_warned_of_and_does_not_hide_the_steps(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.Shutdown(4))
    wait(cluster, 5.0)
    desk.cluster(cluster)

    told = answer(check(desk.plan(orders_0=(1, 2, 4)), "--json", "--steps"))

    assert [warning["kind"] for warning in told["warnings"]] == ["broker down"]
    assert [step["replicas"] for step in told["partitions"][0]["steps"]] == [
        [1, 2, 3, 4],
        [1, 2, 4],
    ]


def test_people_read_the_steps_one_a_line_and_nothing_of_what_stays(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    result = check(desk.plan(orders_0=(2, 1, 3), orders_1=(1, 2, 3)), "--steps")

    assert (
        "\n\nsteps, gentle shape, 1 at a time:\norders-0\n  1  2,1,3  elect 2\n\n" in result.stdout
    )


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (("--replicas", "0"), "--replicas: 0 is too small. Use a whole number from 1, or none"),
        (("--per-broker", "many"), "--per-broker: 'many' is not a whole number"),
        (("--shape", "soft"), "--shape: 'soft' is not a valid value. Use gentle or kip-435"),
        (
            ("--shape", "kip-435", "--cut-together", "2"),
            "--cut-together: it has no effect in shape kip-435",
        ),
    ],
)
def test_a_limit_that_is_none_is_named_with_what_to_give_instead(
    desk: Desk, limit: tuple[str, ...], told: str
) -> None:
    result = check(desk.plan(orders_0=(1, 2, 3)), *limit)

    assert isinstance(result.exception, BadInput)
    assert told in str(result.exception)


def test_every_limit_is_taken_by_its_name(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    given = {
        "replicas": 2,
        "partitions": 3,
        "leader_movements": 4,
        "replica_movements": 5,
        "per_broker": 6,
        "extra_replicas": 7,
        "cut_together": 8,
        "shape": "gentle",
        "mode": "wave",
        "order": "plan",
    }
    options = [x for k, v in given.items() for x in (f"--{k.replace('_', '-')}", str(v))]

    assert answer(check(desk.plan(orders_0=(4, 2, 3)), "--json", *options))["limits"] == given
