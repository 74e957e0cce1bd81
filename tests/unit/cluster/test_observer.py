"""A poll costs what is in flight, and no broker holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from ktui.cluster.errors import NotAuthorized, Operation, Unreachable
from ktui.cluster.following import CLOSELY_S, FOLLOW_S, MOST, SELDOM_S
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import Replica, TopicPartition
from support.scripted_reader import ManualClock, ScriptedReader


@pytest.fixture
def reader() -> ScriptedReader:
    return ScriptedReader()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def observer(reader: ScriptedReader, clock: ManualClock) -> AsyncIterator[Observer]:
    observer = Observer(reader, clock, patience_s=0.05)
    yield observer
    for event in reader.hanging.values():
        event.set()
    await observer.aclose()


def moving(reader: ScriptedReader, topic: str = "orders", number: int = 0) -> TopicPartition:
    """[2,1,3] -> [4,1,3], the new replica half way."""
    tp = reader.add(topic, number, (2, 1, 3))
    reader.reassign(tp, replicas=(4, 1, 3, 2), adding=(4,), removing=(2,))
    reader.ends |= {(tp, 2): 1000, (tp, 4): 500}
    return tp


async def test_a_quiet_cluster_costs_two_calls_however_many_partitions_it_holds(
    reader: ScriptedReader, observer: Observer
) -> None:
    for number in range(100):
        reader.add("orders", number, (1, 2, 3))

    observation = await observer.poll()

    assert observation.partitions == {}
    assert reader.calls == {"describe_cluster": 1, "list_reassignments": 1}


async def test_a_moving_partition_shows_the_controllers_replicas_and_the_metadatas_isr(
    reader: ScriptedReader, observer: Observer
) -> None:
    tp = moving(reader)

    observation = await observer.poll()

    state = observation.partitions[tp]
    assert state.replicas == (4, 1, 3, 2)
    assert (state.adding, state.removing) == ((4,), (2,))
    assert (state.isr, state.leader) == ((2, 1, 3), 2)
    assert state.target == (4, 1, 3)
    assert set(state.original) == {2, 1, 3}


async def test_only_the_topics_and_replicas_that_move_are_asked_about(
    reader: ScriptedReader, observer: Observer
) -> None:
    tp = moving(reader)
    for number in range(5):
        reader.add("quiet", number, (1, 2, 3))

    observation = await observer.poll()

    assert reader.described == [frozenset({"orders"})]
    assert sorted(reader.asked_offsets) == [(2, frozenset({tp})), (4, frozenset({tp}))]
    assert observation.ends[Replica(tp, 2)].value == 1000
    assert observation.ends[Replica(tp, 4)].value == 500
    assert observation.starts[tp].value == 0


async def test_a_slow_broker_costs_its_own_figures_only_and_is_named(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    tp = moving(reader)
    await observer.poll()
    reader.hanging[4] = asyncio.Event()
    clock.seconds += 2.0
    reader.ends[tp, 2] = 1100

    observation = await observer.poll()

    assert observation.ends[Replica(tp, 2)].value == 1100
    assert observation.ends[Replica(tp, 4)].value == 500
    assert observation.ends[Replica(tp, 4)].at_s == clock.seconds - 2.0
    (failure,) = observation.failures
    assert (failure.operation, failure.broker) == (Operation.LOG_ENDS, 4)


async def test_a_slow_broker_is_not_asked_again_until_it_has_answered(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    moving(reader)
    reader.hanging[4] = asyncio.Event()
    for _ in range(3):
        await observer.poll()
        clock.seconds += 1.0

    assert [broker for broker, _ in reader.asked_offsets].count(4) == 1

    reader.hanging.pop(4).set()
    observation = await observer.poll()

    assert observation.failures == ()
    assert [broker for broker, _ in reader.asked_offsets].count(4) == 2


async def test_a_poll_does_not_wait_for_a_broker_that_hung_in_an_earlier_one(
    reader: ScriptedReader, clock: ManualClock
) -> None:
    tp = moving(reader)
    reader.hanging[4] = asyncio.Event()
    observer = Observer(reader, clock, patience_s=3_600.0)
    first = asyncio.create_task(observer.poll())
    for _ in range(20):
        await asyncio.sleep(0)
    first.cancel()
    assert (4, frozenset({tp})) in reader.asked_offsets
    clock.seconds += 3_600.0

    async with asyncio.timeout(10):
        observation = await observer.poll()

    assert [(f.operation, f.broker) for f in observation.failures] == [(Operation.LOG_ENDS, 4)]
    await observer.aclose()


async def test_an_answer_that_comes_between_two_polls_carries_the_second_it_came(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    tp = moving(reader)
    reader.hanging[4] = asyncio.Event()
    await observer.poll()
    clock.seconds += 1.0
    came_at_s = clock.seconds
    reader.hanging[4].set()
    for _ in range(5):
        await asyncio.sleep(0)
    reader.hanging[4] = asyncio.Event()
    clock.seconds += 1.0

    assert (await observer.poll()).ends[Replica(tp, 4)].at_s == came_at_s


async def test_an_error_is_no_longer_told_once_nobody_asks(
    reader: ScriptedReader, observer: Observer
) -> None:
    tp = moving(reader)
    for what in ("log_offsets", "log_dirs", "topic_configs"):
        reader.broken[what] = Unreachable(what)
    told = {failure.operation for failure in (await observer.poll()).failures}
    assert told == {Operation.LOG_ENDS, Operation.LOG_DIRS, Operation.TOPIC_CONFIGS}
    reader.listed.clear()
    del reader.partitions[tp]

    assert (await observer.poll()).failures == ()


async def test_a_census_that_failed_is_no_longer_told_once_nobody_wants_one(
    reader: ScriptedReader, observer: Observer
) -> None:
    reader.broken["scan_topics"] = Unreachable("describing topics")
    await observer.poll(Interest(census=True))
    assert (await observer.poll(Interest(census=True))).failures != ()

    assert (await observer.poll()).failures == ()


async def test_figures_of_a_deleted_topic_are_not_taken_for_those_of_its_namesake(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    tp = moving(reader)
    assert Replica(tp, 4) in (await observer.poll()).sizes
    reader.hanging[4] = asyncio.Event()
    clock.seconds += 1.0
    reader.partitions[tp] = msgspec.structs.replace(reader.partitions[tp], topic_id="another")

    observation = await observer.poll()

    assert Replica(tp, 4) not in observation.ends
    assert observation.sizes == {}
    assert observation.ends[Replica(tp, 2)].value == 1000


async def test_a_dead_broker_is_not_asked(reader: ScriptedReader, observer: Observer) -> None:
    moving(reader)
    del reader.brokers[4]

    observation = await observer.poll()

    assert [broker for broker, _ in reader.asked_offsets] == [2]
    assert not observation.alive(4)


async def test_a_missing_permission_is_reported_and_not_asked_for_at_every_poll(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    moving(reader)
    reader.broken["log_dirs"] = NotAuthorized("reading log dirs", fix="Grant Describe.")
    for _ in range(5):
        observation = await observer.poll()
        clock.seconds += 1.0

    denied = [f for f in observation.failures if f.operation is Operation.LOG_DIRS]
    assert {f.broker for f in denied} == {2, 4}
    assert all(f.denied for f in denied)
    assert reader.calls["log_dirs"] == 2


async def test_sizes_and_settings_are_read_less_often_than_log_ends(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    moving(reader)
    for _ in range(10):
        await observer.poll()
        clock.seconds += 1.0

    assert reader.calls["log_offsets"] == 20
    assert reader.calls["log_dirs"] == 4
    assert reader.calls["topic_configs"] == 1
    assert reader.calls["broker_config"] == 2


async def test_a_partition_that_left_the_list_is_looked_at_closely_for_a_while(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    tp = moving(reader)
    await observer.poll()
    reader.listed.clear()
    reader.add("orders", 0, (4, 1, 3))

    for _ in range(int(CLOSELY_S)):
        observation = await observer.poll()
        assert observation.partitions[tp].replicas == (4, 1, 3)
        assert not observation.partitions[tp].reassigning
        clock.seconds += 1.0


async def test_and_then_now_and_then_for_as_long_as_its_row_is_shown(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    tp = moving(reader)
    await observer.poll()
    reader.listed.clear()
    await observer.poll()
    clock.seconds += CLOSELY_S

    seen = []
    for _ in range(20):
        seen.append(tp in (await observer.poll()).partitions)
        clock.seconds += 1.0
    assert sum(seen) == 20 / SELDOM_S

    clock.seconds += FOLLOW_S
    assert (await observer.poll()).partitions == {}


async def test_thousands_that_have_ended_are_not_worth_a_poll_of_their_own(
    reader: ScriptedReader, observer: Observer
) -> None:
    for number in range(MOST + 10):
        moving(reader, number=number)
    await observer.poll()
    reader.listed.clear()

    assert len((await observer.poll()).partitions) == MOST


async def test_a_new_census_is_taken_as_soon_as_a_broker_goes_or_comes(
    reader: ScriptedReader, observer: Observer
) -> None:
    interest = Interest(unhealthy=True)
    tp = reader.add("orders", 0, (1, 2, 3))
    await observer.poll(interest)
    await observer.poll(interest)
    del reader.brokers[3]
    reader.add("orders", 0, (1, 2, 3), isr=(1, 2))

    await observer.poll(interest)
    observation = await observer.poll(interest)

    assert reader.calls["scan_topics"] == 2
    assert observation.partitions.keys() == {tp}


async def test_what_ended_while_the_cluster_was_lost_is_still_looked_at(
    reader: ScriptedReader, observer: Observer, clock: ManualClock
) -> None:
    tp = moving(reader)
    await observer.poll()
    reader.broken["list_reassignments"] = Unreachable("listing reassignments")
    with pytest.raises(Unreachable):
        await observer.poll()
    clock.seconds += 10 * CLOSELY_S
    reader.broken.clear()
    reader.listed.clear()

    assert tp in (await observer.poll()).partitions


async def test_a_census_under_way_is_not_a_failure(observer: Observer) -> None:
    observation = await observer.poll(Interest(census=True))

    assert observation.census is None
    assert observation.failures == ()


async def test_a_deleted_topic_is_absent(reader: ScriptedReader, observer: Observer) -> None:
    tp = moving(reader)
    await observer.poll()
    reader.listed.clear()
    reader.partitions.clear()

    assert (await observer.poll()).absent == {tp}


async def test_a_topic_that_may_not_be_described_still_shows_what_the_list_says(
    reader: ScriptedReader, observer: Observer
) -> None:
    tp = moving(reader)
    reader.partitions.clear()

    observation = await observer.poll()

    state = observation.partitions[tp]
    assert (state.adding, state.described) == ((4,), False)
    assert state.out_of_sync == ()
    assert observation.absent == frozenset()
    assert reader.asked_offsets == []


async def test_a_lost_cluster_is_an_error_and_the_next_poll_tries_again(
    reader: ScriptedReader, observer: Observer
) -> None:
    tp = moving(reader)
    reader.broken["list_reassignments"] = Unreachable("listing reassignments")
    with pytest.raises(Unreachable):
        await observer.poll()

    reader.broken.clear()
    assert tp in (await observer.poll()).partitions


async def test_chosen_topics_are_shown_whole(reader: ScriptedReader, observer: Observer) -> None:
    for number in range(3):
        reader.add("orders", number, (1, 2, 3))

    observation = await observer.poll(Interest(topics=frozenset({"orders"})))

    assert len(observation.partitions) == 3


async def test_unhealthy_partitions_are_found_by_a_census_and_then_looked_at_every_poll(
    reader: ScriptedReader, observer: Observer
) -> None:
    reader.add("orders", 0, (1, 2, 3))
    sick = reader.add("orders", 1, (1, 2, 3), isr=(1, 2))
    dead = reader.add("audit", 0, (3,), isr=(), leader=None)
    interest = Interest(unhealthy=True)

    await observer.poll(interest)
    observation = await observer.poll(interest)

    assert observation.partitions.keys() == {sick, dead}
    assert observation.census is not None
    assert observation.census.partitions == 3
    assert observation.census.leaders == {1: 2}
    assert observation.census.replicas == {1: 2, 2: 2, 3: 3}
    assert reader.calls["scan_topics"] == 1


async def test_polls_never_overlap(reader: ScriptedReader, observer: Observer) -> None:
    moving(reader)
    running = 0
    most = 0
    list_reassignments = reader.list_reassignments

    async def counted() -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        answer = await list_reassignments()
        running -= 1
        return answer

    reader.list_reassignments = counted  # type: ignore[assignment,method-assign]  # counts its callers
    await asyncio.gather(*(observer.poll() for _ in range(5)))

    assert most == 1
