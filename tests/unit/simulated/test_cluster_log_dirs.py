"""A simulated cluster that loses a log dir, and requests to move replicas that get lost."""

from __future__ import annotations

from ktui.cluster.broker import LogDir
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict, WriteResult
from ktui.cluster.settings import CORDONED, LOG_DIR_RATE
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, TopicSpec
from support.contract.world import setting
from support.simulated.clusters import a_cluster, wait

FIRST, SECOND = BrokerSpec(id=1, log_dirs=2).log_dir_paths
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def two_log_dirs() -> SimulatedCluster:
    """Return five brokers with two partitions on 1 and 2, the second in their second log dir."""
    return a_cluster(
        brokers=tuple(BrokerSpec(id=b, log_dirs=2) for b in range(1, 6)),
        topics=(TopicSpec(name="orders", replicas=((1, 2), (1, 2)), bytes_each=100 * MIB),),
    )


async def move(cluster: SimulatedCluster, tp: TopicPartition, path: str) -> WriteResult:
    return (await cluster.writer().alter_log_dirs(1, {tp: path}))[tp]


async def test_metadata_shows_a_lost_replica_and_its_consequences_together() -> None:
    cluster = two_log_dirs()
    reader = cluster.reader()
    cluster.do(layout.FailLogDir(1, SECOND))

    before = (await reader.describe_topics(["orders"])).partitions[T1]
    wait(cluster, 0.1)
    after = (await reader.describe_topics(["orders"])).partitions

    assert (before.leader, before.isr, before.offline) == (1, (1, 2), ())
    assert (after[T1].leader, after[T1].isr, after[T1].offline) == (2, (2,), (1,))
    assert (before.leader_epoch, after[T1].leader_epoch) == (0, 1)
    assert (after[T0].leader, after[T0].isr, after[T0].offline) == (1, (1, 2), ())
    assert (await reader.describe_cluster()).brokers[1].alive


def test_a_broker_whose_only_working_log_dir_is_cordoned_is_fully_cordoned() -> None:
    cluster = a_cluster(
        brokers=tuple(BrokerSpec(id=b, log_dirs=2) for b in range(1, 6)),
        topics=(TopicSpec(name="orders", replicas=((1, 2),)),),
        version="4.4",
    )
    cluster.configure([setting(ConfigScope.BROKER, "3", CORDONED, ConfigOp.SET, FIRST)])

    def added() -> WriteResult:
        return cluster.controller.alter({T0: (1, 3)}, allow_replication_factor_change=False)[T0]

    assert added().verdict is Verdict.ACCEPTED
    cluster.do(layout.FailLogDir(3, SECOND))
    assert added().code == "INVALID_REPLICA_ASSIGNMENT"


async def test_a_failed_log_dir_is_reported_without_its_size() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.FailLogDir(1, SECOND))

    working, failed = (await cluster.reader().log_dirs(1, [])).log_dirs

    assert working.error is None
    assert failed == LogDir(1, SECOND, "KAFKA_STORAGE_ERROR")


async def test_a_lost_replica_is_not_elected_and_a_partition_without_another_has_no_leader() -> (
    None
):
    cluster = two_log_dirs()
    cluster.do(layout.FailLogDir(1, SECOND))

    elected = (await cluster.writer().elect_preferred_leaders([T1]))[T1]
    cluster.do(layout.FailLogDir(2, SECOND))

    assert (elected.verdict, elected.code) == (Verdict.REFUSED, "PREFERRED_LEADER_NOT_AVAILABLE")
    known = cluster.controller.get(T1)
    assert known is not None
    assert (known.leader, known.offline) == (None, (1, 2))


async def test_a_lost_replica_can_be_replaced_by_a_reassignment() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.FailLogDir(1, SECOND))
    cluster.do(layout.Alter({T1: (3, 2)}))

    wait(cluster, 30.0)

    known = cluster.controller.get(T1)
    assert known is not None
    assert (known.replicas, set(known.isr), known.offline) == ((3, 2), {2, 3}, ())


async def test_a_restarted_broker_has_forgotten_the_log_dir_for_a_replica_to_come() -> None:
    cluster = two_log_dirs()
    writer, reader = cluster.writer(), cluster.reader()
    await writer.alter_log_dirs(3, {T0: SECOND})
    await writer.alter_log_dirs(4, {T0: SECOND})
    cluster.do(layout.Kill(4))
    cluster.do(layout.Start(4))
    wait(cluster, 30.0)

    cluster.do(layout.Alter({T0: (1, 2, 3, 4)}))
    wait(cluster, 30.0)

    assert (await reader.log_dirs(3, [T0])).replicas[T0].path == SECOND
    assert (await reader.log_dirs(4, [T0])).replicas[T0].path == FIRST


def test_a_broker_that_loses_its_first_log_dir_goes_down() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.FailLogDir(1, FIRST))
    assert cluster.machines.up() == [2, 3, 4, 5]


async def test_the_throttle_of_log_dirs_is_the_brokers_setting() -> None:
    cluster = two_log_dirs()
    await cluster.writer().alter_configs(
        [setting(ConfigScope.BROKER, "1", LOG_DIR_RATE, ConfigOp.SET, str(MIB))]
    )
    await move(cluster, T0, SECOND)

    wait(cluster, 10.0)

    future = (await cluster.reader().log_dirs(1, [T0])).replicas[T0].future
    assert future is not None
    assert future.size == 10 * MIB


async def test_a_move_whose_answer_is_lost_has_an_unknown_outcome_and_takes_place() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.LoseAnswer())

    assert (await move(cluster, T0, SECOND)).verdict is Verdict.UNKNOWN

    assert (await cluster.reader().log_dirs(1, [T0])).replicas[T0].path == SECOND


async def test_a_move_that_is_denied_is_refused_with_the_missing_permission() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Deny("alter_log_dirs"))

    result = await move(cluster, T0, SECOND)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "CLUSTER_AUTHORIZATION_FAILED")
    assert result.needs == "Alter on the cluster"


def cordon(broker: int, value: str) -> layout.AlterConfigs:
    return layout.AlterConfigs(
        (setting(ConfigScope.BROKER, str(broker), CORDONED, ConfigOp.SET, value),)
    )


async def cordoned(cluster: SimulatedCluster, broker: int) -> list[str]:
    answer = await cluster.reader().log_dirs(broker, [])
    return [each.path for each in answer.log_dirs if each.cordoned]


async def test_one_of_two_log_dirs_is_cordoned_and_takes_no_further_replica() -> None:
    cluster = two_log_dirs()
    cluster.do(cordon(1, SECOND))

    assert await cordoned(cluster, 1) == [SECOND]
    assert (await move(cluster, T0, SECOND)).code == "INVALID_REPLICA_ASSIGNMENT"
    cluster.do(
        layout.CreateTopic(TopicSpec(name="audit", replicas=((1, 2), (1, 2), (1, 2), (1, 2))))
    )
    audit = [TopicPartition("audit", n) for n in range(4)]
    held = (await cluster.reader().log_dirs(1, audit)).replicas
    assert {each.path for each in held.values()} == {FIRST}


async def test_no_partition_can_be_added_while_all_brokers_are_cordoned() -> None:
    cluster = two_log_dirs()
    for broker in range(1, 6):
        cluster.do(cordon(broker, "*"))

    result = await cluster.writer().create_partitions("orders", 3)

    assert result.code == "INVALID_REPLICATION_FACTOR"
    assert result.message == (
        "All brokers are currently fenced, or have all their log directories cordoned."
    )


async def test_relative_log_dirs_are_not_cordoned_although_the_setting_is_accepted() -> None:
    cluster = a_cluster(brokers=(BrokerSpec(id=1, relative_log_dirs=True),), topics=())
    wanted = setting(ConfigScope.BROKER, "1", CORDONED, ConfigOp.SET, "*")

    result = await cluster.writer().alter_configs([wanted])

    assert result[wanted.resource].verdict is Verdict.ACCEPTED
    assert await cordoned(cluster, 1) == []


async def test_a_version_before_4_3_accepts_a_cordon_and_knows_nothing_of_it() -> None:
    cluster = a_cluster(version="4.2")
    cluster.do(cordon(1, "*"))

    assert await cordoned(cluster, 1) == []


async def test_the_properties_file_cordons_log_dirs_and_a_dynamic_value_replaces_it() -> None:
    cluster = a_cluster(broker_configs={CORDONED: "*"})
    assert await cordoned(cluster, 1) == [FIRST]

    cluster.do(cordon(1, ""))

    assert await cordoned(cluster, 1) == []
