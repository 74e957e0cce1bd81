"""Snapshots, and coordinators that move."""

from collections.abc import Collection

import msgspec
import pytest

from ktui.cluster.broker import (
    GROUPS_TOPIC,
    SHARE_GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    CoordinatedId,
    CoordinatedIds,
    CoordinatorKind,
    java_hash,
    share_state_key,
)
from ktui.cluster.errors import Operation, TimedOut, Unsupported
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer, TopicConfigsAnswer, TopicsAnswer
from ktui.planning.check.check import check_plan, coordinator_moves
from ktui.planning.check.findings import ClusterSnapshot, Finding, FindingKind, Severity
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.reader import SimulatedReader
from support.simulated.moving_clusters import a_cluster, move, throttle, tp, wait

PLAN = Plan((PartitionTarget("orders", 0, (4, 2, 3)), PartitionTarget("orders", 1, (2, 3, 1))))
SIZE = 1_000_000_000


def orders() -> SimulatedCluster:
    return a_cluster({"orders": [(1, 2, 3), (2, 3, 1), (5, 6, 7)], "payments": [(5, 6, 7)]})


async def test_sizes_are_read_for_the_plans_partitions_at_their_leaders() -> None:
    seen = await take_snapshot(orders().reader(), PLAN)

    assert seen.sizes == {Replica(tp("orders-0"), 1): SIZE, Replica(tp("orders-1"), 2): SIZE}
    assert (seen.size(tp("orders-0")), seen.size(tp("orders-2"))) == (SIZE, None)
    assert seen.failures == ()


async def test_brokers_report_the_log_dirs_of_replicas_for_which_the_plan_names_one() -> None:
    dirs = ("/var/lib/kafka/data", "any", "any")
    plan = Plan((PartitionTarget("orders", 0, (3, 4, 2), dirs),))

    seen = await take_snapshot(orders().reader(), plan)

    assert seen.held_in == {Replica(tp("orders-0"), 3): "/var/lib/kafka/data"}
    assert seen.size(tp("orders-0")) == SIZE


async def test_only_brokers_that_have_or_gain_replicas_are_asked() -> None:
    seen = await take_snapshot(orders().reader(), PLAN)

    assert set(seen.log_dirs) == set(seen.broker_configs) == {1, 2, 3, 4}
    assert {each.broker for dirs in seen.log_dirs.values() for each in dirs} == {1, 2, 3, 4}


async def test_throttles_of_brokers_are_read() -> None:
    cluster = orders()
    cluster.do(throttle("follower", 4, 5_000_000))

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert seen.broker_configs[4].follower_throttle_rate == 5_000_000


async def test_a_topic_that_brokers_do_not_know_by_its_name_in_the_metadata_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def renamed(_: SimulatedReader, names: Collection[str]) -> TopicConfigsAnswer:
        return TopicConfigsAnswer({}, absent=tuple(names))

    monkeypatch.setattr(SimulatedReader, "topic_configs", renamed)

    seen = await take_snapshot(orders().reader(), PLAN)

    assert seen.denied_by_brokers == {"orders"}
    assert not orders_can_be_started(seen)


def orders_can_be_started(seen: ClusterSnapshot) -> bool:
    return all(finding.severity is not Severity.PROBLEM for finding in check_plan(PLAN, seen))


async def test_brokers_that_are_down_are_not_asked() -> None:
    cluster = SimulatedCluster(orders().spec, VirtualClock(leaping=True))
    cluster.do(layout.Shutdown(4))
    wait(cluster, 5.0)

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert 4 not in seen.log_dirs
    assert seen.failures == ()


async def test_denied_log_dirs_and_settings_are_missing_and_named_by_broker() -> None:
    cluster = orders()
    cluster.do(layout.Deny("log_dirs"))
    cluster.do(layout.Deny("broker_config"))

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert (seen.sizes, seen.log_dirs, seen.broker_configs) == ({}, {}, {})
    assert [(f.operation, f.broker, f.denied) for f in seen.failures] == [
        (operation, broker, True)
        for operation in (Operation.LOG_DIRS, Operation.BROKER_CONFIGS)
        for broker in (1, 2, 3, 4)
    ]


async def test_denied_topic_settings_are_missing_and_named() -> None:
    cluster = orders()
    cluster.do(layout.Deny("topic_configs"))

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert seen.configs == {}
    assert [(f.operation, f.topic, f.denied) for f in seen.failures] == [
        (Operation.TOPIC_CONFIGS, "orders", True)
    ]


async def test_a_broker_that_does_not_answer_leaves_only_its_own_figures_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = SimulatedReader.log_dirs

    async def log_dirs(
        reader: SimulatedReader, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        if broker == 1:
            raise TimedOut("describing log dirs", where="broker 1")
        return await answer(reader, broker, partitions)

    monkeypatch.setattr(SimulatedReader, "log_dirs", log_dirs)

    seen = await take_snapshot(orders().reader(), PLAN)

    assert seen.sizes == {Replica(tp("orders-1"), 2): SIZE}
    assert set(seen.log_dirs) == {2, 3, 4}
    assert [(f.broker, f.denied) for f in seen.failures] == [(1, False)]


@pytest.mark.parametrize("trouble", [Unsupported, TimedOut])
async def test_a_snapshot_falls_back_to_metadata_that_may_not_be_fresh(
    monkeypatch: pytest.MonkeyPatch, trouble: type[Unsupported | TimedOut]
) -> None:
    asked: list[bool] = []
    answer = SimulatedReader.describe_topics

    async def describe_topics(
        reader: SimulatedReader, names: Collection[str], *, fresh: bool = False
    ) -> TopicsAnswer:
        asked.append(fresh)
        if fresh:
            raise trouble("waiting for fresh metadata")
        return await answer(reader, names)

    monkeypatch.setattr(SimulatedReader, "describe_topics", describe_topics)

    seen = await take_snapshot(orders().reader(), PLAN)

    assert asked == [True, False]
    assert tp("orders-0") in seen.partitions


async def test_a_partition_that_someone_else_moves_has_the_size_of_its_leader() -> None:
    cluster = orders()
    cluster.do(move("orders-0", 6, 2, 3))
    wait(cluster, 1.0)
    reader: ClusterReader = cluster.reader()

    seen = await take_snapshot(reader, PLAN)

    assert tp("orders-0") in seen.listed
    assert seen.size(tp("orders-0")) == SIZE


GROUPS = tuple(f"group-{n}" for n in range(40))
TRANSACTIONS = tuple(f"writer-{n}" for n in range(30))
SHARING = tuple(f"workers-{n}" for n in range(4))
JOBS_ID = "aJ3DPSc8T5CKuPbqlDZZ0Q"
PLACES = ((1, 2), (2, 3), (3, 1), (1, 3))


def coordinators_a_cluster(*share_groups: str) -> SimulatedCluster:
    topics = (GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC, "orders")
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=broker) for broker in (1, 2, 3, 4)),
        topics=(
            *(TopicSpec(name=name, replicas=PLACES) for name in topics),
            TopicSpec(name="jobs", replicas=PLACES[:1], id=JOBS_ID),
        ),
        groups=GROUPS,
        share_groups=dict.fromkeys(share_groups, ("jobs",)),
        transactional_ids=TRANSACTIONS,
        auto_leader_rebalance=False,
    )
    return SimulatedCluster(spec, VirtualClock(leaping=True))


def coordinators_move(topic: str, number: int, *replicas: int) -> PartitionTarget:
    return PartitionTarget(topic, number, replicas)


async def notes_of(plan: Plan, cluster: SimulatedCluster) -> tuple[ClusterSnapshot, list[Finding]]:
    seen = await take_snapshot(cluster.reader(), plan)
    found = check_plan(plan, seen)
    return seen, [each for each in found if each.kind is FindingKind.COORDINATORS_MOVE]


def state_partition(group: str) -> int:
    return abs(java_hash(share_state_key(group, JOBS_ID, 0))) % len(PLACES)


def in_partitions(names: tuple[str, ...], *numbers: int) -> int:
    return sum(abs(java_hash(name)) % len(PLACES) in numbers for name in names)


async def test_what_changes_its_coordinator_is_counted_with_the_partitions() -> None:
    moves = [coordinators_move(GROUPS_TOPIC, 0, 4, 2), coordinators_move(GROUPS_TOPIC, 1, 2, 4)]
    plan = Plan(
        (
            *moves,
            coordinators_move(TRANSACTIONS_TOPIC, 2, 4, 1),
            coordinators_move("orders", 0, 4, 2),
        )
    )
    seen, (note,) = await notes_of(plan, coordinators_a_cluster())

    groups, transactions = in_partitions(GROUPS, 0), in_partitions(TRANSACTIONS, 2)
    assert 1 < groups < len(GROUPS)
    assert note.sentence == (
        f"{groups} groups and {transactions} transactional ids change their coordinator with the "
        "leaders of __consumer_offsets-0 and __transaction_state-2: commits wait meanwhile"
    )
    found = coordinator_moves(plan, seen)
    assert found is not None
    assert (found.groups, found.transactional_ids) == (groups, transactions)
    assert found.partitions == note.partitions


async def test_a_plan_that_moves_no_internal_leader_asks_no_broker_and_says_nothing() -> None:
    plan = Plan((coordinators_move(GROUPS_TOPIC, 0, 1, 4), coordinators_move("orders", 0, 4, 2)))
    cluster = coordinators_a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    seen, notes = await notes_of(plan, cluster)

    assert notes == []
    assert (coordinator_moves(plan, seen), seen.failures) == (None, ())


async def test_transactional_ids_that_may_not_be_described_are_named_with_the_missing_acl() -> None:
    cluster = coordinators_a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    _, (note,) = await notes_of(Plan((coordinators_move(TRANSACTIONS_TOPIC, 2, 4, 1),)), cluster)

    assert note.sentence == (
        'Describe on the transactional ids "*" is not granted to this principal, so the '
        "transactional ids that it may not describe are not counted. Grant it with kafka-acls --add"
        " --operation Describe --transactional-id '*'"
    )


async def test_groups_that_cannot_be_listed_are_not_counted_and_the_reason_is_given() -> None:
    cluster = coordinators_a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    plan = Plan(
        (coordinators_move(GROUPS_TOPIC, 0, 4, 2), coordinators_move(TRANSACTIONS_TOPIC, 2, 4, 1))
    )
    seen, notes = await notes_of(plan, cluster)

    assert len(notes) == 2
    assert notes[0].sentence.startswith(
        "the groups that change their coordinator could not be counted: listing groups (broker 1): "
        "not authorized"
    )
    found = coordinator_moves(plan, seen)
    assert found is not None
    assert found.groups is None


async def test_share_groups_are_counted_that_keep_state_where_a_leader_moves() -> None:
    kept = {
        partition: [group for group in SHARING if state_partition(group) == partition]
        for partition in range(len(PLACES))
    }
    number, (only,) = next((n, names) for n, names in kept.items() if len(names) == 1)
    plan = Plan((coordinators_move(SHARE_GROUPS_TOPIC, number, 4, 1),))
    seen, (note,) = await notes_of(plan, coordinators_a_cluster(*SHARING))

    assert only in SHARING
    assert note.partitions == (TopicPartition(SHARE_GROUPS_TOPIC, number),)
    assert note.sentence == (
        f"1 share group keeps state in __share_group_state-{number}: deliveries and "
        "acknowledgements wait while leaders move"
    )
    found = coordinator_moves(plan, seen)
    assert found is not None
    assert (found.share_groups, found.groups) == (1, 0)


async def test_clients_are_told_apart_by_what_they_wait_for_when_their_coordinator_moves() -> None:
    plan = Plan((coordinators_move(GROUPS_TOPIC, 0, 4, 2),))
    seen, _ = await notes_of(plan, coordinators_a_cluster())
    ids = tuple(
        CoordinatedId(name, len(PLACES), of)
        for name, of in (("a", "classic"), ("b", "consumer"), ("c", "streams"), ("d", "share"))
    )
    told = msgspec.structs.replace(seen, coordinated={CoordinatorKind.GROUP: CoordinatedIds(ids)})
    commits, joining = (
        each.sentence
        for each in check_plan(plan, told)
        if each.kind is FindingKind.COORDINATORS_MOVE
    )

    leaders = "coordinator with the leaders of __consumer_offsets-0"
    assert commits == (
        f"2 groups and 1 streams group change their {leaders}: commits wait meanwhile"
    )
    assert joining == (
        f"1 share group changes its {leaders}: members that join or leave wait meanwhile, the "
        "others go on"
    )


async def test_share_groups_that_cannot_be_described_are_not_counted_and_the_reason_is_given() -> (
    None
):
    cluster = coordinators_a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    plan = Plan((coordinators_move(SHARE_GROUPS_TOPIC, 3, 4, 1),))
    seen, (note,) = await notes_of(plan, cluster)

    assert note.sentence.startswith(
        "the share groups that change their coordinator could not be counted: listing groups "
        "(broker 1): not authorized"
    )
    found = coordinator_moves(plan, seen)
    assert found is not None
    assert found.share_groups is None
