"""The limits that are advised for a run, what is said of them, and the runs to record first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktui.pacing.limits import Limits
from ktui.pipeline.what_if.advice import advise
from ktui.pipeline.what_if.play import GridCell, SimulatedCell
from ktui.planning.throttle_rates import parse_throttle_rates

MB = 1_000_000
BEYOND = ("no throttle above 400 kB/s was recorded",)


def cell(predicted_s: float, throttle: str = "none", partitions: int = 4, **more: Any) -> Any:
    return SimulatedCell(
        **{
            "cell": GridCell(
                Limits(partitions=partitions, replicas=1), parse_throttle_rates(throttle)
            ),
            "own": False,
            "predicted_s": predicted_s,
            "low_s": 0.9 * predicted_s,
            "high_s": 1.2 * predicted_s,
            "partitions_at_once": partitions,
            "peak_extra_replicas": partitions,
            "batches": 1,
            "broker_bytes_s": 4.0 * MB,
            **more,
        }
    )


OWN = cell(100.0, own=True, actual_s=110.0)


def test_limits_that_change_nothing_are_not_advised() -> None:
    loose = cell(100.0, cell=GridCell(Limits(partitions=5)))
    hardly = cell(98.0)

    for window_s in (None, 200.0):
        advice = advise([OWN, loose, hardly], window_s)
        assert advice.place is None
        assert advice.told_of == 0
        assert advice.reason.startswith("nothing that was recorded ")
        assert advice.record is None


def test_limits_slower_than_the_run_in_fact_are_not_advised_as_faster() -> None:
    """The model is off for this run: it took 60 s, and not 100."""
    quick = msgspec.structs.replace(OWN, actual_s=60.0)

    assert advise([quick, cell(80.0)], None).place is None
    assert advise([quick, cell(50.0)], None).place == 1


def test_slower_limits_are_advised_for_a_window_with_what_they_gain_in_figures() -> None:
    slow = cell(300.0, partitions=1, broker_bytes_s=1.0 * MB)

    advice = advise([OWN, slow], 400.0)

    assert advice.place == 1
    assert advice.reason == (
        "the fewest at once of the 1 that fit 6m 40s: 5m (4m 30s to 6m) instead of 1m 50s, which it"
        " took; 1 partition at once instead of 4; 1 extra replica instead of 4; 1.0 MB/s into a"
        " broker at most instead of 4.0 MB/s"
    )


def test_what_faster_limits_cost_is_said_in_figures() -> None:
    advice = advise([OWN, cell(50.0, broker_bytes_s=8.0 * MB)], None)

    assert advice.place == 1
    assert advice.reason.endswith("; 8.0 MB/s into a broker at most instead of 4.0 MB/s")


def test_limits_as_fast_as_the_run_are_advised_if_they_have_less_at_once() -> None:
    traded = cell(101.0, partitions=2, broker_bytes_s=5.0 * MB)

    advice = advise([OWN, traded, cell(103.0, partitions=2)], None)

    assert advice.place == 2
    assert advice.reason.startswith("as fast as the run, with less at once: 1m 43s ")


def test_where_too_little_was_seen_the_run_to_record_is_named_by_its_options() -> None:
    far = cell(5.0, beyond=("no throttle above 400 kB/s was recorded", "60 MB/s into a broker"))
    near = cell(60.0, "800kB", beyond=BEYOND, broker_bytes_s=0.8 * MB)
    nearer_yet = cell(99.0, "500kB", beyond=BEYOND, broker_bytes_s=0.5 * MB)

    advice = advise([OWN, far, near, nearer_yet], None)

    assert advice.place is None
    assert advice.record is not None
    assert "--partitions 4" in advice.record
    assert advice.record.endswith("--throttle 800kB")
    assert advice.reason.endswith(f"to know, record one run with {advice.record}")
    assert "1m" not in advice.reason


def test_with_too_few_runs_one_more_run_is_named_to_record() -> None:
    alone = msgspec.structs.replace(OWN, beyond=("2 runs have to be recorded, and there is 1",))

    advice = advise([alone, cell(10.0)], None)

    assert advice.place is None
    assert advice.reason.startswith("2 runs have to be recorded, and there is 1; to know, record ")
    assert advice.record is not None
    assert "--partitions 4" in advice.record


@pytest.mark.parametrize("window_s", [None, 50.0, 10_000.0])
def test_limits_that_fit_no_window_or_are_beyond_the_recordings_get_no_time(
    window_s: float | None,
) -> None:
    advice = advise([OWN, cell(7.0, beyond=BEYOND)], window_s)

    assert advice.place is None
    assert " 7 s" not in advice.reason
