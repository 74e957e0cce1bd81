"""What could not be read is told for as long as it is wanted, and asked for again in time."""

from __future__ import annotations

from ktui.cluster.errors import Operation
from ktui.cluster.partition import Replica
from ktui.simulated import events
from support.simulated.polled_cluster import MESSAGES, ORDERS, a_topic, looking_at_a_move


async def test_an_error_is_no_longer_told_once_nobody_asks() -> None:
    async with looking_at_a_move() as look:
        await look.do(events.Kill(4), events.Deny("topic_configs"), events.Deny("log_offsets"))
        told = {failure.operation for failure in (await look.poll()).failures}
        assert told == {
            Operation.LOG_ENDS, Operation.LOG_DIRS, Operation.BROKER_CONFIGS,
            Operation.TOPIC_CONFIGS,
        }  # fmt: skip
        await look.do(events.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await look.poll()).failures == ()


async def test_a_replica_that_is_gone_before_metadata_says_so_is_no_error() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(events.Alter({ORDERS: None}))  # broker 4 drops it; metadata shows it still

        assert (await look.poll()).failures == ()
        assert (await look.poll()).failures == ()


async def test_figures_of_a_deleted_topic_are_not_taken_for_those_of_its_namesake() -> None:
    async with looking_at_a_move() as look:
        assert Replica(ORDERS, 4) in (await look.poll()).sizes
        await look.do(
            events.Hang(4),
            events.DeleteTopic("orders"),
            events.CreateTopic(a_topic("orders", (2, 1, 3))),
            events.Append(ORDERS, 7),
            events.Alter({ORDERS: (4, 1, 3)}),
            then_wait_s=1.0,
        )

        observation = await look.poll()

        assert Replica(ORDERS, 4) not in observation.ends
        assert observation.sizes == {}
        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 7


async def test_a_missing_permission_is_reported_and_not_asked_for_at_every_poll() -> None:
    async with looking_at_a_move() as look:
        await look.do(events.Deny("log_dirs"))
        for _ in range(5):
            observation = await look.poll()

        denied = [f for f in observation.failures if f.operation is Operation.LOG_DIRS]
        assert {f.broker for f in denied} == {2, 4}
        assert all(f.denied for f in denied)
        assert look.reader.calls["log_dirs"] == 2


async def test_a_permission_that_comes_back_is_noticed() -> None:
    async with looking_at_a_move() as look:
        await look.do(events.Deny("log_dirs"))
        await look.poll()
        await look.do(events.Allow("log_dirs"), then_wait_s=30.0)

        observation = await look.poll()

        assert observation.failures == ()
        assert Replica(ORDERS, 4) in observation.sizes
