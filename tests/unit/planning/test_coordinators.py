"""A plan's check says which groups and transactional ids change their coordinator."""

from __future__ import annotations

from ktui.cluster.coordination import java_hash
from ktui.cluster.internal_topics import GROUPS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ktui.cluster.partition import TopicPartition
from ktui.planning.check.check import check_plan
from ktui.planning.check.coordinators import coordinator_moves
from ktui.planning.check.findings import ClusterSnapshot, Finding, FindingKind
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated import events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec

GROUPS = tuple(f"group-{n}" for n in range(40))
TRANSACTIONS = tuple(f"writer-{n}" for n in range(30))
PLACES = ((1, 2), (2, 3), (3, 1), (1, 3))


def a_cluster() -> SimulatedCluster:
    topics = (GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC, "orders")
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=broker) for broker in (1, 2, 3, 4)),
        topics=tuple(TopicSpec(name=name, replicas=PLACES) for name in topics),
        groups=GROUPS,
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
    cluster.do(events.Deny("coordinated_ids"))
    seen, notes = await notes_of(plan, cluster)

    assert notes == []
    assert (coordinator_moves(plan, seen), seen.failures) == (None, ())


async def test_transactional_ids_that_may_not_be_described_are_named_with_the_missing_acl() -> None:
    cluster = a_cluster()
    cluster.do(events.Deny("coordinated_ids"))
    _, (note,) = await notes_of(Plan((move(TRANSACTIONS_TOPIC, 2, 4, 1),)), cluster)

    assert note.sentence == (
        'Describe on the transactional ids "*" is not granted to this principal, so the '
        "transactional ids that it may not describe are not counted. Grant it with kafka-acls --add"
        " --operation Describe --transactional-id '*'"
    )


async def test_groups_that_cannot_be_listed_are_not_counted_and_the_reason_is_given() -> None:
    cluster = a_cluster()
    cluster.do(events.Deny("coordinated_ids"))
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


async def test_share_groups_are_said_not_to_be_known() -> None:
    _, (note,) = await notes_of(Plan((move(SHARE_GROUPS_TOPIC, 3, 4, 1),)), a_cluster())

    assert note.partitions == (TopicPartition(SHARE_GROUPS_TOPIC, 3),)
    assert note.sentence.startswith("share groups keep their state by group, topic and partition")
