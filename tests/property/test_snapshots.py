"""Whatever state a cluster is in, the twin of its snapshot begins in that state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.planning.check.snapshot import PlacementAnswer, read_with_log_dirs
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec, TopicStart
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.scenario.library import load_scenario
from ktui.simulated.twin.make import ClusterTwin, take_twin
from ktui.simulated.twin.text import twin_text

RATES = SnapshotRates(
    slow=20e6,
    usual=50e6,
    fast=100e6,
    half_at=1.25,
    most_at=16,
    throttled=0.5,
    source=RatesFrom.RECORDED,
)
MEASURED_S = 30.0
MESSAGE = 1_000
ROUNDING = 2
"""Bytes: sizes are whole."""
SIZES = st.sampled_from((0, 10**8, 10**10, 3 * 10**10 + 7))
INBOUND = st.sampled_from((0.0, 5_000.0, 123_456.0))


class Seen(NamedTuple):
    """A cluster as its port shows it."""

    answer: PlacementAnswer
    topics: dict[str, TopicConfig]
    brokers: dict[int, BrokerConfig]


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    ids = range(1, draw(st.integers(4, 6)) + 1)
    down = draw(st.sets(st.sampled_from(ids), max_size=2))
    racks = draw(st.sampled_from(((None,), ("a", "b: c", "'d'"))))
    rates = draw(st.dictionaries(st.sampled_from(ids), st.just("5000000"), max_size=2))
    return ClusterSpec(
        version=draw(st.sampled_from(VERSIONS[2:])),
        brokers=tuple(
            BrokerSpec(
                id=b,
                rack=racks[b % len(racks)],
                down=b in down,
                configs={FOLLOWER_RATE: rates[b]} if b in rates and b not in down else {},
            )
            for b in ids
        ),
        topics=tuple(
            draw(topics(name, [*ids], down)) for name in ("orders", "1e3", "__consumer_offsets")
        ),
        broker_configs=draw(st.sampled_from(({}, {"min.insync.replicas": "2"}))),
        auto_leader_rebalance=draw(st.booleans()),
    )


@st.composite
def topics(draw: st.DrawFn, name: str, ids: list[int], down: set[int]) -> TopicSpec:
    count = draw(st.integers(1, 4))
    lists = [draw(st.permutations(ids))[: draw(st.integers(1, 3))] for _ in range(count)]
    leaders, isrs, targets, held = {}, {}, {}, {}
    sizes = tuple(draw(SIZES) for _ in lists)
    for number, replicas in enumerate(lists):
        up = [b for b in replicas if b not in down]
        isr = draw(st.lists(st.sampled_from(up or replicas), min_size=1, unique=True))
        if {*isr} != {*up}:
            isrs[number] = tuple(isr)
        leader = draw(st.sampled_from(isr))
        if up and leader != next(b for b in replicas if b in isr):
            leaders[number] = leader
        target = draw(st.permutations(ids))[: len(replicas)]
        if draw(st.booleans()) and {*target} != {*replicas}:
            targets[number] = tuple(target)
        for broker in {*replicas, *targets.get(number, ())} - {*isr}:
            replica = Replica(TopicPartition(name, number), broker)
            if broker in down:
                held[replica] = sizes[number] if broker in replicas else 0
            else:
                held[replica] = sizes[number] // draw(st.integers(2, 5))
    return TopicSpec(
        name=name,
        replicas=tuple(map(tuple, lists)),
        sizes=sizes,
        inbounds=tuple(draw(INBOUND) for _ in lists),
        configs=draw(
            st.sampled_from(({}, {"cleanup.policy": "compact"}, {FOLLOWER_REPLICAS: "0:1,0:2"}))
        ),
        start=TopicStart(leaders=leaders, isr=isrs, reassigning=targets, held=held),
    )


async def snapshot(cluster: SimulatedCluster, measure_s: float) -> tuple[ClusterTwin, Seen]:
    """Take a snapshot once moves without data have ended."""
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(1.0)
    reader = cluster.reader()
    twin = await take_twin(
        reader,
        cluster.clock,
        rates=lambda _: RATES,
        measure_s=measure_s,
        version=cluster.spec.version,
    )
    return twin, await seen(cluster)


async def seen(cluster: SimulatedCluster) -> Seen:
    reader = cluster.reader()
    answer = await read_with_log_dirs(reader, None)
    configs = (await reader.topic_configs({tp.topic for tp in answer.placement.partitions})).configs
    up = sorted(answer.placement.pool.online)
    return Seen(answer, dict(configs), {b: await reader.broker_config(b) for b in up})


def loaded(twin: ClusterTwin) -> ClusterSpec:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "twin.yaml"
        path.write_text(twin_text(twin, "A twin", ""), encoding="utf-8")
        scenario = load_scenario(path)
    assert scenario.snapshot == twin.info
    return scenario.spec


def shape(state: PartitionState) -> object:
    return state.replicas, {*state.isr}, state.leader, state.adding, state.removing, state.offline


@settings(max_examples=30)
@given(clusters(), st.sampled_from((0.0, MEASURED_S)))
def test_a_twin_read_from_its_file_begins_as_the_cluster_is(
    spec: ClusterSpec, measure_s: float
) -> None:
    twin, real = asyncio.run(
        snapshot(SimulatedCluster(spec, VirtualClock(leaping=True)), measure_s)
    )

    again = loaded(twin)

    assert again == twin.spec
    assert again.version == spec.version
    copy = asyncio.run(seen(SimulatedCluster(again, VirtualClock(leaping=True))))
    placement, its = real.answer.placement, copy.answer.placement
    assert (its.pool.online, its.pool.racks) == (placement.pool.online, placement.pool.racks)
    assert {tp: shape(state) for tp, state in its.partitions.items()} == {
        tp: shape(state) for tp, state in placement.partitions.items()
    }
    for broker, answer in real.answer.log_dirs.items():
        sizes = copy.answer.log_dirs[broker].sizes
        for tp, size in answer.sizes.items():
            led_by_nobody = placement.partitions[tp].leader is None
            assert led_by_nobody or abs(sizes[tp] - size) <= ROUNDING
    assert (copy.topics, copy.brokers) == (real.topics, real.brokers)


@settings(max_examples=20)
@given(clusters())
def test_a_twin_is_written_to_as_much_as_was_measured(spec: ClusterSpec) -> None:
    cluster = SimulatedCluster(spec, VirtualClock(leaping=True))

    twin, real = asyncio.run(snapshot(cluster, MEASURED_S))

    for topic in twin.spec.topics:
        written = next(each for each in spec.topics if each.name == topic.name).inbounds
        for number, rate in enumerate(written):
            leader = real.answer.placement.partitions[TopicPartition(topic.name, number)].leader
            measured = topic.inbounds[number] if topic.inbounds else topic.inbound
            expected = rate if leader is not None else 0.0
            off = abs(measured - expected)
            assert off <= 0.02 * expected + 2 * MESSAGE / MEASURED_S, (topic.name, number, measured)
