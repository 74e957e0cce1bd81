"""Simulated producers and groups."""

from __future__ import annotations

import random
from operator import le

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.errors import Refused
from ktui.cluster.ownership import HeartbeatAnswer, Member
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.producers import Latency, LatencyModel, Producers, backoff_chance, latency
from support.simulated.clusters import a_cluster as clusters_a_cluster
from support.simulated.clusters import wait

MODEL = LatencyModel()
PARTITIONS = 16
shares = st.floats(0, 1)


def a_cluster(
    seed: int = 0, *, inbound: float = 0.1 * MIB, backoff_ms: int = 1_000
) -> tuple[SimulatedCluster, Producers]:
    """Return a cluster of two halves: brokers 1, 2 and 3 have all replicas, 4, 5 and 6 none."""
    replicas = tuple(tuple(1 + (n + k) % 3 for k in range(3)) for n in range(PARTITIONS))
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_out=40.0 * MIB) for b in range(1, 7)),
        topics=(TopicSpec(name="t", replicas=replicas, bytes_each=400 * MIB, inbound=inbound),),
        broker_configs={"replica.fetch.backoff.ms": str(backoff_ms)},
        auto_leader_rebalance=False,
    )
    cluster = SimulatedCluster(spec, VirtualClock())
    producers = Producers(cluster, seed=seed, keep_s=None)
    producers.start()
    return cluster, producers


def copy(cluster: SimulatedCluster, rate_s: float | None = None) -> None:
    """Begin to copy every partition to brokers 4, 5 and 6, at a rate into each of them."""
    if rate_s is not None:
        brokers = [ConfigResource(ConfigScope.BROKER, str(b)) for b in range(1, 7)]
        cluster.configure(
            [ConfigChange(b, FOLLOWER_RATE, ConfigOp.SET, str(int(rate_s))) for b in brokers]
            + [ConfigChange(TOPIC, FOLLOWER_REPLICAS, ConfigOp.SET, "*")]
        )
    targets = {tp: (*now(cluster, tp), 4, 5, 6) for tp in TPS}
    cluster.controller.alter(dict(targets), allow_replication_factor_change=True)


def cut(cluster: SimulatedCluster, tps: list[TopicPartition]) -> None:
    """Remove the last replica of partitions, in one request: each gets a new leader epoch."""
    targets = {tp: now(cluster, tp)[:2] for tp in tps}
    cluster.controller.alter(dict(targets), allow_replication_factor_change=True)


def now(cluster: SimulatedCluster, tp: TopicPartition) -> tuple[int, ...]:
    known = cluster.controller.get(tp)
    assert known is not None
    return known.replicas


TOPIC = ConfigResource(ConfigScope.TOPIC, "t")
OTHER = ConfigResource(ConfigScope.TOPIC, "u")
TPS = [TopicPartition("t", n) for n in range(PARTITIONS)]


def stalled_s(producers: Producers) -> float:
    return sum(second.stalled_s for second in producers.seconds)


@given(shares, shares, st.lists(shares))
def test_a_busier_broker_answers_later_and_none_answers_sooner_than_at_rest(
    one: float, other: float, followers: list[float]
) -> None:
    low, high = sorted((one, other))

    rest, less = latency(MODEL, 0, ()), latency(MODEL, low, followers)
    assert all(map(le, rest, less))
    assert all(map(le, less, latency(MODEL, high, followers)))
    assert all(map(le, less, latency(MODEL, low, [*followers, high])))
    assert all(map(le, less, latency(MODEL, 1, [1])))


@given(st.integers(1, 100))
def test_epochs_that_rise_together_stall_each_partition_less(together: int) -> None:
    assert backoff_chance(MODEL, together + 1) < backoff_chance(MODEL, together) <= 1


def test_the_share_of_late_records_is_that_of_the_records_drawn() -> None:
    chance = random.Random(1)  # noqa: S311 - a seed, not a secret
    felt = Latency(0.2, 0.6)
    drawn = [felt.drawn_s(chance) for _ in range(20_000)]

    late = sum(took_s > 0.3 for took_s in drawn) / len(drawn)
    assert late == pytest.approx(felt.late_share(0.3), abs=0.01)
    assert sorted(drawn)[-200] == pytest.approx(felt.p99_s, rel=0.1)


def test_a_cluster_at_rest_stalls_nobody() -> None:
    cluster, producers = a_cluster()
    wait(cluster, 60)

    assert stalled_s(producers) < 0.01
    figures = producers.percentiles_s(50)
    assert max(figures.values()) == pytest.approx(MODEL.rest_s, rel=0.5)


def test_nothing_is_known_before_a_whole_window() -> None:
    cluster, producers = a_cluster()
    wait(cluster, 9)
    assert not producers.percentiles_s(99)
    wait(cluster, 1)
    assert producers.percentiles_s(99)


def test_copies_raise_the_figure_with_their_rate() -> None:
    figures = []
    for rate in (5.0 * MIB, 30.0 * MIB):
        cluster, producers = a_cluster()
        copy(cluster, rate)
        wait(cluster, 20)
        figures.append(max(producers.percentiles_s(99).values()))

    assert figures[0] * 2 < figures[1]


def test_a_lone_cut_stalls_almost_always_and_sixteen_in_one_request_a_few() -> None:
    alone, together = 0.0, 0.0
    for seed in range(20):
        cluster, producers = a_cluster(seed)
        cut(cluster, TPS[:1])
        wait(cluster, 5)
        alone += stalled_s(producers)
        cluster, producers = a_cluster(seed)
        cut(cluster, TPS)
        wait(cluster, 5)
        together += stalled_s(producers) / PARTITIONS

    each_s = 0.7  # of a wait of 1 s, what is later than 0.3 s
    assert 0.8 <= alone / 20 / each_s <= 1
    assert 0.1 <= together / 20 / each_s <= 0.25


def test_a_short_back_off_of_the_brokers_stalls_nobody() -> None:
    cluster, producers = a_cluster(backoff_ms=100)
    for tp in TPS:
        cut(cluster, [tp])
        wait(cluster, 1)

    assert stalled_s(producers) < 0.01


def stalled_while_copying_to_2_s(listed: str) -> float:
    """Cut a partition whose follower 2 is in sync, while other copies use up the rate of 2."""
    cluster, producers = a_cluster(backoff_ms=100)
    cluster.create_topic(TopicSpec(name="u", replicas=((1,),), bytes_each=400 * MIB))
    rate, lists = ConfigResource(ConfigScope.BROKER, "2"), ((TOPIC, listed), (OTHER, "*"))
    cluster.configure(
        [ConfigChange(rate, FOLLOWER_RATE, ConfigOp.SET, str(5 * MIB))]
        + [ConfigChange(topic, FOLLOWER_REPLICAS, ConfigOp.SET, value) for topic, value in lists]
    )
    grown = {TopicPartition("u", 0): (1, 2)}
    cluster.controller.alter(dict(grown), allow_replication_factor_change=True)
    wait(cluster, 5)
    cut(cluster, TPS[:1])
    wait(cluster, 15)
    return stalled_s(producers)


def test_a_replica_in_sync_that_is_still_throttled_stalls_its_partition_at_a_new_epoch() -> None:
    assert stalled_while_copying_to_2_s("0:2") > 0.7
    assert stalled_while_copying_to_2_s("1:2") < 0.01


def test_what_is_drawn_changes_nothing_in_the_cluster_and_one_seed_draws_the_same() -> None:
    def history(seed: int) -> tuple[list[object], list[int]]:
        cluster, producers = a_cluster(seed)
        copy(cluster, 20.0 * MIB)
        cut(cluster, TPS[:1])
        wait(cluster, 30)
        return list(producers.seconds), [cluster.replication.size(tp, 4) for tp in TPS]

    assert history(1) == history(1)
    assert history(1)[0] != history(2)[0]
    assert history(1)[1] == history(2)[1]


GROUP = "ktui-prod"
SESSION_S = 60.0


async def joined(cluster: SimulatedCluster, member_id: str = "") -> Member:
    member = await cluster.memberships().join(GROUP, b"note", SESSION_S, member_id)
    assert member is not None
    return member


async def heard(cluster: SimulatedCluster, member: Member) -> HeartbeatAnswer:
    return await cluster.memberships().heartbeat(GROUP, member)


async def test_a_join_without_an_id_replaces_the_member_and_keeps_the_generation() -> None:
    cluster = clusters_a_cluster()
    first = await joined(cluster)

    second = await joined(cluster)

    assert second.id != first.id
    assert second.generation == first.generation
    assert await heard(cluster, first) is HeartbeatAnswer.GONE
    assert await heard(cluster, second) is HeartbeatAnswer.STAYS


async def test_a_replaced_member_can_neither_rejoin_by_its_id_nor_remove_its_successor() -> None:
    cluster = clusters_a_cluster()
    first = await joined(cluster)
    second = await joined(cluster)
    groups = cluster.memberships()

    assert await groups.join(GROUP, b"", SESSION_S, first.id) is None
    await groups.leave(GROUP, first)

    assert await heard(cluster, second) is HeartbeatAnswer.STAYS


async def test_a_member_that_rejoins_gets_the_next_generation() -> None:
    cluster = clusters_a_cluster()
    first = await joined(cluster)

    again = await joined(cluster, first.id)

    assert again == Member(first.id, first.generation + 1)
    assert await heard(cluster, first) is HeartbeatAnswer.GONE


@pytest.mark.parametrize("session_s", [5.999, 1_800.001])
async def test_a_session_outside_kafkas_limits_is_refused(session_s: float) -> None:
    with pytest.raises(Refused) as refused:
        await clusters_a_cluster().memberships().join(GROUP, b"", session_s)

    assert refused.value.code == "INVALID_SESSION_TIMEOUT"


async def test_a_new_coordinator_restarts_live_sessions_but_not_expired_ones() -> None:
    cluster = clusters_a_cluster(session_timeout_s=9.0)
    member = await joined(cluster)
    coordinator = cluster.groups.coordinator(GROUP)
    assert coordinator is not None
    wait(cluster, SESSION_S - 1.0)
    cluster.do(layout.Kill(coordinator))
    wait(cluster, SESSION_S - 1.0)  # the session restarts when the dead broker is fenced, at 9 s

    assert cluster.groups.coordinator(GROUP) != coordinator
    assert await heard(cluster, member) is HeartbeatAnswer.STAYS

    wait(cluster, SESSION_S)
    cluster.do(layout.Kill(cluster.groups.coordinator(GROUP) or 0))
    wait(cluster, 10.0)
    assert await heard(cluster, member) is HeartbeatAnswer.GONE
