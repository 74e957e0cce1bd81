"""`ktui plan check --steps` predicts the steps of each partition under the limits."""

from __future__ import annotations

import pytest

from ktui.cli.context.errors import BadInput
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.simulated import layout
from support.cli.plan_sandbox import PlanSandbox, answer, check, found
from support.simulated.moving_clusters import a_cluster, wait

Steps = list[tuple[list[int], int | None]]


def planned_steps(plan_sandbox: PlanSandbox, *limits: str) -> Steps:
    """Return the steps of orders-0 from 1, 2 and 3 to 4, 5 and 6."""
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    expected = answer(check(plan_sandbox.plan(orders_0=(4, 5, 6)), "--json", "--steps", *limits))
    (partition,) = expected["partitions"]
    assert list(partition) == ["topic", "partition", "steps"]
    assert all(list(step) == ["replicas", "elect"] for step in partition["steps"])
    return [(step["replicas"], step["elect"]) for step in partition["steps"]]


def test_steps_without_limits_add_one_replica_at_a_time_and_cut_all_together(
    plan_sandbox: PlanSandbox,
) -> None:
    assert planned_steps(plan_sandbox) == [
        ([1, 2, 3, 4], None),
        ([1, 2, 3, 4, 5], None),
        ([1, 2, 3, 4, 5, 6], None),
        ([4, 5, 6], None),
    ]


def test_the_kip_435_shape_moves_the_leader_first(plan_sandbox: PlanSandbox) -> None:
    assert planned_steps(plan_sandbox, "--shape", "kip-435", "--replicas", "2") == [
        ([4, 1, 2, 3], 4),
        ([4, 5, 3], None),
        ([4, 5, 6], None),
    ]


def test_steps_keep_to_the_limit_of_extra_replicas(plan_sandbox: PlanSandbox) -> None:
    assert [
        len(replicas) for replicas, _ in planned_steps(plan_sandbox, "--extra-replicas", "1")
    ] == [*(4, 3, 4, 3, 4, 3)]


def test_a_limit_that_is_lifted_leaves_one_step(plan_sandbox: PlanSandbox) -> None:
    assert planned_steps(plan_sandbox, "--replicas", "none") == [([4, 5, 6], 4)]


def test_steps_of_a_partition_that_others_move_start_from_its_original_replicas(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster(moving=["orders-0"]))  # from 1, 2 and 3 to 4, 2 and 3

    expected = answer(check(plan_sandbox.plan(orders_0=(5, 2, 3)), "--json", "--steps"))

    assert sorted(expected["partitions"][0]["steps"][-1]["replicas"]) == [2, 3, 5]
    assert all(4 not in step["replicas"] for step in expected["partitions"][0]["steps"])


def test_a_broker_that_is_down_is_a_warning_and_the_steps_are_still_shown(
    plan_sandbox: PlanSandbox,
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.Shutdown(4))
    wait(cluster, 5.0)
    plan_sandbox.cluster(cluster)

    expected = answer(check(plan_sandbox.plan(orders_0=(1, 2, 4)), "--json", "--steps"))

    assert [warning["kind"] for warning in found(expected, "warning")] == ["broker down"]
    assert [step["replicas"] for step in expected["partitions"][0]["steps"]] == [
        [1, 2, 3, 4],
        [1, 2, 4],
    ]


def test_steps_are_printed_one_per_line_without_partitions_at_their_target(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    result = check(plan_sandbox.plan(orders_0=(2, 1, 3), orders_1=(1, 2, 3)), "--steps")

    assert (
        "\n\nsteps, gentle shape, 1 at a time:\norders-0\n  1  2,1,3  elect 2\n\n" in result.stdout
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
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
def test_an_invalid_limit_is_refused_with_the_valid_values(
    plan_sandbox: PlanSandbox, limit: tuple[str, ...], expected: str
) -> None:
    result = check(plan_sandbox.plan(orders_0=(1, 2, 3)), *limit)

    assert isinstance(result.exception, BadInput)
    assert expected in str(result.exception)


def test_every_limit_has_an_option_of_its_name(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    given = {
        "replicas": 2,
        "partitions": 3,
        "per_rack": 13,
        "leader_movements": 4,
        "replica_movements": 5,
        "per_broker": 6,
        "per_leader": 7,
        "cuts_per_minute": 8,
        "bytes_in_flight": 11,
        "bytes_per_broker": 12,
        "extra_replicas": 9,
        "cut_together": 10,
        "shape": "gentle",
        "mode": "wave",
        "order": "plan",
        "internal": "first",
    }
    options = [x for k, v in given.items() for x in (f"--{k.replace('_', '-')}", str(v))]

    limits = answer(check(plan_sandbox.plan(orders_0=(4, 2, 3)), "--json", *options))["limits"]

    assert limits == {**given, "brokers": []}


def test_steps_leave_a_cordoned_broker_at_once_where_kafka_takes_no_list_that_names_it(
    plan_sandbox: PlanSandbox,
) -> None:
    def steps(version: str) -> list[list[int]]:
        cluster = a_cluster({"orders": [(1, 2, 4)]}, version=version)
        cluster.configure([ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)])
        plan_sandbox.cluster(cluster)
        expected = answer(check(plan_sandbox.plan(orders_0=(1, 2, 3)), "--json", "--steps"))
        return [step["replicas"] for step in expected["partitions"][0]["steps"]]

    assert steps("4.4") == [[1, 2, 3]]
    assert steps("4.3") == [[1, 2, 4, 3], [1, 2, 3]]


def test_it_is_a_warning_if_too_few_would_be_in_sync_without_a_cordoned_broker(
    plan_sandbox: PlanSandbox,
) -> None:
    configs = {"min.insync.replicas": "2"}
    cluster = a_cluster({"orders": [(1, 4)]}, version="4.4", configs=configs)
    cluster.configure([ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)])
    plan_sandbox.cluster(cluster)

    expected = answer(check(plan_sandbox.plan(orders_0=(1, 3)), "--json", "--steps"))

    assert expected["partitions"][0]["steps"] == []
    (warning,) = found(expected, "warning")
    assert warning["sentence"] == (
        "broker 4 is cordoned, and without it fewer would be in sync than min.insync.replicas: the "
        "run waits with orders-0 until you lift the cordon with ktui broker uncordon 4"
    )
