"""The observer: what it reads, how often, and what it does about failures."""

import asyncio

import pytest

from ktui.cluster.asking import FRESH_AGAIN_S
from ktui.cluster.errors import Operation, Unreachable
from ktui.cluster.figures import CLOSELY_S, FOLLOW_S, MOST, SELDOM_S
from ktui.cluster.observer import Interest
from ktui.cluster.partition import Replica, TopicPartition
from ktui.simulated import layout
from support.simulated.observations import (
    EVERYONE,
    MESSAGES,
    ORDERS,
    a_topic,
    looking,
    looking_at_a_move,
)


async def test_a_quiet_cluster_costs_two_calls_however_many_partitions_it_holds() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 100)) as watcher:
        observation = await watcher.poll()

        assert observation.partitions == {}
        assert watcher.reader.calls == {"describe_cluster": 1, "list_reassignments": 1}


async def test_a_moving_partition_combines_listed_replicas_with_the_isr_from_metadata() -> None:
    async with looking_at_a_move() as watcher:
        state = (await watcher.poll()).partitions[ORDERS]

        assert state.replicas == (4, 1, 3, 2)
        assert (state.adding, state.removing) == ((4,), (2,))
        assert (state.isr, state.leader) == ((2, 1, 3), 2)
        assert state.target == (4, 1, 3)
        assert set(state.original) == {2, 1, 3}


async def test_a_move_unknown_to_brokers_is_shown_as_the_controller_lists_it() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Alter({ORDERS: (4, 1, 3)}))

        state = (await watcher.poll()).partitions[ORDERS]

        assert (state.replicas, state.adding) == ((4, 1, 3, 2), (4,))
        assert (state.isr, state.leader) == ((2, 1, 3), 2)


async def test_only_moving_topics_and_replicas_are_requested() -> None:
    async with looking_at_a_move(a_topic("quiet", *[(1, 2, 3)] * 5)) as watcher:
        observation = await watcher.poll()

        assert watcher.reader.described == [frozenset({"orders"})]
        requested = [(2, frozenset({ORDERS})), (4, frozenset({ORDERS}))]
        assert sorted(watcher.reader.asked_offsets) == requested
        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.starts[ORDERS].value == 0


async def test_a_deleted_topic_is_absent() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(layout.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await watcher.poll()).absent == {ORDERS}


async def test_a_topic_without_describe_permission_still_shows_its_listed_move() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Deny("describe_topics"))

        observation = await watcher.poll()

        state = observation.partitions[ORDERS]
        assert (state.adding, state.described) == ((4,), False)
        assert state.out_of_sync == ()
        assert observation.absent == frozenset()
        assert watcher.reader.asked_offsets == []
        assert [(f.topic, f.denied) for f in observation.failures] == [("orders", True)]


async def test_a_lost_cluster_raises_an_error_and_the_next_poll_tries_again() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(*map(layout.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await watcher.poll()

        await watcher.do(*map(layout.Start, EVERYONE), then_wait_s=10.0)
        assert ORDERS in (await watcher.poll()).partitions


async def test_polls_never_overlap() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.ChangeController())  # the list waits until there is one
        polls = [asyncio.create_task(watcher.observer.poll()) for _ in range(5)]
        await watcher.clock.advance(5.0)

        assert {(await poll).partitions.keys() == {ORDERS} for poll in polls} == {True}
        assert watcher.reader.most_lists_at_once == 1


async def test_a_failed_census_is_no_longer_reported_once_it_is_not_requested() -> None:
    interest = Interest(census=True)
    async with looking() as watcher:
        await watcher.do(layout.ChangeController())  # the list waits for it, and meanwhile all die
        first = asyncio.create_task(watcher.observer.poll(interest))
        await watcher.clock.advance(0.5)
        await watcher.do(*map(layout.Kill, EVERYONE), then_wait_s=1.0)
        await first
        await watcher.do(*map(layout.Start, EVERYONE), then_wait_s=15.0)
        failed = [failure.operation for failure in (await watcher.poll(interest)).failures]
        assert Operation.CENSUS in failed

        assert (await watcher.poll()).failures == ()


async def test_a_change_of_live_brokers_triggers_a_new_census() -> None:
    interest = Interest(unhealthy=True)
    async with looking(a_topic("orders", (1, 2, 3))) as watcher:
        await watcher.poll(interest)
        await watcher.poll(interest)
        await watcher.do(layout.Shutdown(3), then_wait_s=3.0)

        await watcher.poll(interest)
        observation = await watcher.poll(interest)

        assert watcher.reader.calls["scan_topics"] == 2
        assert observation.partitions.keys() == {ORDERS}


async def test_a_census_under_way_is_not_a_failure() -> None:
    async with looking() as watcher:
        observation = await watcher.poll(Interest(census=True))

        assert observation.census is None
        assert observation.failures == ()


async def test_unhealthy_partitions_are_found_by_a_census_and_then_polled_every_time() -> None:
    interest = Interest(unhealthy=True)
    topics = a_topic("orders", (1, 2, 3), (1, 2, 4)), a_topic("audit", (5,))
    async with looking(*topics) as watcher:
        await watcher.do(layout.Kill(4), layout.Kill(5), then_wait_s=10.0)

        await watcher.poll(interest)
        observation = await watcher.poll(interest)

        sick, dead = TopicPartition("orders", 1), TopicPartition("audit", 0)
        assert observation.partitions.keys() == {sick, dead}
        assert observation.partitions[dead].leader is None
        assert observation.census is not None
        assert observation.census.partitions == 3
        assert observation.census.leaders == {1: 2}
        assert observation.census.replicas == {1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
        assert watcher.reader.calls["scan_topics"] == 1


async def test_only_the_worst_of_very_many_unhealthy_partitions_are_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.cluster.observer.MOST_UNHEALTHY", 2)
    topics = (
        a_topic("audit", *[(1, 2, 4)] * 5),
        a_topic("orders", (4, 5, 1)),
        a_topic("zebra", (5,)),
    )
    async with looking(*topics) as watcher:
        await watcher.do(layout.Kill(4), layout.Kill(5), then_wait_s=10.0)

        await watcher.poll(Interest(unhealthy=True))
        observation = await watcher.poll(Interest(unhealthy=True))

        assert observation.partitions.keys() == {
            TopicPartition("zebra", 0), TopicPartition("orders", 0)
        }  # fmt: skip


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


async def test_a_partition_that_left_the_list_is_polled_closely_for_a_while() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.clock.advance(MESSAGES / 100)

        for _ in range(int(CLOSELY_S)):
            observation = await watcher.poll()
            assert observation.partitions[ORDERS].replicas == (4, 1, 3)
            assert not observation.partitions[ORDERS].reassigning


async def test_an_ended_partition_is_polled_seldom_until_its_row_disappears() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(layout.Alter({ORDERS: None}))
        await watcher.poll()
        await watcher.clock.advance(CLOSELY_S)

        seen = [ORDERS in (await watcher.poll()).partitions for _ in range(20)]
        assert sum(seen) == 20 / SELDOM_S

        await watcher.clock.advance(FOLLOW_S)
        assert (await watcher.poll()).partitions == {}


async def test_only_so_many_ended_partitions_are_still_polled() -> None:
    names = [TopicPartition("orders", number) for number in range(MOST + 10)]
    async with looking(a_topic("orders", *[(2, 1, 3)] * len(names))) as watcher:
        await watcher.do(layout.Alter(dict.fromkeys(names, (4, 1, 3))))
        assert len((await watcher.poll()).partitions) == MOST + 10
        await watcher.do(layout.Alter(dict.fromkeys(names, None)))

        assert len((await watcher.poll()).partitions) == MOST


async def test_a_move_that_ended_during_an_outage_is_still_polled() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(*map(layout.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await watcher.poll()
        await watcher.clock.advance(10 * CLOSELY_S)
        await watcher.do(*map(layout.Start, EVERYONE), then_wait_s=10.0)
        await watcher.do(layout.Alter({ORDERS: None}))

        observation = await watcher.poll()

        assert ORDERS in observation.partitions
        assert not observation.reassigning


FRESH = Interest(partitions=frozenset({ORDERS}), fresh=True)


async def test_a_fresh_poll_includes_every_earlier_decision() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Alter({ORDERS: (3, 1, 2)}))

        observation = await watcher.poll(FRESH)

        assert observation.partitions[ORDERS].replicas == (3, 1, 2)
        assert observation.fresh


async def test_an_ordinary_poll_does_not_claim_to_be_fresh() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Alter({ORDERS: (3, 1, 2)}))

        observation = await watcher.poll(Interest(partitions=frozenset({ORDERS})))

        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
        assert not observation.fresh


async def test_a_poll_of_unprovable_freshness_is_not_fresh_and_not_retried_every_time() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Deny("describe_quorum"))
        first, _ = await watcher.poll(FRESH), await watcher.poll(FRESH)

        assert not first.fresh
        assert first.partitions.keys() == {ORDERS}
        assert watcher.reader.calls["describe_topics"] == 3

        await watcher.do(layout.Allow("describe_quorum"), then_wait_s=FRESH_AGAIN_S)
        assert (await watcher.poll(FRESH)).fresh


async def test_brokers_far_behind_the_controller_make_a_fresh_poll_stale() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        watcher.cluster.metadata.lag_s = 20.0
        await watcher.do(layout.Alter({ORDERS: (3, 1, 2)}))
        polling = asyncio.create_task(watcher.observer.poll(FRESH))
        await watcher.clock.advance(10.0)

        observation = await polling

        assert not observation.fresh
        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
