"""Brokers die, hang, slow down, fill up and come back, and the cluster follows."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import GIB, MIB, BrokerSpec, TopicSpec
from support.simulated.clusters import ORDERS, a_cluster, wait


def known(cluster: SimulatedCluster) -> Registration:
    found = cluster.controller.get(ORDERS)
    assert found is not None
    return found


def test_a_dead_broker_is_in_the_isr_until_its_session_times_out() -> None:
    cluster = a_cluster()
    cluster.do(layout.Kill(1))

    wait(cluster, 8.9)
    assert known(cluster).leader == 1

    wait(cluster, 0.2)
    assert known(cluster).leader == 2
    assert known(cluster).isr == (2, 3)


def test_a_broker_that_shuts_down_hands_its_partitions_on_at_once() -> None:
    cluster = a_cluster()

    cluster.do(layout.Shutdown(1))

    assert known(cluster).leader == 2


def test_a_broker_shutting_down_stays_alive_two_seconds_without_leads_or_isr() -> None:
    cluster = a_cluster()
    cluster.do(layout.Shutdown(1))

    wait(cluster, 1.9)
    assert not cluster.controller.is_fenced(1)
    assert (known(cluster).leader, known(cluster).isr) == (2, (2, 3))
    assert cluster.replication.end(ORDERS, 1) == cluster.replication.end(ORDERS, 2)

    wait(cluster, 0.2)
    assert cluster.controller.is_fenced(1)
    assert cluster.machines.up() == [2, 3, 4, 5]


def test_a_broker_shutting_down_joins_no_isr_even_though_it_copies() -> None:
    cluster = a_cluster(shutdown_s=60.0)
    cluster.do(layout.Shutdown(4))
    cluster.do(layout.Alter({ORDERS: (1, 2, 4)}))

    wait(cluster, 59.0)

    assert cluster.replication.end(ORDERS, 4) == cluster.replication.end(ORDERS, 1)
    assert known(cluster).isr == (1, 2, 3)
    assert known(cluster).reassigning


def test_a_broker_killed_during_shutdown_is_fenced_when_its_session_ends() -> None:
    cluster = a_cluster()
    cluster.do(layout.Shutdown(1))
    wait(cluster, 1.0)
    cluster.do(layout.Kill(1))

    wait(cluster, 8.9)
    assert not cluster.controller.is_fenced(1)
    wait(cluster, 0.2)
    assert cluster.controller.is_fenced(1)


def test_a_broker_that_hangs_during_shutdown_is_gone_once_it_resumes() -> None:
    cluster = a_cluster()
    cluster.do(layout.Shutdown(1))
    cluster.do(layout.Hang(1))
    wait(cluster, 5.0)
    assert not cluster.controller.is_fenced(1)

    cluster.do(layout.Resume(1))

    assert cluster.controller.is_fenced(1)
    assert cluster.machines.up() == [2, 3, 4, 5]


def test_a_broker_started_during_shutdown_comes_back_once_it_is_gone() -> None:
    cluster = a_cluster()
    cluster.do(layout.Shutdown(1))
    cluster.do(layout.Shutdown(1))
    cluster.do(layout.Start(1))

    wait(cluster, 2.1)
    assert cluster.controller.is_fenced(1)
    wait(cluster, 20.0)

    assert set(known(cluster).isr) == {1, 2, 3}


def test_a_broker_resumed_in_time_leaves_no_isr() -> None:
    cluster = a_cluster()
    cluster.do(layout.Hang(2))
    wait(cluster, 5.0)
    cluster.do(layout.Resume(2))

    wait(cluster, 60.0)

    assert set(known(cluster).isr) == {1, 2, 3}
    assert known(cluster).partition_epoch == 0


def test_a_broker_that_is_back_rejoins_the_isr() -> None:
    cluster = a_cluster()
    cluster.do(layout.Kill(3))
    wait(cluster, 60.0)
    assert known(cluster).isr == (1, 2)

    cluster.do(layout.Start(3))
    wait(cluster, 4.0)
    assert cluster.controller.is_fenced(3)
    wait(cluster, 4.0)

    assert set(known(cluster).isr) == {1, 2, 3}


def test_a_broker_restarted_before_its_session_ends_is_missing_until_then() -> None:
    cluster = a_cluster()
    cluster.do(layout.Kill(1))
    wait(cluster, 1.0)
    cluster.do(layout.Start(1))

    wait(cluster, 7.9)
    assert known(cluster).leader == 1
    wait(cluster, 0.2)
    assert known(cluster).leader == 2
    wait(cluster, 1.0)
    assert set(known(cluster).isr) == {1, 2, 3}


def test_a_broker_that_hangs_and_is_then_killed_has_one_session_only() -> None:
    cluster = a_cluster()
    cluster.do(layout.Hang(1))
    wait(cluster, 5.0)
    cluster.do(layout.Kill(1))
    cluster.do(layout.Kill(1))
    assert known(cluster).leader == 1

    wait(cluster, 4.1)

    assert known(cluster).leader == 2


def test_a_stopped_broker_can_neither_hang_nor_resume() -> None:
    cluster = a_cluster()
    cluster.do(layout.Shutdown(1))
    cluster.do(layout.Hang(1))
    cluster.do(layout.Resume(1))

    wait(cluster, 60.0)

    assert cluster.controller.is_fenced(1)
    assert cluster.machines.up() == [2, 3, 4, 5]


def test_a_new_controller_gives_every_broker_a_new_session() -> None:
    cluster = a_cluster()
    cluster.do(layout.Kill(1))
    wait(cluster, 5.0)
    cluster.do(layout.ChangeController())

    wait(cluster, 9.9)
    assert known(cluster).leader == 1
    wait(cluster, 0.2)
    assert known(cluster).leader == 2


def test_nothing_is_decided_without_a_controller() -> None:
    cluster = a_cluster()
    cluster.do(layout.Alter({ORDERS: (1, 2, 4)}))
    wait(cluster, 9.9)
    cluster.do(layout.ChangeController())
    cluster.do(layout.Alter({ORDERS: None}))
    cluster.do(layout.Shutdown(3))

    wait(cluster, 0.9)
    assert known(cluster).reassigning
    assert known(cluster).isr == (1, 2, 3)
    wait(cluster, 0.2)
    assert known(cluster).replicas == (1, 2, 3)
    assert known(cluster).isr == (1, 2)


def test_a_resumed_broker_is_unfenced_once_there_is_a_controller() -> None:
    cluster = a_cluster()
    cluster.do(layout.Hang(3))
    wait(cluster, 10.0)
    cluster.do(layout.ChangeController())
    cluster.do(layout.Resume(3))

    wait(cluster, 0.9)
    assert cluster.controller.is_fenced(3)
    wait(cluster, 2.0)
    assert not cluster.controller.is_fenced(3)
    assert set(known(cluster).isr) == {1, 2, 3}


def test_producers_write_nothing_to_a_partition_without_a_leader() -> None:
    cluster = a_cluster()
    before = cluster.replication.end(ORDERS, 2)
    cluster.do(layout.Kill(1))

    cluster.do(layout.Append(ORDERS, 500))
    cluster.do(layout.Append(TopicPartition("no-such-topic", 0), 500))

    assert cluster.replication.end(ORDERS, 2) == before


def test_a_disk_filled_at_once_by_producers_takes_its_broker_down_at_once() -> None:
    cluster = a_cluster()
    wait(cluster, 10.0)
    cluster.do(layout.Append(ORDERS, 2 * 1_000 * GIB // 1_000))

    wait(cluster, 0.1)

    assert cluster.machines.up() == [4, 5]


def test_a_copy_starved_by_a_throttle_stands_still_while_old_data_is_deleted() -> None:
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
    cluster.do(layout.AlterConfigs((ConfigChange(broker, rate, ConfigOp.SET, "0"),)))
    cluster.do(layout.Alter({ORDERS: (1, 2, 4)}))
    wait(cluster, 60.0)

    assert cluster.replication.end(ORDERS, 4) == 0
    assert cluster.replication.start(ORDERS) > 0


def test_retention_can_be_set_for_all_brokers() -> None:
    cluster = a_cluster(broker_configs={"log.retention.bytes": str(50 * MIB)})
    assert cluster.replication.size(ORDERS, 1) == 50 * MIB

    everywhere = ConfigResource(ConfigScope.BROKER, "")
    change = ConfigChange(everywhere, "log.retention.bytes", ConfigOp.SET, str(20 * MIB))
    cluster.do(layout.AlterConfigs((change,)))

    assert cluster.replication.size(ORDERS, 1) == 20 * MIB


def test_a_broker_killed_during_startup_stays_down() -> None:
    cluster = a_cluster()
    cluster.do(layout.Kill(3))
    wait(cluster, 10.0)
    cluster.do(layout.Start(3))
    wait(cluster, 1.0)
    cluster.do(layout.Kill(3))

    wait(cluster, 60.0)

    assert cluster.controller.is_fenced(3)
    assert 3 not in known(cluster).isr


def test_repeated_broker_events_change_nothing() -> None:
    cluster = a_cluster()
    for act in (layout.Start(1), layout.Resume(1)):
        cluster.do(act)
    cluster.do(layout.Kill(2))
    cluster.do(layout.Kill(2))
    cluster.do(layout.Shutdown(2))
    cluster.do(layout.Resume(2))

    wait(cluster, 60.0)

    assert known(cluster).isr == (1, 3)


def test_a_full_disk_takes_its_broker_down() -> None:
    cluster = a_cluster()
    cluster.do(layout.FillDisk(4, leave=50 * MIB))
    cluster.do(layout.Alter({ORDERS: (1, 2, 4)}))

    wait(cluster, 60.0)

    assert cluster.controller.is_fenced(4)
    assert known(cluster).reassigning


def test_the_cluster_rebalances_leaders_by_itself() -> None:
    cluster = a_cluster(auto_leader_rebalance=True)
    cluster.do(layout.Alter({ORDERS: (3, 1, 2)}))
    wait(cluster, 299.0)
    assert known(cluster).leader == 1

    wait(cluster, 2.0)

    assert known(cluster).leader == 3


def test_an_offline_partition_gets_an_unclean_leader_when_allowed() -> None:
    topic = TopicSpec(
        name="orders",
        replicas=((1, 2),),
        configs={"unclean.leader.election.enable": "true"},
        bytes_each=GIB,
    )
    cluster = a_cluster(topics=(topic,), brokers=tuple(BrokerSpec(id=b) for b in (1, 2)))
    cluster.do(layout.Kill(2))
    wait(cluster, 20.0)
    cluster.do(layout.Append(ORDERS, 500))
    cluster.do(layout.Kill(1))
    wait(cluster, 20.0)
    assert known(cluster).leader is None
    before = cluster.replication.end(ORDERS, 1)

    cluster.do(layout.Start(2))
    wait(cluster, 400.0)

    assert known(cluster).leader == 2
    assert (cluster.replication.end(ORDERS, 2) or 0) < (before or 0)


def test_a_broker_with_a_formerly_full_disk_can_be_started_once_there_is_room() -> None:
    cluster = a_cluster()
    cluster.do(layout.FillDisk(3, leave=0))
    wait(cluster, 60.0)
    assert cluster.controller.is_fenced(3)

    cluster.do(layout.FillDisk(3, leave=50 * GIB))
    cluster.do(layout.Start(3))
    wait(cluster, 60.0)

    assert set(known(cluster).isr) == {1, 2, 3}
