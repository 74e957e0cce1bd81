"""Which partitions of a run have to do with a broker, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    JournalEntry,
    StateEntered,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.scope import partitions_on
from ktui.execution.run.states import CancelKind, State
from support.journals.journals import accepted, planned, started, step
from support.simulated.observations import START

P0, P1 = (TopicPartition("orders", n) for n in range(2))


def moved() -> list[AnyRunEvent]:
    """Move orders-0 from broker 3 to 4, to its end."""
    at_target = StepOver(topic="orders", partition=0, replicas=(1, 2, 4), leader=1)
    done = StateEntered(topic="orders", partition=0, state=State.DONE)
    return [step(0), accepted(0), at_target, done]


def run_of(events: Sequence[AnyRunEvent] = ()) -> Run:
    run = Run("drain")
    for seq, event in enumerate([started(2), planned(2), *events], 1):
        run.apply(JournalEntry(seq, START, event))
    return run


@pytest.mark.parametrize("broker", [1, 2, 3, 4])
def test_a_partition_has_to_do_with_the_brokers_that_it_has_and_gets(broker: int) -> None:
    assert partitions_on(run_of(), [broker]) == (P0, P1)


def test_no_partition_has_to_do_with_any_other_broker() -> None:
    assert partitions_on(run_of(), [5, 6]) == ()
    assert partitions_on(run_of(), []) == ()


def test_a_partition_that_has_left_a_broker_has_nothing_to_do_with_it_any_more() -> None:
    run = run_of(moved())

    assert partitions_on(run, [3]) == (P1,)
    assert partitions_on(run, [4]) == (P0, P1)


def test_a_pause_is_lifted_of_partitions_that_have_left_the_broker_since() -> None:
    assert partitions_on(run_of(moved()), [3], ever=True) == (P0, P1)


def test_a_stopped_partition_gains_nothing_any_more() -> None:
    stop = CancelAsked(kind=CancelKind.STOP, partitions=(P1,))

    assert partitions_on(run_of([stop]), [4]) == (P0,)
    assert partitions_on(run_of([stop]), [3]) == (P0, P1)


def test_a_partition_that_is_rolled_back_gains_its_original_replicas() -> None:
    rollback = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(P0,))

    assert partitions_on(run_of([*moved()[:3], rollback]), [3]) == (P0, P1)
