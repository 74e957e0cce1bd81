"""A run shows its partitions in the order in which its engine begins them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.execution.engine.between_steps import as_journaled
from ktui.execution.run.events import JournalEntry, PlannedPart
from ktui.execution.run.first_events import planned_partitions
from ktui.execution.run.run import Run
from ktui.execution.run.track import queue_rank
from ktui.pacing.limits import Limits, Order
from ktui.pacing.roster import Roster
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from support.runs.pacing import tp

SIZES = {tp(0): 60, tp(1): 1_024, tp(2): 500, tp(3): 10_240}


def a_run() -> Run:
    plan = Plan(tuple(PartitionTarget(each.topic, each.partition, (1, 2)) for each in SIZES))
    cluster = ClusterSnapshot(
        partitions={each: PartitionState(each, "id", (1,), (1,), 1) for each in SIZES},
        brokers={},
        configs={},
        sizes={Replica(each, 1): size for each, size in SIZES.items()},
    )
    planned = PlannedPart(partitions=tuple(planned_partitions(plan, cluster)))
    return Run("run").fold([JournalEntry(1, datetime(2026, 11, 26, tzinfo=UTC), planned)])


@pytest.mark.parametrize("order", Order)
def test_the_list_and_the_engine_sort_alike(order: Order) -> None:
    limits, run = Limits(order=order), a_run()
    roster = Roster(limits)
    roster.add(map(as_journaled, run.tracks.values()))

    listed = sorted(SIZES, key=lambda each: queue_rank(run.tracks[each], limits))

    assert listed == sorted(SIZES, key=roster.rank)
    if order is Order.LONG_FIRST:
        assert listed == [tp(3), tp(1), tp(0), tp(2)]


def test_what_goes_ahead_is_in_the_journal_so_that_a_resumed_run_keeps_its_order() -> None:
    ahead = {each: track.planned.ahead for each, track in a_run().tracks.items()}

    assert ahead == {TopicPartition("orders", n): b for n, b in enumerate((0, 1_024, 0, 10_240))}
