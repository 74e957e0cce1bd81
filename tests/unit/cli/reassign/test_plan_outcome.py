"""A partition of a plan is completed, in progress, cancelled, different or absent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ktui.cli.reassign.verify_plan import PlanOutcome, cancelled_targets, plan_outcomes
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition
from ktui.execution.cancel.foreign import ForeignCancelLine, ForeignOutcome

TP = TopicPartition("orders", 0)
TARGET = (4, 2)


def at_rest(*replicas: int) -> PartitionState:
    return PartitionState(TP, "an-id", replicas, replicas, replicas[0])


MOVING = Reassignment(replicas=(4, 2, 1), adding=(4,), removing=(1,))
ELSEWHERE = Reassignment(replicas=(5, 2, 1), adding=(5,), removing=(1,))


@pytest.mark.parametrize(
    ("state", "listed", "cancelled", "outcome"),
    [
        (at_rest(4, 2), None, None, PlanOutcome.COMPLETED),
        (at_rest(4, 2), None, TARGET, PlanOutcome.COMPLETED),
        (at_rest(2, 4), None, None, PlanOutcome.DIFFERENT),
        (at_rest(1, 2), None, TARGET, PlanOutcome.CANCELLED),
        (at_rest(1, 2), None, (5, 2), PlanOutcome.DIFFERENT),
        (at_rest(1, 2), MOVING, TARGET, PlanOutcome.IN_PROGRESS),
        (at_rest(1, 2), ELSEWHERE, TARGET, PlanOutcome.DIFFERENT),
        (None, None, None, PlanOutcome.ABSENT),
    ],
)
def test_the_outcome_follows_from_replicas_the_list_and_the_last_cancel(
    state: PartitionState | None,
    listed: Reassignment | None,
    cancelled: Brokers | None,
    outcome: PlanOutcome,
) -> None:
    (found,) = plan_outcomes(
        {TP: TARGET},
        {} if state is None else {TP: state},
        {} if listed is None else {TP: listed},
        {} if cancelled is None else {TP: cancelled},
    )

    assert found.outcome is outcome
    assert found.target == TARGET


def in_log(at: int, outcome: ForeignOutcome, target: Brokers = TARGET) -> ForeignCancelLine:
    return ForeignCancelLine(
        at=datetime(2026, 11, 21, 12, at, tzinfo=UTC),
        who="ada@host (7)",
        cluster_id="c",
        topic=TP.topic,
        topic_id=None,
        partition=TP.partition,
        original=(1, 2),
        target=target,
        outcome=outcome.value,
    )


@pytest.mark.parametrize(
    ("log", "cancelled"),
    [
        ([in_log(1, ForeignOutcome.STOPPED)], TARGET),
        ([in_log(1, ForeignOutcome.REFUSED)], None),
        ([in_log(1, ForeignOutcome.COMPLETED)], None),
        ([in_log(2, ForeignOutcome.STOPPED, (5, 2)), in_log(1, ForeignOutcome.STOPPED)], (5, 2)),
    ],
)
def test_only_the_last_cancel_that_was_carried_out_counts(
    log: list[ForeignCancelLine], cancelled: Brokers | None
) -> None:
    assert cancelled_targets([], log).get(TP) == cancelled
