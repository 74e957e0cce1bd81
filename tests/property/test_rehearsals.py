"""A twin begins in the state of its snapshot, and a rehearsal takes the very steps of a run."""

import asyncio
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observer import Observer
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.engine.engine import Engine
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, Owned, StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.pacing.limits import SHAPES, Limits
from ktui.planning.check.snapshot import Placement, read_placement
from ktui.planning.plan import PartitionTarget, Plan
from ktui.rehearsal.aftermath import Played
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.summary import summarise
from ktui.rehearsal.twin import Pace, Twin, twin_of
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec, TopicStart
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.scenario.library import load_scenario
from ktui.simulated.twin import ClusterTwin, take_twin, twin_text
from support.simulated.moving_clusters import rehearsal_of

BROKERS = (1, 2, 3, 4, 5)
replicas = st.permutations(BROKERS).map(lambda order: tuple(order[:3]))
moves = st.lists(
    st.tuples(replicas, replicas).filter(lambda move: move[0] != move[1]), min_size=1, max_size=4
)
limits_of_a_run = st.builds(
    Limits,
    replicas=st.sampled_from((1, 2)),
    partitions=st.sampled_from((None, 1, 2)),
    shape=st.sampled_from(SHAPES),
)


def a_twin(lists: list[tuple[tuple[int, ...], tuple[int, ...]]], size: int) -> Twin:
    topic = TopicSpec(
        name="orders",
        replicas=tuple(before for before, _ in lists),
        bytes_each=size,
        inbound=1_000.0,
    )
    spec = ClusterSpec(brokers=tuple(BrokerSpec(id=b) for b in BROKERS), topics=(topic,))
    return twin_of("twin", spec, None)


def plan_of(lists: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Plan:
    return Plan(tuple(PartitionTarget("orders", n, after) for n, (_, after) in enumerate(lists)))


def drawn(
    lists: list[tuple[tuple[int, ...], tuple[int, ...]]], size: int, limits: Limits
) -> tuple[Rehearsal, ClusterSpec]:
    """Return the rehearsal of moves of partitions of a size, and its cluster."""
    twin = a_twin(lists, size)
    rehearsal = rehearsal_of(plan_of(lists), twin=twin, limits=limits)
    return rehearsal, twin.cluster(Pace.USUAL)


async def run_beside(rehearsal: Rehearsal, spec: ClusterSpec) -> list[JournalEntry]:
    """Carry the same run out with the engine alone, without a stage."""
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(spec, clock)
    ports = ClusterPorts(cluster.reader(), cluster.writer())
    observer = Observer(ports.reader, clock)
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal.create(Path(folder) / "journal.db", clock) as journal,
    ):
        journal.append(rehearsal.first)
        run = Run(rehearsal.name).fold(journal.entries())
        engine = Engine(run, journal, observer, ports, clock)
        await engine.execute(Owned(pid=0, host="", user=""))
        await observer.aclose()
        return list(journal.entries())


def rehearsed(rehearsal: Rehearsal, spec: ClusterSpec, *, passes_over: bool = False) -> Played:
    clock = VirtualClock(leaping=True)
    return asyncio.run(play(rehearsal, spec, clock, passes_over=passes_over))


def steps_of(entries: list[JournalEntry]) -> list[tuple[float, StepBegun | StepOver]]:
    return [
        ((entry.at - FIRST_MOMENT).total_seconds(), entry.event)
        for entry in entries
        if isinstance(entry.event, StepBegun | StepOver)
    ]


@settings(max_examples=10)
@given(moves, st.sampled_from((0, 5_000_000, 400_000_000)), limits_of_a_run)
def test_a_rehearsal_takes_the_steps_of_a_run_and_the_same_ones_each_time(
    lists: list[tuple[tuple[int, ...], tuple[int, ...]]], size: int, limits: Limits
) -> None:
    rehearsal, spec = drawn(lists, size, limits)

    first, second = (rehearsed(rehearsal, spec) for _ in range(2))
    alone = asyncio.run(run_beside(rehearsal, spec))

    assert first == second
    assert summarise(first).complete
    assert steps_of(list(first.entries)) == steps_of(alone)


@settings(max_examples=10)
@given(moves, st.sampled_from((0, 5_000_000, 400_000_000, 4_000_000_000)), limits_of_a_run)
def test_passing_over_polls_leaves_the_steps_and_about_their_times(
    lists: list[tuple[tuple[int, ...], tuple[int, ...]]], size: int, limits: Limits
) -> None:
    rehearsal, spec = drawn(lists, size, limits)

    usual, fewer = (rehearsed(rehearsal, spec, passes_over=each) for each in (False, True))

    steps = steps_of(list(usual.entries))
    assert by_partition(steps_of(list(fewer.entries))) == by_partition(steps)
    assert abs(fewer.lasted_s - usual.lasted_s) <= 0.05 * usual.lasted_s + 0.2 * len(steps)


def by_partition(steps: list[tuple[float, StepBegun | StepOver]]) -> dict[TopicPartition, object]:
    """Return the kinds of each partition's steps, and the replicas that they came to."""
    found: dict[TopicPartition, list[object]] = {}
    for _, event in steps:
        found.setdefault(event.tp, []).append((type(event), event.replicas))
    return dict(found)


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
ROUNDING = 2  # bytes: sizes are whole
SIZES = st.sampled_from((0, 10**8, 10**10, 3 * 10**10 + 7))
INBOUND = st.sampled_from((0.0, 5_000.0, 123_456.0))


class Seen(NamedTuple):
    """A cluster as its port shows it."""

    answer: Placement
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
    answer = await read_placement(reader)
    configs = (await reader.topic_configs({tp.topic for tp in answer.partitions})).configs
    up = sorted(answer.pool.online)
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
    placement, its = real.answer, copy.answer
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
            leader = real.answer.partitions[TopicPartition(topic.name, number)].leader
            measured = topic.inbounds[number] if topic.inbounds else topic.inbound
            expected = rate if leader is not None else 0.0
            off = abs(measured - expected)
            assert off <= 0.02 * expected + 2 * MESSAGE / MEASURED_S, (topic.name, number, measured)
