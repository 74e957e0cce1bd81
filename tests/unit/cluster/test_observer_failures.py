"""Failed reads are reported as long as they are requested, and retried in time."""

from __future__ import annotations

from ktui.cluster.errors import Operation
from ktui.cluster.partition import Replica
from ktui.simulated import layout
from support.simulated.polled_cluster import MESSAGES, ORDERS, a_topic, looking_at_a_move


async def test_a_failure_is_no_longer_reported_once_it_is_not_requested() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Kill(4), layout.Deny("topic_configs"), layout.Deny("log_offsets"))
        failed = {failure.operation for failure in (await watcher.poll()).failures}
        assert failed == {
            Operation.LOG_ENDS, Operation.LOG_DIRS, Operation.BROKER_CONFIGS,
            Operation.TOPIC_CONFIGS,
        }  # fmt: skip
        await watcher.do(layout.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await watcher.poll()).failures == ()


async def test_a_replica_dropped_before_metadata_shows_it_is_no_failure() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(layout.Alter({ORDERS: None}))  # broker 4 drops it; metadata still shows it

        assert (await watcher.poll()).failures == ()
        assert (await watcher.poll()).failures == ()


async def test_figures_of_a_deleted_topic_are_not_used_for_its_namesake() -> None:
    async with looking_at_a_move() as watcher:
        assert Replica(ORDERS, 4) in (await watcher.poll()).sizes
        await watcher.do(
            layout.Hang(4),
            layout.DeleteTopic("orders"),
            layout.CreateTopic(a_topic("orders", (2, 1, 3))),
            layout.Append(ORDERS, 7),
            layout.Alter({ORDERS: (4, 1, 3)}),
            then_wait_s=1.0,
        )

        observation = await watcher.poll()

        assert Replica(ORDERS, 4) not in observation.ends
        assert observation.sizes == {}
        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 7


async def test_a_denied_request_is_reported_and_not_repeated_at_every_poll() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Deny("log_dirs"))
        for _ in range(5):
            observation = await watcher.poll()

        denied = [f for f in observation.failures if f.operation is Operation.LOG_DIRS]
        assert {f.broker for f in denied} == {2, 4}
        assert all(f.denied for f in denied)
        assert watcher.reader.calls["log_dirs"] == 2


async def test_a_restored_permission_is_noticed() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Deny("log_dirs"))
        await watcher.poll()
        await watcher.do(layout.Allow("log_dirs"), then_wait_s=30.0)

        observation = await watcher.poll()

        assert observation.failures == ()
        assert Replica(ORDERS, 4) in observation.sizes
