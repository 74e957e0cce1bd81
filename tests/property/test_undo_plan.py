"""The undo of a run puts back exactly what only the run has changed."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.tool_plans import undo_plan

AT = datetime(2026, 11, 21, tzinfo=UTC)
Replicas = tuple[int, ...]

lists = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def moves(draw: st.DrawFn) -> tuple[Replicas, Replicas, Replicas, Replicas, bool, bool]:
    """Draw a partition: before, target, now, what is being added, whether begun, whether there."""
    before, target, others = draw(lists), draw(lists), draw(lists)
    now = draw(st.sampled_from((before, target, others)))
    adding = draw(st.sampled_from(((), (), (6,))))
    return before, target, now, adding, draw(st.booleans()), draw(st.integers(0, 5)) > 0


@given(st.lists(moves(), max_size=8))
def test_every_partition_that_the_run_changed_goes_back_or_is_named_or_is_as_before(
    drawn: list[tuple[Replicas, Replicas, Replicas, Replicas, bool, bool]],
) -> None:
    run, partitions, absent = Run("run"), {}, set()
    back, left = {}, set()
    for n, (before, target, now, adding, begun, there) in enumerate(drawn):
        tp = TopicPartition("orders", n)
        _fold(run, n, before, target, begun=begun)
        if there:
            partitions[tp] = PartitionState(tp, "id", (*now, *adding), now, now[0], adding=adding)
        else:
            absent.add(tp)
        if not begun or (there and not adding and now == before):
            continue
        if there and not adding and now == target:
            back[tp] = before
        else:
            left.add(tp)

    undo = undo_plan(run, _seen(partitions, absent))

    assert {each.tp: each.replicas for each in undo.plan.partitions} == back
    assert {each.tp for each in undo.left} == left
    assert all(each.why for each in undo.left)


def _fold(run: Run, n: int, before: Replicas, target: Replicas, *, begun: bool) -> None:
    planned = Planned("orders", n, "id", target, before, before[0])
    events: list[AnyRunEvent] = [PlannedPart(partitions=(planned,))]
    if begun:
        step = StepBegun(
            topic="orders",
            partition=n,
            batch=1,
            replicas=target,
            adding=tuple(set(target) - set(before)),
            removing=tuple(set(before) - set(target)),
            elect=None,
            before=before,
            leader=before[0],
        )
        over = StepOver(topic="orders", partition=n, replicas=target, leader=target[0])
        done = StateEntered(topic="orders", partition=n, state=State.DONE)
        events += [step, over, done]
    for event in events:
        run.apply(JournalEntry(run.seq + 1, AT, event))


def _seen(
    partitions: dict[TopicPartition, PartitionState], absent: set[TopicPartition]
) -> Observation:
    return Observation(
        cluster_id="id",
        controller=1,
        brokers={},
        partitions=partitions,
        absent=frozenset(absent),
        at=AT,
        monotonic_s=0.0,
        took_s=0.0,
    )
