"""Brokers, topics and partitions as a cluster describes them, with their ids, ends and bytes."""

from __future__ import annotations

import asyncio
import re

import pytest

from ktui.cluster.broker import (
    SHARE,
    SHARE_GROUPS_TOPIC,
    CoordinatedId,
    CoordinatorKind,
    coordinating_partition,
    java_hash,
    share_state_key,
)
from ktui.cluster.errors import ClusterError, Unreachable
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from support.contract.world import World, alter, hold_back, until


async def test_a_cluster_lists_its_brokers_with_address_and_rack(world: World) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.cluster_id
    assert answer.controller in answer.brokers
    assert answer.brokers.keys() == {1, 2, 3, 4, 5}
    for broker in answer.brokers.values():
        assert broker.alive
        assert broker.host
        assert broker.port > 0
        assert broker.rack


async def test_a_cluster_reports_whether_moves_wait_for_kept_replicas(
    world: World, version: str
) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.waits_for_kept is (version in ("3.9", "4.0", "4.1", "4.2"))


async def test_a_cluster_reports_whether_it_refuses_targets_on_cordoned_brokers(
    world: World, version: str
) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.refuses_cordoned is (version not in ("3.9", "4.0", "4.1", "4.2", "4.3"))


async def test_a_cluster_reports_whether_it_lists_fenced_brokers(
    world: World, version: str
) -> None:
    answer = await world.reader.describe_cluster()

    assert answer.reports_fenced is (version != "3.9")


async def test_a_topic_is_described_in_full(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[2, 1, 3], [5, 4, 1]])

    answer = await world.reader.describe_topics([topic_name])

    first, second = (answer.partitions[TopicPartition(topic_name, p)] for p in (0, 1))
    assert (first.replicas, first.leader, set(first.isr)) == ((2, 1, 3), 2, {1, 2, 3})
    assert (second.replicas, second.leader, set(second.isr)) == ((5, 4, 1), 5, {1, 4, 5})
    assert first.leader_epoch is not None
    assert first.offline == ()
    assert first.topic_id == second.topic_id
    assert first.topic_id is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first.topic_id)
    assert (answer.absent, answer.failures) == (frozenset(), ())


async def test_two_topics_have_different_ids(world: World, topic_name: str) -> None:
    other = f"{topic_name}-b"
    await world.create_topic(topic_name, [[1]])
    await world.create_topic(other, [[1]])

    answer = await world.reader.describe_topics([topic_name, other])

    assert len({p.topic_id for p in answer.partitions.values()}) == 2


async def test_absent_topics_are_distinguished_from_present_ones(
    world: World, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2]])
    absent = f"{topic_name}-not-there"

    answer = await world.reader.describe_topics([absent, topic_name])

    assert answer.partitions.keys() == {TopicPartition(topic_name, 0)}
    assert answer.absent == {absent}


async def test_an_invalid_topic_name_is_a_failure_of_its_own(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[1]])

    answer = await world.reader.describe_topics([topic_name, "no topic\x1b[31m"])

    assert TopicPartition(topic_name, 0) in answer.partitions
    (failure,) = answer.failures
    assert failure.topic == r"no topic\x1b[31m"
    assert "INVALID_TOPIC_EXCEPTION" in failure.answer


async def test_an_empty_list_of_names_has_an_empty_answer(world: World) -> None:
    assert (await world.reader.describe_topics([])).partitions == {}
    assert (await world.reader.topic_configs([])).configs == {}


async def test_a_topic_larger_than_a_page_is_described_whole_and_every_page_as_fresh_as_asked(
    world: World, topic_name: str
) -> None:
    small = f"{topic_name}-z"
    await world.create_topic(topic_name, [[p % 5 + 1] for p in range(2_100)])
    await world.create_topic(small, [[1]])

    answer = await world.reader.describe_topics([small, topic_name])

    assert len(answer.partitions) == 2_101
    assert answer.partitions[TopicPartition(topic_name, 2_099)].replicas == (2_099 % 5 + 1,)

    pages = [page async for page in world.reader.scan_topics()]
    found = [tp for page in pages for tp in page.partitions]
    assert len(pages) > 1
    assert max(len(page.partitions) for page in pages) <= 2_000
    assert len(found) == len(set(found))
    assert answer.partitions.keys() <= set(found)

    last = TopicPartition(topic_name, 2_099)
    for replicas in [(5, 1), (1, 5)] * 5:
        altered = await alter(world, last, replicas, factor=True)
        assert altered.verdict is Verdict.ACCEPTED, altered

        answer = await world.reader.describe_topics([topic_name], fresh=True)

        assert len(answer.partitions) == 2_100
        assert answer.partitions[last].replicas == replicas


async def test_calls_can_be_made_concurrently(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[1, 2, 3, 4, 5]])
    tp = TopicPartition(topic_name, 0)
    reader = world.reader

    answers = await asyncio.gather(
        *(reader.log_offsets(broker, ends=[tp]) for broker in range(1, 6) for _ in range(20)),
        *(reader.list_reassignments() for _ in range(20)),
    )

    assert len(answers) == 120


async def test_closing_is_idempotent_and_later_calls_raise(world: World) -> None:
    await world.reader.describe_cluster()

    await world.reader.aclose()
    await world.reader.aclose()

    with pytest.raises(ClusterError):
        await world.reader.list_reassignments()


@pytest.fixture
async def tp(world: World, topic_name: str) -> TopicPartition:
    """A partition on brokers 2, 1 and 3 that holds 4,000 messages."""
    await world.create_topic(topic_name, [[2, 1, 3], [1, 2, 3]])
    tp = TopicPartition(topic_name, 0)
    await world.append(tp, 4_000, 1_000)
    return tp


async def test_a_leader_reports_its_log_end_and_log_start(world: World, tp: TopicPartition) -> None:
    answer = await world.reader.log_offsets(2, ends=[tp], starts=[tp])

    assert answer.ends == {tp: 4_000}
    assert answer.starts == {tp: 0}
    assert answer.errors == {}


async def test_a_follower_reports_its_own_log_end_while_it_catches_up(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))

    async def behind() -> int | None:
        return (await world.reader.log_offsets(4, ends=[tp])).ends.get(tp)

    follower = await until(behind, clock=world.clock)
    leader = (await world.reader.log_offsets(2, ends=[tp])).ends[tp]

    assert 0 < follower < leader == 4_000


async def test_an_in_sync_follower_has_the_log_end_of_its_leader(
    world: World, tp: TopicPartition
) -> None:
    async def caught_up() -> bool:
        return (await world.reader.log_offsets(1, ends=[tp])).ends == {tp: 4_000}

    assert await until(caught_up, clock=world.clock)


async def test_partitions_a_broker_cannot_answer_for_are_named_beside_the_answers(
    world: World, tp: TopicPartition
) -> None:
    absent = TopicPartition(f"{tp.topic}-not-there", 0)

    here = await world.reader.log_offsets(2, ends=[tp, absent])
    elsewhere = await world.reader.log_offsets(5, ends=[tp])

    assert here.ends == {tp: 4_000}
    assert here.errors == {absent: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert elsewhere.ends == {}
    assert elsewhere.errors == {tp: "NOT_LEADER_OR_FOLLOWER"}


async def test_a_log_dir_reports_its_free_space_and_the_sizes_of_requested_partitions(
    world: World, tp: TopicPartition
) -> None:
    async def sized() -> bool:
        return (await world.reader.log_dirs(1, [tp])).sizes.get(tp, 0) >= 4_000_000

    await until(sized, clock=world.clock)
    answer = await world.reader.log_dirs(1, [tp])

    assert answer.sizes.keys() == {tp}
    assert 4_000_000 <= answer.sizes[tp] < 8_000_000
    (only,) = answer.log_dirs
    assert (only.broker, only.error, only.cordoned) == (1, None, False)
    assert only.total_bytes is not None
    assert only.usable_bytes is not None
    assert 0 < only.usable_bytes < only.total_bytes


async def test_log_dirs_can_be_read_without_partitions(world: World, tp: TopicPartition) -> None:
    answer = await world.reader.log_dirs(2, [])

    assert len(answer.log_dirs) == 1
    assert answer.sizes == {}
    assert (await world.reader.log_dirs(5, [tp])).sizes == {}


async def test_an_unknown_broker_is_unreachable(world: World) -> None:
    with pytest.raises(Unreachable, match="broker 77"):
        await world.reader.log_dirs(77, [])


NO_SHARE_GROUPS = ("3.9", "4.0", "4.1")


async def coordinators(world: World, kind: CoordinatorKind, name: str) -> list[tuple[int, int]]:
    """Return the brokers that report an id, each with the leader of the partition that keeps it."""
    known = (await world.reader.describe_topics([kind.topic])).partitions
    found = []
    for broker in range(1, 6):
        answer = await world.reader.coordinated_ids(broker, kind)
        for each in answer.ids:
            if each.name == name:
                number = coordinating_partition(each, len(known))
                leaders = {tp.partition: state.leader or 0 for tp, state in known.items()}
                found.append((broker, leaders[number]))
    return found


@pytest.mark.parametrize("coordinated", [CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION])
async def test_the_leader_of_its_partition_alone_reports_an_id(
    world: World, topic_name: str, coordinated: CoordinatorKind
) -> None:
    await world.use_coordinator(coordinated, topic_name)

    async def reported() -> bool:
        return bool(await coordinators(world, coordinated, topic_name))

    await until(reported, clock=world.clock)

    ((broker, leader),) = await coordinators(world, coordinated, topic_name)
    assert broker == leader
    assert (await world.reader.coordinated_ids(broker, coordinated)).lacks == ""


async def state_written(world: World) -> dict[int, int]:
    """Return the log ends of the topic that keeps share groups' state, by partition."""
    known = (await world.reader.describe_topics([SHARE_GROUPS_TOPIC])).partitions
    ends = {}
    for tp, state in known.items():
        answer = await world.reader.log_offsets(state.leader or 0, ends=[tp])
        ends[tp.partition] = answer.ends[tp]
    return ends


async def test_a_share_group_is_reported_by_its_coordinator_with_the_place_of_its_state(
    world: World, topic_name: str, version: str, *, is_real: bool
) -> None:
    if version in NO_SHARE_GROUPS:
        pytest.skip("share groups are off by default before Kafka 4.2")
    await world.create_topic(topic_name, [[1, 2]])
    before = await state_written(world)
    await world.use_coordinator(CoordinatorKind.SHARE_GROUP, topic_name)

    async def reported() -> bool:
        for broker in range(1, 6):
            answer = await world.reader.coordinated_ids(broker, CoordinatorKind.SHARE_GROUP)
            found.update({one: broker for one in answer.ids if one.name == topic_name})
        return bool(found)

    found: dict[CoordinatedId, int] = {}
    await until(reported, clock=world.clock)

    tp = TopicPartition(topic_name, 0)
    topic_id = (await world.reader.describe_topics([topic_name])).partitions[tp].topic_id
    ((state, broker),) = found.items()
    assert state.hash == java_hash(share_state_key(topic_name, str(topic_id), 0))
    assert state.type == SHARE
    ((coordinator, leader),) = await coordinators(world, CoordinatorKind.GROUP, topic_name)
    assert broker == coordinator == leader
    if is_real:
        after = await state_written(world)
        grown = {number for number, end in after.items() if end > before.get(number, 0)}
        assert grown == {coordinating_partition(state, len(after))}
