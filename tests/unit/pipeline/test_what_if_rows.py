"""What-if: rows and their evidence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.events import LimitsChanged, Planned, PlannedPart
from ktui.insights import RateCurve
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.model import (
    LEAST_RUNS,
    LEAST_STEPS,
    Evidence,
    HeldOutTests,
    InflowSample,
    Model,
    RecordedStep,
    SimulatedUse,
    beyond_evidence,
    fit,
    missing_evidence,
    model_too_far_off,
    untested,
)
from ktui.pipeline.forecast.play import GridCell, PlayableRun, playable_run
from ktui.pipeline.forecast.what_if import (
    RealDuration,
    advised_rows,
    driven_run,
    grid_near,
    held_out_tests,
    simulated_rows,
)
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates, parse_throttle_rates
from ktui.speed.shown import TELLING_S
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


WHAT_IF_EVIDENCE_SEEN = Evidence(
    runs=3,
    steps=24,
    broker_bytes_s=40.0 * MB,
    free=True,
    throttle=20 * MB,
    fewest_at_once=1,
    most_at_once=4,
    partitions=8,
)
USE = SimulatedUse(
    throttle=parse_throttle_rates("none"),
    broker_bytes_s=40.0 * MB,
    fewest_at_once=1,
    most_at_once=4,
    partitions=8,
)
FEW = st.integers(0, 6)
WHAT_IF_EVIDENCE_RATES = st.none() | st.integers(1, 100 * MB)


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    fewest = draw(FEW)
    return Evidence(
        runs=draw(FEW),
        steps=draw(st.integers(0, 30)),
        broker_bytes_s=draw(st.floats(0, 100.0 * MB)),
        free=draw(st.booleans()),
        throttle=draw(st.integers(0, 100 * MB)),
        fewest_at_once=fewest,
        most_at_once=fewest + draw(FEW),
        partitions=draw(FEW),
    )


@st.composite
def uses(draw: st.DrawFn) -> SimulatedUse:
    own = tuple(BrokerRate(n, draw(WHAT_IF_EVIDENCE_RATES)) for n in range(draw(st.integers(0, 2))))
    fewest = draw(FEW)
    return SimulatedUse(
        throttle=ThrottleRates(draw(WHAT_IF_EVIDENCE_RATES), own),
        broker_bytes_s=draw(st.floats(0, 100.0 * MB)),
        fewest_at_once=fewest,
        most_at_once=fewest + draw(FEW),
        partitions=draw(FEW),
    )


@given(use=uses(), seen=evidence())
def test_a_use_within_the_evidence_exceeds_nothing_recorded(
    use: SimulatedUse, seen: Evidence
) -> None:
    if list(beyond_evidence(use, seen)):
        return
    rates = [use.throttle.every, *(each.bytes_s for each in use.throttle.brokers)]
    most = max(seen.throttle, seen.broker_bytes_s)
    assert seen.free or None not in rates
    assert all(rate <= most * 1.001 for rate in rates if rate is not None)
    assert use.broker_bytes_s <= seen.broker_bytes_s * 1.001
    assert seen.fewest_at_once <= use.fewest_at_once <= use.most_at_once <= seen.most_at_once
    assert use.partitions <= seen.partitions


@given(use=uses(), seen=evidence(), more=evidence())
def test_more_evidence_never_excludes_a_use_that_was_within(
    use: SimulatedUse, seen: Evidence, more: Evidence
) -> None:
    both = Evidence(
        runs=seen.runs + more.runs,
        steps=seen.steps + more.steps,
        broker_bytes_s=max(seen.broker_bytes_s, more.broker_bytes_s),
        free=seen.free or more.free,
        throttle=max(seen.throttle, more.throttle),
        fewest_at_once=min(seen.fewest_at_once, more.fewest_at_once),
        most_at_once=max(seen.most_at_once, more.most_at_once),
        partitions=max(seen.partitions, more.partitions),
    )
    assert len(list(beyond_evidence(use, both))) <= len(list(beyond_evidence(use, seen)))
    assert len(list(missing_evidence(both))) <= len(list(missing_evidence(seen)))


def test_a_use_as_recorded_is_within_the_evidence() -> None:
    assert list(beyond_evidence(USE, WHAT_IF_EVIDENCE_SEEN)) == []
    assert list(missing_evidence(WHAT_IF_EVIDENCE_SEEN)) == []


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"throttle": parse_throttle_rates("1GB/s")}, "no throttle above 40 MB/s was recorded"),
        ({"broker_bytes_s": 50.0 * MB}, "50 MB/s into a broker, and 40 MB/s at most were recorded"),
        ({"most_at_once": 5}, "5 at once into a broker, and 4 at most were recorded"),
        ({"fewest_at_once": 0}, "0 at once into a broker, and 1 at least were recorded"),
        ({"partitions": 9}, "9 partitions at once, and 8 at most were recorded"),
    ],
)
def test_a_use_beyond_the_evidence_is_named_with_the_recorded_bound(
    more: dict[str, object], sentence: str
) -> None:
    assert list(beyond_evidence(msgspec.structs.replace(USE, **more), WHAT_IF_EVIDENCE_SEEN)) == [
        sentence
    ]


def test_a_throttle_fifty_times_the_recorded_one_is_beyond_the_evidence() -> None:
    """Every recorded copy was limited by it, so the unthrottled rate is unknown."""
    step = RecordedStep("run", adds=True, took_s=30.0, copying_s=28.0)
    model = fit([InflowSample("run", 1, 2, 60.0, 60.0 * 2 * MB, 2 * MB)], [step] * 12, 2)
    assert model is not None
    assert model.curve.known_to == 2 * MB
    use = msgspec.structs.replace(USE, fewest_at_once=2, most_at_once=2, partitions=2)
    for throttle in ("100MB/s", "none"):
        faster = msgspec.structs.replace(
            use,
            throttle=parse_throttle_rates(throttle),
            broker_bytes_s=model.curve.bytes_s(2, None),
        )
        assert "67 MB/s into a broker, and 2.0 MB/s at most were recorded" in list(
            beyond_evidence(faster, model.seen)
        )
    same = msgspec.structs.replace(
        use, throttle=parse_throttle_rates("2MB/s"), broker_bytes_s=model.curve.bytes_s(2, 2 * MB)
    )
    assert list(beyond_evidence(same, model.seen)) == []


def test_a_throttle_that_never_limited_copies_counts_as_none() -> None:
    """Kafka's largest rate stands for "no limit" on many clusters."""
    model = fit([InflowSample("run", 1, 2, 60.0, 60.0 * 20 * MB, 2**63 - 1)], [])
    assert model is not None
    assert model.seen.free
    assert model.seen.throttle == 0
    use = msgspec.structs.replace(
        USE, throttle=parse_throttle_rates("1GB/s"), broker_bytes_s=20.0 * MB, fewest_at_once=2,
        most_at_once=2, partitions=0,
    )  # fmt: skip
    assert list(beyond_evidence(use, model.seen)) == ["no throttle above 20 MB/s was recorded"]


def test_short_recordings_are_not_evidence() -> None:
    long, short = TELLING_S, TELLING_S / 4
    model = fit(
        [
            InflowSample("a", 1, 2, long, 1.0, None),
            *(InflowSample("b", n, 9, short, 1.0, None) for n in (1, 2)),
        ],
        [],
    )
    assert model is not None
    assert (model.seen.fewest_at_once, model.seen.most_at_once) == (2, 2)
    assert list(missing_evidence(model.seen)) == [
        f"{LEAST_STEPS} steps that copy have to be recorded, and there are 0"
    ]
    alone = msgspec.structs.replace(WHAT_IF_EVIDENCE_SEEN, runs=1)
    assert list(missing_evidence(alone)) == [
        f"{LEAST_RUNS} runs have to be recorded, and there is 1"
    ]


@pytest.mark.parametrize(
    ("error", "far"), [(None, 0), (0.5, 0), (-0.5, 0), (0.51, 1), (-0.6, 1), (float("nan"), 1)]
)
def test_a_model_far_off_for_a_run_gives_no_advice(error: float | None, far: int) -> None:
    assert len(list(model_too_far_off(error))) == far


def test_a_range_has_the_error_of_predictions_for_other_runs_in_it() -> None:
    slow, fast = HeldOutTests(runs=3, low=0.9, high=1.6), HeldOutTests(runs=3, low=0.5, high=1.0)
    assert slow.widened(100.0, 95.0, 110.0) == (90.0, 160.0)
    assert fast.widened(100.0, 40.0, 110.0) == (40.0, 110.0)


def test_a_model_that_no_run_has_tested_gives_no_advice() -> None:
    assert list(untested(HeldOutTests(runs=1))) == []
    (reason,) = untested(HeldOutTests())
    assert "record one that keeps its limits" in reason
