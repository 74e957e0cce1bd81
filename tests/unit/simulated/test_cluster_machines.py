"""Brokers die, hang, slow down, fill up and come back, and the cluster follows."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.simulated import events
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.registration import Registration
from ktui.simulated.layout import GIB, MIB, BrokerSpec, TopicSpec
from support.simulated.clusters import ORDERS, a_cluster, wait


def known(cluster: SimulatedCluster) -> Registration:
    found = cluster.controller.get(ORDERS)
    assert found is not None
    return found


def test_a_dead_broker_is_in_the_isr_until_its_session_times_out() -> None:
    cluster = a_cluster()
    cluster.do(events.Kill(1))

    wait(cluster, 8.9)
    assert known(cluster).leader == 1

    wait(cluster, 0.2)
    assert known(cluster).leader == 2
    assert known(cluster).isr == (2, 3)


def test_a_broker_that_shuts_down_hands_its_partitions_on_at_once() -> None:
    cluster = a_cluster()

    cluster.do(events.Shutdown(1))

    assert known(cluster).leader == 2


def test_a_broker_that_shuts_down_is_alive_for_two_seconds_leads_nothing_and_is_in_no_isr() -> None:
    cluster = a_cluster()
    cluster.do(events.Shutdown(1))

    wait(cluster, 1.9)
    assert not cluster.controller.is_fenced(1)
    assert (known(cluster).leader, known(cluster).isr) == (2, (2, 3))
    assert cluster.replication.end(ORDERS, 1) == cluster.replication.end(ORDERS, 2)

    wait(cluster, 0.2)
    assert cluster.controller.is_fenced(1)
    assert cluster.machines.up() == [2, 3, 4, 5]


def test_a_broker_that_shuts_down_is_taken_into_no_isr_though_it_copies() -> None:
    cluster = a_cluster(shutdown_s=60.0)
    cluster.do(events.Shutdown(4))
    cluster.do(events.Alter({ORDERS: (1, 2, 4)}))

    wait(cluster, 59.0)

    assert cluster.replication.end(ORDERS, 4) == cluster.replication.end(ORDERS, 1)
    assert known(cluster).isr == (1, 2, 3)
    assert known(cluster).reassigning


def test_a_broker_killed_while_it_shuts_down_is_fenced_when_its_session_ends() -> None:
    cluster = a_cluster()
    cluster.do(events.Shutdown(1))
    wait(cluster, 1.0)
    cluster.do(events.Kill(1))

    wait(cluster, 8.9)
    assert not cluster.controller.is_fenced(1)
    wait(cluster, 0.2)
    assert cluster.controller.is_fenced(1)


def test_a_broker_that_hangs_while_it_shuts_down_is_gone_once_it_goes_on() -> None:
    cluster = a_cluster()
    cluster.do(events.Shutdown(1))
    cluster.do(events.Hang(1))
    wait(cluster, 5.0)
    assert not cluster.controller.is_fenced(1)

    cluster.do(events.Resume(1))

    assert cluster.controller.is_fenced(1)
    assert cluster.machines.up() == [2, 3, 4, 5]


def test_a_broker_told_to_start_while_it_shuts_down_comes_back_once_it_is_gone() -> None:
    cluster = a_cluster()
    cluster.do(events.Shutdown(1))
    cluster.do(events.Shutdown(1))
    cluster.do(events.Start(1))

    wait(cluster, 2.1)
    assert cluster.controller.is_fenced(1)
    wait(cluster, 20.0)

    assert set(known(cluster).isr) == {1, 2, 3}


def test_a_broker_that_was_resumed_in_time_was_never_missed() -> None:
    cluster = a_cluster()
    cluster.do(events.Hang(2))
    wait(cluster, 5.0)
    cluster.do(events.Resume(2))

    wait(cluster, 60.0)

    assert set(known(cluster).isr) == {1, 2, 3}
    assert known(cluster).partition_epoch == 0


def test_a_broker_that_is_back_joins_the_isr_again() -> None:
    cluster = a_cluster()
    cluster.do(events.Kill(3))
    wait(cluster, 60.0)
    assert known(cluster).isr == (1, 2)

    cluster.do(events.Start(3))
    wait(cluster, 4.0)
    assert cluster.controller.is_fenced(3)
    wait(cluster, 4.0)

    assert set(known(cluster).isr) == {1, 2, 3}


def test_a_broker_started_again_before_its_session_ends_is_missed_until_then() -> None:
    cluster = a_cluster()
    cluster.do(events.Kill(1))
    wait(cluster, 1.0)
    cluster.do(events.Start(1))

    wait(cluster, 7.9)
    assert known(cluster).leader == 1
    wait(cluster, 0.2)
    assert known(cluster).leader == 2
    wait(cluster, 1.0)
    assert set(known(cluster).isr) == {1, 2, 3}


def test_a_broker_that_hangs_and_is_then_killed_has_one_session_only() -> None:
    cluster = a_cluster()
    cluster.do(events.Hang(1))
    wait(cluster, 5.0)
    cluster.do(events.Kill(1))
    cluster.do(events.Kill(1))
    assert known(cluster).leader == 1

    wait(cluster, 4.1)

    assert known(cluster).leader == 2


def test_what_is_off_can_neither_hang_nor_go_on() -> None:
    cluster = a_cluster()
    cluster.do(events.Shutdown(1))
    cluster.do(events.Hang(1))
    cluster.do(events.Resume(1))

    wait(cluster, 60.0)

    assert cluster.controller.is_fenced(1)
    assert cluster.machines.up() == [2, 3, 4, 5]


def test_a_new_controller_gives_every_broker_a_new_session() -> None:
    cluster = a_cluster()
    cluster.do(events.Kill(1))
    wait(cluster, 5.0)
    cluster.do(events.ChangeController())

    wait(cluster, 9.9)
    assert known(cluster).leader == 1
    wait(cluster, 0.2)
    assert known(cluster).leader == 2


def test_nothing_is_decided_while_there_is_no_controller() -> None:
    cluster = a_cluster()
    cluster.do(events.Alter({ORDERS: (1, 2, 4)}))
    wait(cluster, 9.9)
    cluster.do(events.ChangeController())
    cluster.do(events.Alter({ORDERS: None}))
    cluster.do(events.Shutdown(3))

    wait(cluster, 0.9)
    assert known(cluster).reassigning
    assert known(cluster).isr == (1, 2, 3)
    wait(cluster, 0.2)
    assert known(cluster).replicas == (1, 2, 3)
    assert known(cluster).isr == (1, 2)


def test_a_broker_that_is_back_takes_part_once_there_is_a_controller() -> None:
    cluster = a_cluster()
    cluster.do(events.Hang(3))
    wait(cluster, 10.0)
    cluster.do(events.ChangeController())
    cluster.do(events.Resume(3))

    wait(cluster, 0.9)
    assert cluster.controller.is_fenced(3)
    wait(cluster, 2.0)
    assert not cluster.controller.is_fenced(3)
    assert set(known(cluster).isr) == {1, 2, 3}


def test_producers_write_nothing_to_a_partition_that_nobody_leads() -> None:
    cluster = a_cluster()
    before = cluster.replication.end(ORDERS, 2)
    cluster.do(events.Kill(1))

    cluster.do(events.Append(ORDERS, 500))
    cluster.do(events.Append(TopicPartition("no-such-topic", 0), 500))

    assert cluster.replication.end(ORDERS, 2) == before


def test_a_disk_that_producers_fill_at_once_takes_its_broker_down_at_once() -> None:
    cluster = a_cluster()
    wait(cluster, 10.0)
    cluster.do(events.Append(ORDERS, 2 * 1_000 * GIB // 1_000))

    wait(cluster, 0.1)

    assert cluster.machines.up() == [4, 5]


def test_a_copy_that_a_throttle_starves_stands_still_though_old_data_is_deleted() -> None:
    rate, listed = (f"follower.replication.throttled.{what}" for what in ("rate", "replicas"))
    topic = TopicSpec(
        name="orders",
        replicas=((1, 2, 3),),
        bytes_each=100 * MIB,
        inbound=MIB,
        configs={"retention.bytes": str(100 * MIB), listed: "0:4"},
    )
    cluster = a_cluster(topics=(topic,))
    broker = ConfigResource(ConfigScope.BROKER, "4")
    cluster.do(events.AlterConfigs((ConfigChange(broker, rate, ConfigOp.SET, "0"),)))
    cluster.do(events.Alter({ORDERS: (1, 2, 4)}))
    wait(cluster, 60.0)

    assert cluster.replication.end(ORDERS, 4) == 0
    assert cluster.replication.start(ORDERS) > 0


def test_what_a_topic_keeps_may_be_a_setting_of_all_brokers() -> None:
    cluster = a_cluster(broker_configs={"log.retention.bytes": str(50 * MIB)})
    assert cluster.replication.size(ORDERS, 1) == 50 * MIB

    everywhere = ConfigResource(ConfigScope.BROKER, "")
    change = ConfigChange(everywhere, "log.retention.bytes", ConfigOp.SET, str(20 * MIB))
    cluster.do(events.AlterConfigs((change,)))

    assert cluster.replication.size(ORDERS, 1) == 20 * MIB


def test_a_broker_killed_while_it_starts_stays_down() -> None:
    cluster = a_cluster()
    cluster.do(events.Kill(3))
    wait(cluster, 10.0)
    cluster.do(events.Start(3))
    wait(cluster, 1.0)
    cluster.do(events.Kill(3))

    wait(cluster, 60.0)

    assert cluster.controller.is_fenced(3)
    assert 3 not in known(cluster).isr


def test_what_is_already_so_changes_nothing() -> None:
    cluster = a_cluster()
    for act in (events.Start(1), events.Resume(1)):
        cluster.do(act)
    cluster.do(events.Kill(2))
    cluster.do(events.Kill(2))
    cluster.do(events.Shutdown(2))
    cluster.do(events.Resume(2))

    wait(cluster, 60.0)

    assert known(cluster).isr == (1, 3)


def test_a_full_disk_takes_its_broker_down() -> None:
    cluster = a_cluster()
    cluster.do(events.FillDisk(4, leave=50 * MIB))
    cluster.do(events.Alter({ORDERS: (1, 2, 4)}))

    wait(cluster, 60.0)

    assert cluster.controller.is_fenced(4)
    assert known(cluster).reassigning


def test_the_cluster_balances_leaders_by_itself() -> None:
    cluster = a_cluster(auto_leader_rebalance=True)
    cluster.do(events.Alter({ORDERS: (3, 1, 2)}))
    wait(cluster, 299.0)
    assert known(cluster).leader == 1

    wait(cluster, 2.0)

    assert known(cluster).leader == 3


def test_an_offline_partition_gets_any_leader_once_that_is_allowed() -> None:
    topic = TopicSpec(
        name="orders",
        replicas=((1, 2),),
        configs={"unclean.leader.election.enable": "true"},
        bytes_each=GIB,
    )
    cluster = a_cluster(topics=(topic,), brokers=tuple(BrokerSpec(id=b) for b in (1, 2)))
    cluster.do(events.Kill(2))
    wait(cluster, 20.0)
    cluster.do(events.Append(ORDERS, 500))
    cluster.do(events.Kill(1))
    wait(cluster, 20.0)
    assert known(cluster).leader is None
    before = cluster.replication.end(ORDERS, 1)

    cluster.do(events.Start(2))
    wait(cluster, 400.0)

    assert known(cluster).leader == 2
    assert (cluster.replication.end(ORDERS, 2) or 0) < (before or 0)


def test_a_broker_whose_disk_was_full_can_be_started_once_there_is_room() -> None:
    cluster = a_cluster()
    cluster.do(events.FillDisk(3, leave=0))
    wait(cluster, 60.0)
    assert cluster.controller.is_fenced(3)

    cluster.do(events.FillDisk(3, leave=50 * GIB))
    cluster.do(events.Start(3))
    wait(cluster, 60.0)

    assert set(known(cluster).isr) == {1, 2, 3}
