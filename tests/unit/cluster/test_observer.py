"""A poll costs what is in flight, and no broker holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from ktui.cluster.errors import Operation, Unreachable
from ktui.cluster.following import CLOSELY_S, FOLLOW_S, MOST, SELDOM_S
from ktui.cluster.observation import Observation
from ktui.cluster.observer import FRESH_AGAIN_S, NO_INTEREST, Interest, Observer
from ktui.cluster.partition import Replica, TopicPartition
from ktui.simulated import acts
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from support.counting_reader import CountingReader

ORDERS = TopicPartition("orders", 0)
MESSAGES = 10_000
"""In each partition; a new replica copies 100 of them a second."""
MESSAGE_BYTES = 1_000
PATIENCE_S = 0.25
EVERYONE = (1, 2, 3, 4, 5)


def a_topic(name: str, *replicas: tuple[int, ...]) -> TopicSpec:
    return TopicSpec(
        name=name,
        replicas=replicas,
        bytes_each=MESSAGES * MESSAGE_BYTES,
        message_bytes=MESSAGE_BYTES,
    )


class Looking:
    """An observer of a simulated cluster, what it asks, and the hand that moves time on."""

    def __init__(self, topics: Collection[TopicSpec], patience_s: float, version: str) -> None:
        brokers = tuple(BrokerSpec(id=b, net_in=100.0 * MESSAGE_BYTES) for b in EVERYONE)
        spec = ClusterSpec(brokers=brokers, topics=tuple(topics), version=version)
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(spec, self.clock)
        self.reader = CountingReader(self.cluster.reader())
        self.observer = Observer(self.reader, self.clock, patience_s=patience_s)

    async def do(self, *happening: acts.Act, then_wait_s: float = 0.0) -> None:
        for act in happening:
            self.cluster.do(act)
        await self.clock.advance(then_wait_s)

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        """Look once, and let the rest of the second pass."""
        looking = asyncio.create_task(self.observer.poll(interest))
        await self.clock.advance(1.0)
        return await looking


@asynccontextmanager
async def looking(
    *topics: TopicSpec, patience_s: float = PATIENCE_S, version: str = "4.3"
) -> AsyncIterator[Looking]:
    look = Looking(topics, patience_s, version)
    yield look
    await look.observer.aclose()


@asynccontextmanager
async def looking_at_a_move(
    *more: TopicSpec, patience_s: float = PATIENCE_S, version: str = "4.3"
) -> AsyncIterator[Looking]:
    """orders-0 moves from [2,1,3] to [4,1,3], and broker 4 has 500 messages."""
    orders = a_topic("orders", (2, 1, 3))
    async with looking(orders, *more, patience_s=patience_s, version=version) as look:
        await look.do(acts.Alter({ORDERS: (4, 1, 3)}), then_wait_s=5.0)
        yield look


async def test_a_quiet_cluster_costs_two_calls_however_many_partitions_it_holds() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 100)) as look:
        observation = await look.poll()

        assert observation.partitions == {}
        assert look.reader.calls == {"describe_cluster": 1, "list_reassignments": 1}


async def test_a_moving_partition_shows_the_controllers_replicas_and_the_metadatas_isr() -> None:
    async with looking_at_a_move() as look:
        state = (await look.poll()).partitions[ORDERS]

        assert state.replicas == (4, 1, 3, 2)
        assert (state.adding, state.removing) == ((4,), (2,))
        assert (state.isr, state.leader) == ((2, 1, 3), 2)
        assert state.target == (4, 1, 3)
        assert set(state.original) == {2, 1, 3}


async def test_a_move_that_brokers_have_not_heard_of_yet_is_shown_as_the_controller_lists_it() -> (
    None
):
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(acts.Alter({ORDERS: (4, 1, 3)}))

        state = (await look.poll()).partitions[ORDERS]

        assert (state.replicas, state.adding) == ((4, 1, 3, 2), (4,))
        assert (state.isr, state.leader) == ((2, 1, 3), 2)


async def test_only_the_topics_and_replicas_that_move_are_asked_about() -> None:
    async with looking_at_a_move(a_topic("quiet", *[(1, 2, 3)] * 5)) as look:
        observation = await look.poll()

        assert look.reader.described == [frozenset({"orders"})]
        asked = [(2, frozenset({ORDERS})), (4, frozenset({ORDERS}))]
        assert sorted(look.reader.asked_offsets) == asked
        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.starts[ORDERS].value == 0


async def test_a_slow_broker_costs_its_own_figures_only_and_is_named() -> None:
    async with looking_at_a_move() as look:
        before = await look.poll()
        await look.do(acts.Hang(4), acts.Append(ORDERS, 100), then_wait_s=1.0)

        observation = await look.poll()

        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 100
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.ends[Replica(ORDERS, 4)].at_s == before.monotonic_s
        assert observation.took_s == PATIENCE_S
        (failure,) = observation.failures
        assert (failure.operation, failure.broker) == (Operation.LOG_ENDS, 4)


async def test_a_slow_broker_is_not_asked_again_until_it_has_answered() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.Hang(4))
        for _ in range(3):
            await look.poll()

        assert look.reader.asked(4) == 1

        await look.do(acts.Resume(4), then_wait_s=1.0)
        observation = await look.poll()

        assert observation.failures == ()
        assert look.reader.asked(4) == 2


async def test_a_poll_does_not_wait_for_a_broker_that_hung_in_an_earlier_one() -> None:
    async with looking_at_a_move(patience_s=1.0) as look:
        await look.do(acts.Hang(4))
        first, second = await look.poll(), await look.poll()

        assert (first.took_s, second.took_s) == (1.0, 0.0)
        assert (Operation.LOG_ENDS, 4) in [(f.operation, f.broker) for f in second.failures]
        assert {f.broker for f in second.failures} == {4}


async def test_an_answer_that_comes_between_two_polls_carries_the_second_it_came() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.Hang(4))
        await look.poll()
        await look.do(acts.Resume(4), then_wait_s=2.0)
        await look.do(acts.Hang(4))

        came_at_s = (await look.poll()).ends[Replica(ORDERS, 4)].at_s

        assert 6.0 < came_at_s < 8.0


async def test_an_error_is_no_longer_told_once_nobody_asks() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.Kill(4), acts.Deny("topic_configs"), acts.Deny("log_offsets"))
        told = {failure.operation for failure in (await look.poll()).failures}
        assert told == {
            Operation.LOG_ENDS, Operation.LOG_DIRS, Operation.BROKER_CONFIGS,
            Operation.TOPIC_CONFIGS,
        }  # fmt: skip
        await look.do(acts.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await look.poll()).failures == ()


async def test_a_replica_that_is_gone_before_metadata_says_so_is_no_error() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(acts.Alter({ORDERS: None}))  # broker 4 drops it; metadata shows it still

        assert (await look.poll()).failures == ()
        assert (await look.poll()).failures == ()


async def test_a_census_that_failed_is_no_longer_told_once_nobody_wants_one() -> None:
    interest = Interest(census=True)
    async with looking() as look:
        await look.do(acts.ChangeController())  # the list waits for it, and meanwhile all die
        first = asyncio.create_task(look.observer.poll(interest))
        await look.clock.advance(0.5)
        await look.do(*map(acts.Kill, EVERYONE), then_wait_s=1.0)
        await first
        await look.do(*map(acts.Start, EVERYONE), then_wait_s=15.0)
        told = [failure.operation for failure in (await look.poll(interest)).failures]
        assert Operation.CENSUS in told

        assert (await look.poll()).failures == ()


async def test_figures_of_a_deleted_topic_are_not_taken_for_those_of_its_namesake() -> None:
    async with looking_at_a_move() as look:
        assert Replica(ORDERS, 4) in (await look.poll()).sizes
        await look.do(
            acts.Hang(4),
            acts.DeleteTopic("orders"),
            acts.CreateTopic(a_topic("orders", (2, 1, 3))),
            acts.Append(ORDERS, 7),
            acts.Alter({ORDERS: (4, 1, 3)}),
            then_wait_s=1.0,
        )

        observation = await look.poll()

        assert Replica(ORDERS, 4) not in observation.ends
        assert observation.sizes == {}
        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 7


@pytest.mark.parametrize("version", ["4.0", "4.3"])
async def test_a_dead_broker_is_not_asked(version: str) -> None:
    async with looking_at_a_move(version=version) as look:
        await look.do(acts.Kill(4), then_wait_s=10.0)

        observation = await look.poll()

        assert [broker for broker, _ in look.reader.asked_offsets] == [2]
        assert not observation.alive(4)
        assert observation.failures == ()


async def test_a_missing_permission_is_reported_and_not_asked_for_at_every_poll() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.Deny("log_dirs"))
        for _ in range(5):
            observation = await look.poll()

        denied = [f for f in observation.failures if f.operation is Operation.LOG_DIRS]
        assert {f.broker for f in denied} == {2, 4}
        assert all(f.denied for f in denied)
        assert look.reader.calls["log_dirs"] == 2


async def test_a_permission_that_comes_back_is_noticed() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.Deny("log_dirs"))
        await look.poll()
        await look.do(acts.Allow("log_dirs"), then_wait_s=30.0)

        observation = await look.poll()

        assert observation.failures == ()
        assert Replica(ORDERS, 4) in observation.sizes


async def test_sizes_and_settings_are_read_less_often_than_log_ends() -> None:
    async with looking_at_a_move() as look:
        for _ in range(10):
            await look.poll()

        assert look.reader.calls["log_offsets"] == 20
        assert look.reader.calls["log_dirs"] == 4
        assert look.reader.calls["topic_configs"] == 1
        assert look.reader.calls["broker_config"] == 2


async def test_a_partition_that_left_the_list_is_looked_at_closely_for_a_while() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.clock.advance(MESSAGES / 100)

        for _ in range(int(CLOSELY_S)):
            observation = await look.poll()
            assert observation.partitions[ORDERS].replicas == (4, 1, 3)
            assert not observation.partitions[ORDERS].reassigning


async def test_and_then_now_and_then_for_as_long_as_its_row_is_shown() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(acts.Alter({ORDERS: None}))
        await look.poll()
        await look.clock.advance(CLOSELY_S)

        seen = [ORDERS in (await look.poll()).partitions for _ in range(20)]
        assert sum(seen) == 20 / SELDOM_S

        await look.clock.advance(FOLLOW_S)
        assert (await look.poll()).partitions == {}


async def test_thousands_that_have_ended_are_not_worth_a_poll_of_their_own() -> None:
    names = [TopicPartition("orders", number) for number in range(MOST + 10)]
    async with looking(a_topic("orders", *[(2, 1, 3)] * len(names))) as look:
        await look.do(acts.Alter(dict.fromkeys(names, (4, 1, 3))))
        assert len((await look.poll()).partitions) == MOST + 10
        await look.do(acts.Alter(dict.fromkeys(names, None)))

        assert len((await look.poll()).partitions) == MOST


async def test_a_new_census_is_taken_as_soon_as_a_broker_goes_or_comes() -> None:
    interest = Interest(unhealthy=True)
    async with looking(a_topic("orders", (1, 2, 3))) as look:
        await look.poll(interest)
        await look.poll(interest)
        await look.do(acts.Shutdown(3), then_wait_s=3.0)

        await look.poll(interest)
        observation = await look.poll(interest)

        assert look.reader.calls["scan_topics"] == 2
        assert observation.partitions.keys() == {ORDERS}


async def test_what_ended_while_the_cluster_was_lost_is_still_looked_at() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(*map(acts.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await look.poll()
        await look.clock.advance(10 * CLOSELY_S)
        await look.do(*map(acts.Start, EVERYONE), then_wait_s=10.0)
        await look.do(acts.Alter({ORDERS: None}))

        observation = await look.poll()

        assert ORDERS in observation.partitions
        assert not observation.reassigning


async def test_a_census_under_way_is_not_a_failure() -> None:
    async with looking() as look:
        observation = await look.poll(Interest(census=True))

        assert observation.census is None
        assert observation.failures == ()


async def test_a_deleted_topic_is_absent() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(acts.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await look.poll()).absent == {ORDERS}


async def test_a_topic_that_may_not_be_described_still_shows_what_the_list_says() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.Deny("describe_topics"))

        observation = await look.poll()

        state = observation.partitions[ORDERS]
        assert (state.adding, state.described) == ((4,), False)
        assert state.out_of_sync == ()
        assert observation.absent == frozenset()
        assert look.reader.asked_offsets == []
        assert [(f.topic, f.denied) for f in observation.failures] == [("orders", True)]


async def test_a_lost_cluster_is_an_error_and_the_next_poll_tries_again() -> None:
    async with looking_at_a_move() as look:
        await look.do(*map(acts.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await look.poll()

        await look.do(*map(acts.Start, EVERYONE), then_wait_s=10.0)
        assert ORDERS in (await look.poll()).partitions


async def test_chosen_topics_are_shown_whole() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 3), a_topic("audit", (1, 2))) as look:
        observation = await look.poll(Interest(topics=frozenset({"orders"})))

        assert len(observation.partitions) == 3


async def test_unhealthy_partitions_are_found_by_a_census_and_then_looked_at_every_poll() -> None:
    interest = Interest(unhealthy=True)
    topics = a_topic("orders", (1, 2, 3), (1, 2, 4)), a_topic("audit", (5,))
    async with looking(*topics) as look:
        await look.do(acts.Kill(4), acts.Kill(5), then_wait_s=10.0)

        await look.poll(interest)
        observation = await look.poll(interest)

        sick, dead = TopicPartition("orders", 1), TopicPartition("audit", 0)
        assert observation.partitions.keys() == {sick, dead}
        assert observation.partitions[dead].leader is None
        assert observation.census is not None
        assert observation.census.partitions == 3
        assert observation.census.leaders == {1: 2}
        assert observation.census.replicas == {1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
        assert look.reader.calls["scan_topics"] == 1


async def test_of_very_many_unhealthy_partitions_the_worst_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.cluster.observer.MOST_UNHEALTHY", 2)
    topics = (
        a_topic("audit", *[(1, 2, 4)] * 5),
        a_topic("orders", (4, 5, 1)),
        a_topic("zebra", (5,)),
    )
    async with looking(*topics) as look:
        await look.do(acts.Kill(4), acts.Kill(5), then_wait_s=10.0)

        await look.poll(Interest(unhealthy=True))
        observation = await look.poll(Interest(unhealthy=True))

        assert observation.partitions.keys() == {
            TopicPartition("zebra", 0), TopicPartition("orders", 0)
        }  # fmt: skip


async def test_polls_never_overlap() -> None:
    async with looking_at_a_move() as look:
        await look.do(acts.ChangeController())  # until there is one, the list waits for it
        polls = [asyncio.create_task(look.observer.poll()) for _ in range(5)]
        await look.clock.advance(5.0)

        assert {(await poll).partitions.keys() == {ORDERS} for poll in polls} == {True}
        assert look.reader.most_lists_at_once == 1


async def test_chosen_partitions_are_looked_at_without_the_rest_of_their_topics() -> None:
    wanted = TopicPartition("audit", 1)
    async with looking(a_topic("orders", (1, 2)), a_topic("audit", *[(3, 4)] * 5)) as look:
        observation = await look.poll(Interest(partitions=frozenset({wanted})))

        assert observation.partitions.keys() == {wanted}
        assert observation.partitions[wanted].replicas == (3, 4)
        assert observation.topic_configs.keys() == {"audit"}
        assert look.reader.asked_offsets == []


async def test_a_chosen_partition_that_is_not_there_is_absent() -> None:
    wanted = {TopicPartition("orders", 7), TopicPartition("no-such-topic", 0)}
    async with looking(a_topic("orders", (1, 2))) as look:
        observation = await look.poll(Interest(partitions=frozenset(wanted)))

        assert observation.absent == wanted
        assert observation.partitions == {}


async def test_the_partitions_of_a_chosen_topic_are_absent_once_it_is_deleted() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    both = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    async with looking(a_topic("orders", (1, 2), (2, 3))) as look:
        assert (await look.poll(interest)).absent == frozenset()
        await look.do(acts.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await look.poll(interest)).absent == both


async def test_a_chosen_topic_made_again_smaller_has_lost_the_rest_of_its_partitions() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    async with looking(a_topic("orders", (1, 2), (2, 3))) as look:
        await look.poll(interest)
        again = acts.CreateTopic(a_topic("orders", (1, 2)))
        await look.do(acts.DeleteTopic("orders"), again, then_wait_s=1.0)

        observation = await look.poll(interest)

        assert observation.absent == {TopicPartition("orders", 1)}
        assert observation.partitions.keys() == {ORDERS}


FRESH = Interest(partitions=frozenset({ORDERS}), fresh=True)


async def test_a_fresh_poll_knows_what_was_decided_before_it() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(acts.Alter({ORDERS: (3, 1, 2)}))

        observation = await look.poll(FRESH)

        assert observation.partitions[ORDERS].replicas == (3, 1, 2)
        assert observation.fresh


async def test_any_other_poll_does_not_claim_to() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(acts.Alter({ORDERS: (3, 1, 2)}))

        observation = await look.poll(Interest(partitions=frozenset({ORDERS})))

        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
        assert not observation.fresh


async def test_what_cannot_be_known_to_be_fresh_is_still_seen_and_not_asked_for_at_every_poll() -> (
    None
):
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(acts.Deny("describe_quorum"))
        first, _ = await look.poll(FRESH), await look.poll(FRESH)

        assert not first.fresh
        assert first.partitions.keys() == {ORDERS}
        assert look.reader.calls["describe_topics"] == 3

        await look.do(acts.Allow("describe_quorum"), then_wait_s=FRESH_AGAIN_S)
        assert (await look.poll(FRESH)).fresh


async def test_brokers_that_are_far_behind_the_controller_are_waited_for_in_vain() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        look.cluster.metadata.lag_s = 20.0
        await look.do(acts.Alter({ORDERS: (3, 1, 2)}))
        polling = asyncio.create_task(look.observer.poll(FRESH))
        await look.clock.advance(10.0)

        observation = await polling

        assert not observation.fresh
        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
