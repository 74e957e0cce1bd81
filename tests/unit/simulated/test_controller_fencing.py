"""Brokers that fail, stop and come back, and the eligible leader replicas (KIP-966)."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from support.simulated.witness import TP, Kept

WITHOUT_ELR, WITH_ELR = ("3.9", "4.0"), ("4.1", "4.2", "4.3", "4.4")
VERSIONS = (*WITHOUT_ELR, *WITH_ELR)
UNCLEAN = {"unclean.leader.election.enable": "true"}
TWO = {"min.insync.replicas": "2"}


def minimum(resource: ConfigResource, value: str | None) -> ConfigChange:
    op = ConfigOp.DELETE if value is None else ConfigOp.SET
    return ConfigChange(resource, "min.insync.replicas", op, value)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fenced_broker_leaves_the_isr_and_the_next_in_order_leads(version: str) -> None:
    kept = Kept((2, 1, 3), version=version)

    kept.fence(2)

    assert kept.controller.is_fenced(2)
    assert (kept.record().isr, kept.record().leader) == ((1, 3), 1)


def test_only_the_partitions_of_a_broker_change_when_it_is_fenced() -> None:
    kept = Kept((1, 2), (3, 4), (4, 1))
    kept.changes.clear()

    kept.fence(1)

    assert [change.tp.partition for change in kept.changes] == [0, 2]


def test_partitions_moved_to_a_broker_later_change_too_when_it_is_fenced() -> None:
    kept = Kept((1, 2))
    kept.alter(1, 3)
    kept.join(3)

    kept.fence(3)

    assert kept.record().isr == (1,)


def test_an_unfenced_broker_joins_no_isr_and_leads_nothing_by_itself() -> None:
    kept = Kept((2, 1, 3))
    kept.fence(2)
    before = kept.record()

    kept.controller.unfence(2)

    assert not kept.controller.is_fenced(2)
    assert kept.record() is before


@pytest.mark.parametrize("version", WITHOUT_ELR)
def test_the_last_in_sync_replica_of_an_offline_partition_stays_in_the_isr_without_elr(
    version: str,
) -> None:
    kept = Kept((2, 1), version=version)

    kept.fence(1, 2)

    assert (kept.record().isr, kept.record().leader) == ((2,), None)
    kept.controller.unfence(1)
    assert kept.record().leader is None
    kept.controller.unfence(2)
    assert (kept.record().isr, kept.record().leader) == ((2,), 2)


@pytest.mark.parametrize("version", WITH_ELR)
def test_the_last_in_sync_replica_of_an_offline_partition_is_eligible_with_elr(
    version: str,
) -> None:
    kept = Kept((2, 1), version=version)

    kept.fence(1, 2)

    offline = kept.record()
    assert (offline.isr, offline.elr, offline.leader) == ((), (2,), None)
    assert offline.last_known_leader == 2
    kept.controller.unfence(1)
    assert kept.record().leader is None
    kept.controller.unfence(2)
    back = kept.record()
    assert (back.isr, back.elr, back.leader) == ((2,), (), 2)
    assert back.last_known_leader is None


def test_replicas_in_sync_when_the_isr_fell_below_the_minimum_are_eligible() -> None:
    kept = Kept((1, 2, 3), configs=TWO)

    kept.fence(3)
    assert kept.record().elr == ()
    kept.fence(2)
    assert (kept.record().isr, kept.record().elr) == ((1,), (2,))
    kept.fence(1)
    assert (kept.record().isr, kept.record().elr) == ((), (1, 2))

    kept.controller.unfence(2)
    led = kept.record()
    assert (led.isr, led.elr, led.leader) == ((2,), (1,), 2)


def test_an_isr_that_reaches_the_minimum_again_needs_no_elr() -> None:
    kept = Kept((1, 2, 3), configs=TWO)
    kept.fence(3, 2)
    kept.controller.unfence(3)

    kept.join(3)

    assert (kept.record().isr, kept.record().elr) == ((1, 3), ())


def test_a_minimum_above_the_replication_factor_counts_as_the_replication_factor() -> None:
    kept = Kept((1, 2), configs={"min.insync.replicas": "5"})

    kept.drop_out(2)
    assert kept.record().elr == (2,)

    kept.join(2)
    assert kept.record().elr == ()


def test_a_broker_after_an_unclean_shutdown_is_no_longer_eligible() -> None:
    kept = Kept((1, 2, 3), configs=TWO)
    kept.fence(3, 2)

    kept.controller.unclean_start(2)

    assert kept.record().elr == ()


def test_a_broker_after_a_clean_shutdown_stays_eligible() -> None:
    kept = Kept((1, 2, 3), configs=TWO)
    kept.fence(3)
    kept.controller.controlled_shutdown(2)
    kept.fence(2)

    kept.controller.clean_start(2)

    assert kept.record().elr == (2,)


def test_a_broker_restarted_before_its_session_ends_leaves_every_isr() -> None:
    kept = Kept((2, 1, 3))

    kept.controller.unclean_start(2)

    assert kept.controller.is_fenced(2)
    assert (kept.record().isr, kept.record().leader) == ((1, 3), 1)


def test_the_last_known_leader_leads_again_when_no_replica_is_eligible() -> None:
    kept = Kept((1, 2))
    kept.fence(2, 1)
    kept.controller.unclean_start(1)
    assert (kept.record().isr, kept.record().elr) == ((), ())

    kept.controller.unfence(2)
    assert kept.record().leader is None
    kept.controller.unfence(1)

    assert (kept.record().isr, kept.record().leader) == ((1,), 1)


def test_changing_the_minimum_isr_empties_the_elrs_based_on_the_old_one() -> None:
    kept = Kept((1, 2, 3), configs=TWO)
    kept.fence(3, 2)
    before = kept.record()
    topic = ConfigResource(ConfigScope.TOPIC, "orders")

    kept.controller.alter_configs([minimum(topic, "2")])
    assert kept.record() is before

    kept.controller.alter_configs([minimum(topic, "1")])
    assert kept.record().elr == ()
    assert kept.record().partition_epoch == before.partition_epoch + 1
    assert kept.record().leader_epoch == before.leader_epoch


def test_changing_the_minimum_isr_of_all_brokers_empties_every_elr() -> None:
    kept = Kept((1, 2, 3), static=TWO)
    kept.fence(3, 2)
    assert kept.record().elr == (2,)

    kept.controller.alter_configs([minimum(ConfigResource(ConfigScope.BROKER, ""), "1")])

    assert kept.record().elr == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_any_live_replica_leads_when_unclean_elections_are_allowed(version: str) -> None:
    kept = Kept((1, 2, 3), version=version, configs=UNCLEAN)
    kept.drop_out(2, 3)

    kept.fence(1)

    lost = kept.record()
    assert (lost.isr, lost.elr, lost.leader) == ((2,), (), 2)


def test_the_first_replica_to_return_leads_when_unclean_elections_are_allowed() -> None:
    kept = Kept((1, 2, 3), configs=UNCLEAN)
    kept.fence(3, 2, 1)
    assert kept.record().leader is None

    kept.controller.unfence(3)

    assert (kept.record().isr, kept.record().leader) == ((3,), 3)


def test_an_offline_partition_gets_any_leader_once_its_topic_allows_it() -> None:
    kept = Kept((1, 2), (1, 2), (2, 3))
    kept.fence(2, 1)
    kept.controller.unfence(2)
    assert kept.controller.elect_unclean_leaders() == 0

    orders = ConfigResource(ConfigScope.TOPIC, "orders")
    (key,) = UNCLEAN
    kept.controller.alter_configs([ConfigChange(orders, key, ConfigOp.SET, "true")])
    assert kept.record().leader is None

    assert kept.controller.elect_unclean_leaders(most=1) == 1
    assert (kept.record().isr, kept.record().leader) == ((2,), 2)
    assert kept.controller.elect_unclean_leaders(most=1) == 1
    assert kept.controller.elect_unclean_leaders(most=1) == 0


def test_a_broker_shutting_down_hands_over_its_leaders_and_stays_out_until_restarted() -> None:
    kept = Kept((2, 1, 3))

    kept.controller.controlled_shutdown(2)
    assert not kept.controller.is_fenced(2)
    assert (kept.record().isr, kept.record().leader) == ((1, 3), 1)

    kept.fence(2)
    kept.controller.clean_start(2)
    kept.controller.unfence(2)
    assert kept.join(2) is None


def test_a_move_continues_when_its_leader_fails() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 1, 3)

    kept.fence(2)

    assert kept.record().leader == 1
    assert kept.join(4) is None
    assert (kept.record().replicas, kept.record().isr) == ((4, 1, 3), (1, 3, 4))


def test_fencing_the_last_replica_that_a_move_waits_for_does_not_end_the_move() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 5, 1)
    kept.join(4)

    kept.fence(4)

    assert kept.record().adding == (4, 5)
    assert 4 not in kept.record().isr


def test_partitions_of_a_deleted_topic_are_left_alone() -> None:
    kept = Kept((1, 2))
    kept.fence(2, 1)
    kept.controller.delete_topic("orders")
    kept.changes.clear()

    kept.controller.unfence(1)
    kept.fence(1)

    assert kept.changes == []
    assert kept.controller.get(TP) is None
    assert kept.controller.get(TopicPartition("orders", -1)) is None
