"""The rows of one recorded run simulated under other limits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktui.execution.run.events import LimitsChanged, Planned, PlannedPart
from ktui.insights.prior import RateCurve
from ktui.pacing.limits import Limits
from ktui.pipeline.what_if.model import Evidence, HeldOutTests, Model
from ktui.pipeline.what_if.play import GridCell, PlayableRun, playable_run
from ktui.pipeline.what_if.table import (
    RealDuration,
    advised_rows,
    driven_run,
    grid_near,
    held_out_tests,
    simulated_rows,
)
from ktui.planning.throttle_rates import parse_throttle_rates
from support.journals.journals import started

MB = 1_000_000
SEEN = Evidence(
    runs=2,
    steps=20,
    broker_bytes_s=10.0 * MB,
    free=True,
    fewest_at_once=1,
    most_at_once=4,
    partitions=4,
)

TESTED = HeldOutTests(runs=2)


def model(mb_s: float) -> Model:
    return Model(
        curve=RateCurve(most_bytes_s=1.5 * mb_s * MB, half_at=1.0, most_at_once=8),  # for two
        joining_s=0,
        other_s=1,
        seen=SEEN,
    )


def a_run(target: tuple[int, ...] = (4, 2, 3)) -> PlayableRun:
    planned = tuple(
        Planned(
            topic="a",
            partition=n,
            topic_id=None,
            target=target,
            original=(1, 2, 3),
            leader=1,
            size=100 * MB,
        )
        for n in range(4)
    )
    return playable_run("drain", [started(4), PlannedPart(partitions=planned)])


def rows_of(run: PlayableRun, lasted: RealDuration, *more: GridCell) -> list[dict[str, Any]]:
    simulated = [*simulated_rows(run, [run.cell, *more], model(10.0), lasted)]
    return list(advised_rows(simulated, None, TESTED))


def test_only_the_row_of_its_own_limits_has_the_actual_time_of_the_run() -> None:
    own, other = rows_of(a_run(), RealDuration(50_000, None), GridCell(Limits(partitions=1)))
    assert (own["own"], own["actual_s"]) == (True, 50.0)
    assert (other["own"], other["actual_s"]) == (False, None)
    assert own["bytes"] == 400 * MB
    assert own["predicted_s"] == pytest.approx(40, abs=3)


def test_every_row_has_the_error_of_a_model_fitted_on_other_runs() -> None:
    found = rows_of(a_run(), RealDuration(40_000, model(5.0)), GridCell(Limits(partitions=1)))
    (error,) = {row["error_held_out"] for row in found}
    assert error == pytest.approx(1.0, abs=0.1)


def test_nothing_is_advised_for_a_run_that_other_runs_mispredict() -> None:
    found = rows_of(a_run(), RealDuration(40_000, model(5.0)), GridCell(Limits(partitions=1)))

    assert not any(row["recommended"] for row in found)
    (reason,) = (row["reason"] for row in found if row["reason"])
    assert reason.startswith("predicted from other runs, this one is ")
    assert all(row["beyond"] for row in found)


def test_a_run_with_changed_limits_does_not_test_the_model() -> None:
    run = a_run()
    run.take(LimitsChanged(old=Limits(), new=Limits(partitions=2), batch=1, in_flight=0))
    assert {row["error_held_out"] for row in rows_of(run, RealDuration(40_000, model(5.0)))} == {
        None
    }
    assert {row["error_held_out"] for row in rows_of(a_run(), RealDuration(None, model(5.0)))} == {
        None
    }


def test_a_run_with_nothing_to_move_has_no_rows() -> None:
    assert not list(
        simulated_rows(a_run((1, 2, 3)), [GridCell(Limits())], model(10.0), RealDuration(1, None))
    )


RATES: list[dict[str, Any]] = [
    {"in_flight_ms": 20_000, "bytes_s": 2 * MB, "brokers": [], "chosen_by": "objective"},
    {"in_flight_ms": 9_000, "bytes_s": None, "brokers": [], "chosen_by": None},
    {
        "in_flight_ms": 50_000,
        "bytes_s": 5 * MB,
        "brokers": [{"broker": 4, "bytes_s": 3 * MB}],
        "chosen_by": "by",
    },
]


def test_the_own_row_of_a_driven_run_replays_its_rates_beside_one_without_a_throttle() -> None:
    run = driven_run(a_run(), RATES)
    free = GridCell(run.cell.limits)

    own, other = rows_of(run, RealDuration(100_000, None, by_s=120.0), free)

    assert own["driven_by"] == "by, objective"
    assert (other["driven_by"], other["by_s"]) == (None, None)
    assert own["throttle"] == other["throttle"] == "none"
    assert own["by_s"] == 120.0
    assert own["predicted_s"] == pytest.approx(29 + (400 - 40 - 90) / 3, abs=3)
    assert other["predicted_s"] == pytest.approx(40, abs=3)


def test_a_driven_run_tests_the_model_with_the_rates_that_it_had() -> None:
    run = driven_run(a_run(), RATES)

    (own,) = rows_of(run, RealDuration(119_000, model(10.0)))

    assert own["error_held_out"] == pytest.approx(0.0, abs=0.05)


def test_the_window_of_a_run_that_was_held_up_is_not_known_by_its_time() -> None:
    run = driven_run(a_run(), RATES)
    run.take(LimitsChanged(old=Limits(), new=Limits(partitions=2), batch=1, in_flight=0))

    (own,) = rows_of(run, RealDuration(100_000, None, by_s=120.0))

    assert own["by_s"] is None


def test_a_budget_is_named_as_it_was_given() -> None:
    run = a_run()
    run.cell = GridCell(run.cell.limits, parse_throttle_rates("total=8MB"))

    (own,) = rows_of(run, RealDuration(100_000, None))

    assert own["throttle"] == "total=8MB"
    assert own["predicted_s"] == pytest.approx(50, abs=3)


def test_the_range_of_every_row_has_the_errors_for_other_runs_in_it() -> None:
    run = a_run()
    simulated = [*simulated_rows(run, [run.cell], model(10.0), RealDuration(40_000, None))]

    (exact,) = advised_rows(simulated, None, TESTED)
    (wide,) = advised_rows(simulated, None, HeldOutTests(runs=2, low=0.5, high=3.0))

    assert (exact["low_s"], exact["high_s"]) == (exact["predicted_s"], exact["predicted_s"])
    assert wide["low_s"] == pytest.approx(0.5 * exact["predicted_s"])
    assert wide["high_s"] == pytest.approx(3.0 * exact["predicted_s"])


def test_of_few_runs_the_farthest_off_count_and_of_many_p10_and_p90() -> None:
    row = {"least": 0.5, "most": 3.0, "spread": [0.8, 1.3]}
    assert held_out_tests({**row, "tested": 9}) == HeldOutTests(9, 0.5, 3.0)
    assert held_out_tests({**row, "tested": 10}) == HeldOutTests(10, 0.8, 1.3)
    assert held_out_tests({"tested": 0, "least": None, "most": None, "spread": None}).runs == 0


def test_a_run_under_a_throttle_is_simulated_near_it() -> None:
    run = a_run()
    run.cell = GridCell(run.cell.limits, parse_throttle_rates("400kB"))

    rates = {cell.throttle.typed for cell in grid_near(run, model(20.0))}

    assert rates == {"100kB", "200kB", "400kB", "800kB", "1600kB", "none"}


def test_a_throttle_fifty_times_the_recorded_one_is_neither_tried_nor_advised() -> None:
    """What the only runs show is how fast copies are under 400 kB/s."""
    slow = Evidence(
        runs=3, steps=30, broker_bytes_s=0.4 * MB, throttle=400_000, fewest_at_once=1,
        most_at_once=4, partitions=4,
    )  # fmt: skip
    fitted = msgspec.structs.replace(
        model(50.0), curve=msgspec.structs.replace(model(50.0).curve, known_to=400_000.0), seen=slow
    )
    run = a_run()
    run.cell = GridCell(run.cell.limits, parse_throttle_rates("400kB"))
    cells = [run.cell, *(cell for cell in grid_near(run, fitted) if cell != run.cell)]

    rows = [*advised_rows([*simulated_rows(run, cells, fitted, AS_PREDICTED)], None, TESTED)]

    (told,) = (row for row in rows if row["reason"])
    assert told["throttle"] == "400kB"
    assert told["reason"].startswith("as fast as the run, with less at once")
    assert told["record"].endswith("--throttle 800kB")
    assert "20 MB" not in told["reason"]
    assert all(row["assumed"] for row in rows if row["throttle"] in ("800kB", "1600kB", "none"))
    assert all(not row["assumed"] for row in rows if row["throttle"] == "400kB")


AS_PREDICTED = RealDuration(1_000_000, None)
