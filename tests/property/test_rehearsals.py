"""A rehearsal takes the very steps of a run on the same cluster, and the same ones each time."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.engine.engine import Engine
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, Owned, StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.pacing.limits import SHAPES, Limits
from ktui.planning.plan import PartitionTarget, Plan
from ktui.rehearsal.aftermath import Played
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.summary import summarise
from ktui.rehearsal.twin import Pace, Twin, twin_of
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
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
