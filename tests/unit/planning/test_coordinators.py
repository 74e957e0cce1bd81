"""A plan's check says which groups and transactional ids change their coordinator."""

from __future__ import annotations

import msgspec

from ktui.cluster.coordination import (
    GROUPS_TOPIC,
    SHARE_GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    CoordinatedId,
    CoordinatedIds,
    CoordinatorKind,
    java_hash,
    share_state_key,
)
from ktui.cluster.partition import TopicPartition
from ktui.planning.check.check import check_plan, coordinator_moves
from ktui.planning.check.findings import ClusterSnapshot, Finding, FindingKind
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec

GROUPS = tuple(f"group-{n}" for n in range(40))
TRANSACTIONS = tuple(f"writer-{n}" for n in range(30))
SHARING = tuple(f"workers-{n}" for n in range(4))
JOBS_ID = "aJ3DPSc8T5CKuPbqlDZZ0Q"
PLACES = ((1, 2), (2, 3), (3, 1), (1, 3))


def a_cluster(*share_groups: str) -> SimulatedCluster:
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


def move(topic: str, number: int, *replicas: int) -> PartitionTarget:
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
    moves = [move(GROUPS_TOPIC, 0, 4, 2), move(GROUPS_TOPIC, 1, 2, 4)]
    plan = Plan((*moves, move(TRANSACTIONS_TOPIC, 2, 4, 1), move("orders", 0, 4, 2)))
    seen, (note,) = await notes_of(plan, a_cluster())

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
    plan = Plan((move(GROUPS_TOPIC, 0, 1, 4), move("orders", 0, 4, 2)))
    cluster = a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    seen, notes = await notes_of(plan, cluster)

    assert notes == []
    assert (coordinator_moves(plan, seen), seen.failures) == (None, ())


async def test_transactional_ids_that_may_not_be_described_are_named_with_the_missing_acl() -> None:
    cluster = a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    _, (note,) = await notes_of(Plan((move(TRANSACTIONS_TOPIC, 2, 4, 1),)), cluster)

    assert note.sentence == (
        'Describe on the transactional ids "*" is not granted to this principal, so the '
        "transactional ids that it may not describe are not counted. Grant it with kafka-acls --add"
        " --operation Describe --transactional-id '*'"
    )


async def test_groups_that_cannot_be_listed_are_not_counted_and_the_reason_is_given() -> None:
    cluster = a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    plan = Plan((move(GROUPS_TOPIC, 0, 4, 2), move(TRANSACTIONS_TOPIC, 2, 4, 1)))
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
    plan = Plan((move(SHARE_GROUPS_TOPIC, number, 4, 1),))
    seen, (note,) = await notes_of(plan, a_cluster(*SHARING))

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
    plan = Plan((move(GROUPS_TOPIC, 0, 4, 2),))
    seen, _ = await notes_of(plan, a_cluster())
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
    cluster = a_cluster()
    cluster.do(layout.Deny("coordinated_ids"))
    plan = Plan((move(SHARE_GROUPS_TOPIC, 3, 4, 1),))
    seen, (note,) = await notes_of(plan, cluster)

    assert note.sentence.startswith(
        "the share groups that change their coordinator could not be counted: listing groups "
        "(broker 1): not authorized"
    )
    found = coordinator_moves(plan, seen)
    assert found is not None
    assert found.share_groups is None
