"""Elections on a simulated controller (KIP-460) and ISR changes by leaders (KIP-497)."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.simulated.controller.controller import RECORDS
from support.simulated.controllers import TP, Kept

ACCEPTED = WriteResult(Verdict.ACCEPTED)


def test_an_election_makes_the_first_replica_leader() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(3, 1, 2)

    assert kept.elect() == ACCEPTED

    assert kept.record().leader == 3


def test_an_unneeded_election_counts_as_accepted() -> None:
    assert Kept((2, 1, 3)).elect() == WriteResult(
        Verdict.ACCEPTED, "ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."
    )


def test_a_preferred_leader_outside_the_isr_is_not_elected() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 2, 1, 3)

    assert kept.elect() == WriteResult(
        Verdict.REFUSED, "PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available."
    )
    assert kept.record().leader == 2


def test_an_election_of_missing_partitions_is_refused_beside_the_rest() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(1, 2, 3)
    no_partition, no_topic = TopicPartition("orders", 7), TopicPartition("audit", 0)

    results = kept.controller.elect([no_partition, no_topic, TP])

    assert results == {
        no_partition: WriteResult(
            Verdict.REFUSED, "UNKNOWN_TOPIC_OR_PARTITION", "No such partition as orders-7"
        ),
        no_topic: WriteResult(
            Verdict.REFUSED, "UNKNOWN_TOPIC_OR_PARTITION", "No such topic as audit"
        ),
        TP: ACCEPTED,
    }
    assert kept.record().leader == 1


def test_an_election_above_the_request_limit_is_refused_as_a_whole() -> None:
    kept = Kept(*[(1, 2)] * (RECORDS + 1))
    partitions = [TopicPartition("orders", number) for number in range(RECORDS + 1)]
    for chunk in (partitions[:RECORDS], partitions[RECORDS:]):
        kept.controller.alter(dict.fromkeys(chunk, (2, 1)), allow_replication_factor_change=False)

    results = kept.controller.elect(partitions)

    assert {result.code for result in results.values()} == {"POLICY_VIOLATION"}
    assert kept.record().leader == 1


def test_leaders_are_rebalanced_to_in_sync_first_replicas_some_at_a_time() -> None:
    kept = Kept(*[(1, 2)] * 5)
    partitions = [TopicPartition("orders", number) for number in range(5)]
    kept.controller.alter(dict.fromkeys(partitions, (2, 1)), allow_replication_factor_change=False)
    kept.controller.alter_isr(partitions[0], (1,), 1)

    assert kept.controller.rebalance_leaders(most=3) == 3
    assert [kept.record(tp).leader for tp in partitions] == [1, 2, 2, 2, 1]
    assert kept.controller.rebalance_leaders(most=3) == 1
    assert kept.controller.rebalance_leaders(most=3) == 0


def test_leaders_are_rebalanced_during_a_move_too() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(3, 2, 4)

    assert kept.controller.rebalance_leaders() == 1

    assert kept.record().leader == 3
    assert kept.record().adding == (4,)


def test_the_isr_keeps_the_order_sent_by_the_leader() -> None:
    kept = Kept((2, 1, 3))
    kept.drop_out(1)
    kept.join(1)

    assert kept.record().isr == (2, 3, 1)


def test_repeating_the_same_isr_changes_nothing() -> None:
    kept = Kept((2, 1, 3))
    before = kept.record()

    assert kept.controller.alter_isr(TP, (2, 1, 3), 2) is None

    assert kept.record() is before


@pytest.mark.parametrize(
    ("tp", "isr", "leader", "error"),
    [
        (TP, (2, 3), 3, "FENCED_LEADER_EPOCH"),
        (TP, (1, 3), 2, "INVALID_REQUEST"),
        (TP, (2, 2), 2, "INVALID_REQUEST"),
        (TP, (2, 5), 2, "INVALID_REQUEST"),
        (TP, (2, 1, 3), 2, "INELIGIBLE_REPLICA"),
        (TopicPartition("orders", 7), (2,), 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        (TopicPartition("audit", 0), (2,), 2, "UNKNOWN_TOPIC_ID"),
    ],
)
def test_an_invalid_isr_is_refused(
    tp: TopicPartition, isr: tuple[int, ...], leader: int, error: str
) -> None:
    kept = Kept((2, 1, 3))
    kept.fence(3)
    before = kept.record()

    assert kept.controller.alter_isr(tp, isr, leader) == error

    assert kept.record() is before


def test_a_broker_shutting_down_cannot_join_an_isr() -> None:
    kept = Kept((2, 1, 3))
    kept.controller.controlled_shutdown(3)

    assert kept.join(3) == "INELIGIBLE_REPLICA"


def test_a_leader_that_completes_its_own_removal_learns_of_the_new_leader() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(1, 3, 4)

    assert kept.join(4) == "NEW_LEADER_ELECTED"

    assert kept.record().leader == 1
