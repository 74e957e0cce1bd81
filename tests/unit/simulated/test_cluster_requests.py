"""Outcomes of a request: lost, late, denied, or answered from stale metadata."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import NotAuthorized, TimedOut, Unreachable
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from support.simulated.clusters import ORDERS, a_cluster, wait

TARGET = (1, 2, 4)


async def alter(cluster: SimulatedCluster, target: tuple[int, ...] | None) -> WriteResult:
    writer = cluster.writer()
    results = await writer.alter_reassignments(
        {ORDERS: target}, allow_replication_factor_change=False
    )
    return results[ORDERS]


def moving(cluster: SimulatedCluster) -> bool:
    return ORDERS in cluster.controller.reassigning


async def test_a_lost_request_has_an_unknown_outcome_and_no_effect() -> None:
    cluster = a_cluster()
    cluster.do(layout.LoseRequest())

    assert (await alter(cluster, TARGET)).verdict is Verdict.UNKNOWN

    assert not moving(cluster)
    assert cluster.now_s < cluster.clock.monotonic()  # the caller waited for an answer


async def test_a_lost_answer_has_an_unknown_outcome_but_the_change_is_made() -> None:
    cluster = a_cluster()
    cluster.do(layout.LoseAnswer())

    assert (await alter(cluster, TARGET)).verdict is Verdict.UNKNOWN

    assert moving(cluster)


async def test_a_late_request_starts_a_move_after_its_cancel_was_refused() -> None:
    cluster = a_cluster()
    cluster.do(layout.DelayRequest(by_s=30.0))
    assert (await alter(cluster, TARGET)).verdict is Verdict.UNKNOWN
    assert (await alter(cluster, None)).code == "NO_REASSIGNMENT_IN_PROGRESS"

    wait(cluster, 22.0)

    assert moving(cluster)


async def test_an_injected_fault_affects_only_the_next_change() -> None:
    cluster = a_cluster()
    cluster.do(layout.LoseRequest())
    await alter(cluster, TARGET)

    assert (await alter(cluster, TARGET)).verdict is Verdict.ACCEPTED


async def test_metadata_lags_a_moment_behind_the_list_of_reassignments() -> None:
    cluster = a_cluster(metadata_lag_s=0.1)
    reader = cluster.reader()
    await alter(cluster, TARGET)

    listed = await reader.list_reassignments()
    stale = (await reader.describe_topics(["orders"])).partitions[ORDERS]
    wait(cluster, 0.1)
    fresh = (await reader.describe_topics(["orders"])).partitions[ORDERS]

    assert listed[ORDERS].adding == (4,)
    assert stale.replicas == (1, 2, 3)
    assert fresh.replicas == (1, 2, 4, 3)


async def test_metadata_shows_the_old_topic_for_a_moment_after_it_is_recreated() -> None:
    cluster = a_cluster(metadata_lag_s=0.1)
    reader = cluster.reader()
    before = (await reader.describe_topics(["orders"])).partitions[ORDERS]
    cluster.do(layout.DeleteTopic("orders"))
    cluster.do(layout.CreateTopic(TopicSpec(name="orders", replicas=((4, 5),))))

    stale = (await reader.describe_topics(["orders"])).partitions[ORDERS]
    names = [tp.topic async for page in reader.scan_topics() for tp in page.partitions]
    wait(cluster, 0.1)
    fresh = (await reader.describe_topics(["orders"])).partitions[ORDERS]

    assert stale == before
    assert names == ["orders"]
    assert fresh.replicas == (4, 5)
    assert fresh.topic_id != before.topic_id


async def test_a_deleted_topic_is_absent_once_brokers_know() -> None:
    cluster = a_cluster(metadata_lag_s=0.1)
    reader = cluster.reader()
    cluster.do(layout.DeleteTopic("orders"))

    assert not (await reader.describe_topics(["orders"])).absent
    wait(cluster, 0.1)
    assert (await reader.describe_topics(["orders"])).absent == {"orders"}
    assert [page async for page in reader.scan_topics()] == []


async def test_a_missing_permission_is_named_until_it_is_granted() -> None:
    cluster = a_cluster()
    reader = cluster.reader()
    cluster.do(layout.Deny("log_dirs"))

    with pytest.raises(NotAuthorized, match="describing log dirs"):
        await reader.log_dirs(1, [ORDERS])

    cluster.do(layout.Allow("log_dirs"))
    assert (await reader.log_dirs(1, [ORDERS])).sizes


async def test_a_scan_without_describe_permission_finds_no_topics() -> None:
    cluster = a_cluster()
    cluster.do(layout.Deny("scan_topics"))

    assert [page async for page in cluster.reader().scan_topics()] == []


async def test_a_missing_permission_is_reported_in_kafkas_words() -> None:
    cluster = a_cluster()
    cluster.do(layout.Deny("list_reassignments"))

    with pytest.raises(NotAuthorized) as denied:
        await cluster.reader().list_reassignments()

    assert denied.value.answer == "CLUSTER_AUTHORIZATION_FAILED"
    assert "Grant Describe on the cluster to this principal" in denied.value.fix


async def test_a_denied_change_is_refused_for_each_of_its_parts() -> None:
    cluster = a_cluster()
    cluster.do(layout.Deny("alter_reassignments"))

    result = await alter(cluster, TARGET)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "CLUSTER_AUTHORIZATION_FAILED")
    assert "Grant Alter on the cluster" in result.message
    assert not moving(cluster)


async def test_requests_after_a_lost_one_are_not_sent_because_time_has_run_out() -> None:
    topic = TopicSpec(name="many", replicas=((1, 2),) * 2_500)
    cluster = a_cluster(topics=(topic,))
    for _ in range(2):
        cluster.do(layout.LoseAnswer())
    tps = [TopicPartition("many", number) for number in range(2_500)]

    results = await cluster.writer().alter_reassignments(
        dict.fromkeys(tps, (2, 3)), allow_replication_factor_change=False
    )

    assert {results[tp].verdict for tp in tps[:1_000]} == {Verdict.UNKNOWN}
    assert {results[tp].verdict for tp in tps[1_000:]} == {Verdict.REFUSED}
    assert all(results[tp].message.startswith("not sent") for tp in tps[1_000:])
    assert len(cluster.controller.reassigning) == 1_000


async def test_a_lost_setting_of_one_broker_does_not_affect_the_others() -> None:
    cluster = a_cluster()
    cluster.do(layout.LoseRequest())
    first, second = (ConfigResource(ConfigScope.BROKER, broker) for broker in ("1", "2"))
    rate = "follower.replication.throttled.rate"
    changes = [ConfigChange(resource, rate, ConfigOp.SET, "1000") for resource in (first, second)]

    results = await cluster.writer().alter_configs(changes)

    assert results[first].verdict is Verdict.UNKNOWN
    assert results[second].verdict is Verdict.ACCEPTED


async def test_a_change_sent_to_hanging_brokers_has_an_unknown_outcome() -> None:
    cluster = a_cluster()
    cluster.do(layout.Hang(3))
    resource = ConfigResource(ConfigScope.BROKER, "3")
    change = ConfigChange(resource, "follower.replication.throttled.rate", ConfigOp.SET, "1000")
    assert (await cluster.writer().alter_configs([change]))[resource].verdict is Verdict.UNKNOWN

    for broker in range(1, 6):
        cluster.do(layout.Hang(broker))
    assert (await alter(cluster, TARGET)).verdict is Verdict.UNKNOWN


async def test_metadata_shows_a_dead_broker_and_its_consequences_together() -> None:
    cluster = a_cluster(metadata_lag_s=0.1, shutdown_s=0.0)
    reader = cluster.reader()
    cluster.do(layout.Shutdown(1))

    before = (await reader.describe_topics(["orders"])).partitions[ORDERS]
    alive = (await reader.describe_cluster()).brokers[1].alive
    wait(cluster, 0.1)
    after = (await reader.describe_topics(["orders"])).partitions[ORDERS]

    assert (before.leader, before.offline, alive) == (1, (), True)
    assert (after.leader, after.offline) == (2, (1,))
    assert not (await reader.describe_cluster()).brokers[1].alive


async def test_metadata_names_any_live_broker_as_the_controller() -> None:
    cluster = a_cluster()
    cluster.do(layout.Shutdown(1))
    wait(cluster, 3.0)

    named = {(await cluster.reader().describe_cluster()).controller for _ in range(100)}

    assert named == {2, 3, 4, 5}


async def test_a_negative_partition_number_is_unknown() -> None:
    cluster = a_cluster()
    below = TopicPartition("orders", -1)

    answer = await cluster.reader().log_offsets(1, ends=[below])

    assert answer.errors == {below: "UNKNOWN_TOPIC_OR_PARTITION"}


async def test_a_hanging_broker_never_answers_and_another_answers_for_the_cluster() -> None:
    cluster = a_cluster()
    reader = cluster.reader()
    cluster.do(layout.Hang(3))

    with pytest.raises(TimedOut, match="broker 3"):
        await reader.log_offsets(3, ends=[ORDERS])
    assert (await reader.describe_cluster()).brokers

    cluster.do(layout.Resume(3))
    assert (await reader.log_offsets(3, ends=[ORDERS])).ends


async def test_calls_are_unreachable_with_every_broker_down() -> None:
    cluster = a_cluster()
    for broker in range(1, 6):
        cluster.do(layout.Kill(broker))

    with pytest.raises(Unreachable, match="no broker answered"):
        await cluster.reader().list_reassignments()
    with pytest.raises(Unreachable):
        await alter(cluster, TARGET)


async def test_calls_time_out_with_every_broker_hanging() -> None:
    cluster = a_cluster()
    for broker in range(1, 6):
        cluster.do(layout.Hang(broker))

    with pytest.raises(TimedOut):
        await cluster.reader().list_reassignments()


async def test_only_the_setting_of_a_broker_that_is_down_is_not_sent() -> None:
    cluster = a_cluster()
    cluster.do(layout.Kill(3))
    rate = "follower.replication.throttled.rate"
    here, there = (ConfigResource(ConfigScope.BROKER, broker) for broker in ("1", "3"))
    changes = [ConfigChange(resource, rate, ConfigOp.SET, "1000") for resource in (here, there)]

    results = await cluster.writer().alter_configs(changes)

    assert results[here].verdict is Verdict.ACCEPTED
    assert results[there].verdict is Verdict.REFUSED
    assert results[there].message.startswith("not sent")
    with pytest.raises(Unreachable):
        await cluster.writer().alter_configs(changes[1:])


async def test_a_request_waits_for_the_new_controller_during_a_change() -> None:
    cluster = a_cluster()
    cluster.do(layout.ChangeController())

    assert (await alter(cluster, TARGET)).verdict is Verdict.ACCEPTED

    assert cluster.clock.monotonic() >= 1.0


async def test_the_client_guards_the_replication_factor_before_4_1() -> None:
    cluster = a_cluster(version="3.9")

    result = await alter(cluster, (1, 2, 3, 4))

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICATION_FACTOR")
    assert not moving(cluster)


async def test_metadata_omits_fenced_brokers_before_4_0() -> None:
    old, new = a_cluster(version="3.9"), a_cluster(version="4.0")
    for cluster in (old, new):
        cluster.do(layout.Shutdown(5))
        wait(cluster, 3.0)

    assert 5 not in (await old.reader().describe_cluster()).brokers
    assert not (await new.reader().describe_cluster()).brokers[5].alive


async def test_scheduled_changes_by_other_tools_take_effect_like_direct_ones() -> None:
    cluster = a_cluster()
    cluster.schedule(layout.ScheduledEvent(5.0, layout.Alter({ORDERS: TARGET})))
    wait(cluster, 4.0)
    assert not moving(cluster)

    wait(cluster, 2.0)

    assert moving(cluster)
    cluster.do(layout.Alter({ORDERS: None}))
    assert not moving(cluster)


def test_a_finished_copy_has_the_log_end_of_its_leader() -> None:
    cluster = a_cluster()
    cluster.do(layout.Alter({ORDERS: TARGET}))
    wait(cluster, 5.0)
    half = cluster.replication.end(ORDERS, 4)
    wait(cluster, 6.0)

    known = cluster.controller.get(ORDERS)
    assert known is not None
    assert known.replicas == TARGET
    assert half is not None
    assert 0 < half < (cluster.replication.end(ORDERS, 4) or 0)
    assert cluster.replication.end(ORDERS, 4) == cluster.replication.end(ORDERS, 1)


def test_an_invalid_initial_topic_raises_an_error() -> None:
    topic = TopicSpec(name="audit", replicas=((1,),), configs={"min.insync.replicas": "two"})
    spec = ClusterSpec(brokers=(BrokerSpec(id=1),), topics=(topic,))

    with pytest.raises(ValueError, match=r"topic audit: .*min\.insync\.replicas"):
        SimulatedCluster(spec, VirtualClock())
