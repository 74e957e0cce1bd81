"""What the bench of the cost to producers counts as a stall, and what it puts it down to."""

from __future__ import annotations

import pytest
from bench.machine import Sample, Samples
from bench.stalls import Cause, Change, Stall, causes_of, stalls_of

STALL = Stall(partition=3, sent_s=10.0, since_s=10.3, until_s=11.3)


def _machine(gc_s: float = 0.0, busy: int = 0) -> Samples:
    machine = Samples()
    machine.all = [Sample(0.0, 0, 0, (0.0,)), Sample(20.0, busy, 100, (gc_s,))]
    return machine


def test_messages_that_are_late_at_the_same_time_are_one_stall_of_their_partition() -> None:
    timed = [(10.0, 1.3, 3), (10.2, 0.9, 3), (10.0, 1.0, 4), (10.5, 0.1, 3), (30.0, 0.5, 3)]

    assert stalls_of(timed) == [
        Stall(3, 10.0, 10.3, 11.3),
        Stall(3, 30.0, 30.3, 30.5),
        Stall(4, 10.0, 10.3, 11.0),
    ]


@pytest.mark.parametrize(
    ("changes", "machine", "cause"),
    [
        ((Change(9.0, 3, Cause.JOINED), Change(9.5, 3, Cause.LEADER)), _machine(), Cause.LEADER),
        ((Change(9.0, 3, Cause.JOINED), Change(9.5, 4, Cause.LEADER)), _machine(), Cause.JOINED),
        ((Change(8.0, 3, Cause.LEADER),), _machine(), Cause.UNKNOWN),
        ((Change(9.5, 4, Cause.LEADER),), _machine(), Cause.BESIDE),
        ((Change(9.5, 4, Cause.LEADER),), _machine(gc_s=0.2), Cause.GARBAGE),
        ((), _machine(busy=99), Cause.CPU),
        ((Change(12.0, 3, Cause.LEADER),), _machine(busy=50), Cause.UNKNOWN),
    ],
)
def test_a_stall_is_put_down_to_the_first_cause_with_evidence(
    changes: tuple[Change, ...], machine: Samples, cause: Cause
) -> None:
    assert causes_of([STALL], changes, machine) == {cause: pytest.approx(1.0)}
