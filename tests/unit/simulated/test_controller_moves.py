"""Reassignments on a simulated controller (KIP-455), as a real one decides them."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.simulated.controller.controller import RECORDS
from support.simulated.witness import TP, Kept

ACCEPTED = WriteResult(Verdict.ACCEPTED)
BEFORE_4_3 = ("3.9", "4.0", "4.1", "4.2")


def refusal(code: str, message: str) -> WriteResult:
    return WriteResult(Verdict.REFUSED, code, message)


def test_a_move_is_recorded_as_its_target_in_order_then_the_removed_replicas() -> None:
    kept = Kept((2, 1, 3))

    assert kept.alter(4, 5, 3, factor=False) == ACCEPTED

    moving = kept.record()
    assert moving.replicas == (4, 5, 3, 1, 2)
    assert (moving.adding, moving.removing) == ((4, 5), (1, 2))
    assert (moving.isr, moving.leader) == ((2, 1, 3), 2)
    assert kept.controller.reassigning == {TP: moving}


@pytest.mark.parametrize("version", [*BEFORE_4_3, "4.3"])
def test_a_move_is_done_when_its_whole_target_is_in_sync(version: str) -> None:
    kept = Kept((2, 1, 3), version=version)
    kept.alter(4, 5, 3)

    assert kept.join(4) is None
    assert kept.record().reassigning

    assert kept.join(5) == "NEW_LEADER_ELECTED"
    done = kept.record()
    assert (done.replicas, done.isr, done.leader) == ((4, 5, 3), (3, 4, 5), 4)
    assert not kept.controller.reassigning


@pytest.mark.parametrize("version", BEFORE_4_3)
def test_a_kept_replica_out_of_sync_blocks_the_move_before_4_3(version: str) -> None:
    kept = Kept((1, 2, 3), version=version)
    kept.fence(3)
    kept.alter(1, 4, 3)

    kept.join(4)
    assert kept.record().reassigning

    kept.controller.unfence(3)
    kept.join(3)
    assert kept.record().replicas == (1, 4, 3)


def test_a_move_waits_only_for_added_replicas_from_4_3_whatever_the_minimum_isr() -> None:
    kept = Kept((3, 1, 2), configs={"min.insync.replicas": "2"})
    kept.drop_out(1, 2)
    kept.alter(1, 2, 4)

    kept.join(4)

    done = kept.record()
    assert (done.replicas, done.isr, done.leader) == ((1, 2, 4), (4,), 4)


def test_a_shrinking_move_still_waits_for_all_kept_replicas_from_4_3() -> None:
    kept = Kept((1, 2, 3, 4))
    kept.drop_out(2)
    kept.alter(1, 2, 5)

    kept.join(5)
    assert kept.record().reassigning

    kept.join(2)
    assert kept.record().replicas == (1, 2, 5)


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_a_removal_waits_for_all_kept_replicas(version: str) -> None:
    kept = Kept((1, 2, 3), version=version)
    kept.drop_out(2)

    kept.alter(1, 2)
    assert kept.record().removing == (3,)

    kept.join(2)
    assert kept.record().replicas == (1, 2)


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_a_removal_with_all_kept_replicas_in_sync_is_done_at_once_and_never_listed(
    version: str,
) -> None:
    kept = Kept((3, 1, 2), version=version)

    kept.alter(1, 2)

    assert [change.after for change in kept.changes[1:]] == [kept.record()]
    assert kept.record().replicas == (1, 2)
    assert kept.record().leader == 1


def test_a_new_replica_order_applies_at_once_and_does_not_move_the_leader() -> None:
    kept = Kept((2, 1, 3))

    kept.alter(3, 1, 2)

    assert kept.record().replicas == (3, 1, 2)
    assert (kept.record().leader, kept.record().isr) == (2, (2, 1, 3))


def test_repeating_the_same_target_changes_nothing() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)
    before = kept.record()

    assert kept.alter(4, 1, 3) == ACCEPTED

    assert kept.record() is before


def test_a_target_that_keeps_a_replica_being_removed_is_accepted_without_effect() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)
    before = kept.record()

    assert kept.alter(4, 1, 3, 2) == ACCEPTED

    assert kept.record() is before


def test_retargeting_a_moving_partition_loses_its_original_replicas() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)
    kept.alter(4, 5, 1)

    assert kept.cancel() == ACCEPTED

    assert kept.record().replicas == (4, 1, 2, 3)
    assert not kept.record().reassigning


def test_altering_back_to_the_original_hangs_on_4_3_until_it_is_cancelled() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)

    kept.alter(2, 1, 3)
    kept.join(4)

    stuck = kept.record()
    assert (stuck.replicas, stuck.adding, stuck.removing) == ((2, 1, 3, 4), (4,), (4,))
    kept.cancel()
    assert kept.record().replicas == (2, 1, 3)


@pytest.mark.parametrize("version", BEFORE_4_3)
def test_altering_back_to_the_original_is_done_at_once_before_4_3(version: str) -> None:
    kept = Kept((2, 1, 3), version=version)
    kept.alter(4, 1, 3)

    kept.alter(2, 1, 3)

    assert kept.record().replicas == (2, 1, 3)
    assert not kept.record().reassigning


@pytest.mark.parametrize(("version", "hangs"), [("4.2", False), ("4.3", True)])
def test_a_new_target_that_drops_a_replica_being_added_hangs_on_4_3(
    version: str, *, hangs: bool
) -> None:
    kept = Kept((2, 1, 3), version=version)
    kept.alter(4, 1, 3)

    kept.alter(1, 3)

    assert kept.record().reassigning is hangs


def test_a_target_that_names_a_replica_being_removed_still_ends_with_it() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)
    kept.alter(5, 4, 2)

    kept.join(4)
    kept.join(5)

    assert kept.record().replicas == (5, 4, 2)


def test_a_cancel_ends_the_move_at_once_and_loses_the_order() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 5, 1)

    assert kept.cancel() == ACCEPTED

    assert kept.record().replicas == (1, 2, 3)
    assert kept.record().leader == 2
    assert not kept.controller.reassigning


def test_a_cancel_of_a_partition_at_rest_is_refused() -> None:
    kept = Kept((2, 1, 3))

    assert kept.cancel() == refusal("NO_REASSIGNMENT_IN_PROGRESS", "")


def test_a_cancel_that_would_empty_the_isr_is_refused() -> None:
    kept = Kept((1, 2))
    kept.alter(3, 1, 2, 4)
    kept.join(3)
    kept.fence(1, 2)

    assert kept.cancel() == refusal(
        "INVALID_REPLICA_ASSIGNMENT",
        "Unable to revert partition assignment for orders:0 because it would require an unclean "
        "leader election.",
    )
    assert kept.record().leader == 3


def test_a_cancel_gives_up_data_when_unclean_elections_are_allowed() -> None:
    kept = Kept((1, 2), configs={"unclean.leader.election.enable": "true"})
    kept.alter(3, 1, 2, 4)
    kept.join(3)
    kept.fence(1)
    kept.drop_out(2)

    assert kept.cancel() == ACCEPTED

    done = kept.record()
    assert (done.replicas, done.isr, done.leader) == ((1, 2), (2,), 2)


def test_a_move_to_a_dead_broker_is_accepted_and_hangs_until_it_is_cancelled() -> None:
    kept = Kept((1, 2, 3))
    kept.fence(4)

    assert kept.alter(1, 2, 4) == ACCEPTED

    assert kept.join(4) == "INELIGIBLE_REPLICA"
    assert kept.record().adding == (4,)
    kept.cancel()
    assert kept.record().replicas == (1, 2, 3)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ((), "The manual partition assignment includes an empty replica list."),
        (
            (2, 1, 99),
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        ((2, 1, 1), "The manual partition assignment includes the broker 1 more than once."),
    ],
)
def test_an_impossible_target_is_refused_in_the_controllers_words(
    target: tuple[int, ...], words: str
) -> None:
    kept = Kept((2, 1, 3))

    assert kept.alter(*target) == refusal("INVALID_REPLICA_ASSIGNMENT", words)
    assert len(kept.changes) == 1


def test_missing_partitions_are_refused_beside_the_rest() -> None:
    kept = Kept((2, 1, 3))
    no_partition, no_topic = TopicPartition("orders", 7), TopicPartition("audit", 0)

    results = kept.controller.alter(
        {no_partition: (1, 2, 3), no_topic: None, TP: (3, 1, 2)},
        allow_replication_factor_change=False,
    )

    assert results == {
        no_partition: refusal("UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition orders:7."),
        no_topic: refusal("UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named audit."),
        TP: ACCEPTED,
    }
    assert kept.record().replicas == (3, 1, 2)


@pytest.mark.parametrize("version", ["4.1", "4.3"])
def test_a_change_of_replication_factor_is_refused_unless_allowed(version: str) -> None:
    kept = Kept((2, 1, 3), version=version)

    assert kept.alter(2, 1, 3, 4, factor=False) == refusal(
        "INVALID_REPLICATION_FACTOR", "The replication factor is changed from 3 to 4"
    )
    assert kept.alter(2, 1, 3, 4) == ACCEPTED


@pytest.mark.parametrize("version", ["3.9", "4.0"])
def test_brokers_silently_change_the_replication_factor_before_4_1(version: str) -> None:
    kept = Kept((2, 1, 3), version=version)

    assert kept.alter(2, 1, 3, 4, factor=False) == ACCEPTED


def test_the_replication_factor_of_a_moving_partition_is_that_of_its_target() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)

    assert kept.alter(4, 1, 3, factor=False) == ACCEPTED
    assert kept.alter(4, 1, 3, 2, factor=False) == refusal(
        "INVALID_REPLICATION_FACTOR", "The replication factor is changed from 3 to 4"
    )


def test_a_request_above_the_record_limit_alters_only_the_partitions_below_it() -> None:
    kept = Kept(*[(1, 2)] * (RECORDS + 3))
    partitions = [TopicPartition("orders", number) for number in range(RECORDS + 3)]
    no_change, first, *others, last = partitions

    results = kept.controller.alter(
        {no_change: (1, 2), **dict.fromkeys([first, *others, last], (2, 1))},
        allow_replication_factor_change=False,
    )

    assert list(results.values()).count(ACCEPTED) == RECORDS + 1
    assert results[last] == WriteResult(Verdict.UNKNOWN, "UNKNOWN_SERVER_ERROR")
    assert kept.record(first).replicas == (2, 1)
    assert kept.record(last).replicas == (1, 2)


def test_each_decision_is_published_once_with_the_record_before_and_after() -> None:
    kept = Kept((1, 2), (2, 1))
    second = TopicPartition("orders", 1)
    befores = kept.record(second), kept.record()
    kept.changes.clear()

    kept.controller.alter({second: (1, 2), TP: (2, 3)}, allow_replication_factor_change=False)

    assert [(c.tp, c.before, c.after) for c in kept.changes] == [
        (second, befores[0], kept.record(second)),
        (TP, befores[1], kept.record()),
    ]
