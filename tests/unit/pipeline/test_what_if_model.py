"""What-if: its model, its grid and its advice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.inputfile import FileProblem
from ktui.pacing.limits import Limits, Shape
from ktui.pipeline.forecast.advice import advise
from ktui.pipeline.forecast.model import InflowSample, Model, RecordedStep, fit
from ktui.pipeline.forecast.play import GridCell, SimulatedCell, read_grid, relative_grid
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.speed.capacity import THROTTLED
from ktui.speed.copies import speedup

MB = 1_000_000.0


EVEN = 1.5
"""How many copies a broker has for each that it receives, if it sends as many: sending is half."""
SLOWED = (EVEN + 1) / 2
"""How many times as fast a copy would be without the one that its broker sends meanwhile."""


def inflow(at_once: int, rate: float, throttle: int | None = None, broker: int = 1) -> InflowSample:
    return InflowSample(f"run-{broker}", broker, at_once, 100.0, 100.0 * rate, throttle)


def model_of(*inflows: InflowSample, steps: tuple[RecordedStep, ...] = ()) -> Model:
    model = fit(inflows, steps)
    assert model is not None
    return model


def test_there_is_no_model_without_copied_bytes() -> None:
    assert fit([], []) is None
    assert fit([inflow(1, 0.0)], []) is None


@given(alone=st.floats(1, 1000))
def test_the_fit_recovers_a_cluster_that_behaves_like_the_model(alone: float) -> None:
    seen = [inflow(n, alone * MB * speedup(EVEN * n) / EVEN) for n in (1, 2, 4, 8, 16)]
    model = model_of(*seen)
    for n in (1, 3, 10, 30):
        assert model.curve.bytes_s(n, None) == pytest.approx(alone * MB * speedup(n), rel=0.01)


def test_the_rate_is_capped_at_twice_the_recorded_concurrency() -> None:
    model = model_of(inflow(1, 10 * MB), inflow(2, 20 * MB))
    assert model.curve.bytes_s(4, None) == model.curve.bytes_s(100, None)
    assert model.curve.bytes_s(4, None) <= 40 * MB


def test_a_throttle_allows_the_share_that_throttled_brokers_achieved() -> None:
    model = model_of(inflow(1, 50 * MB), inflow(2, 9 * MB, throttle=10_000_000, broker=2))
    assert model.curve.bytes_s(3, 20_000_000) == pytest.approx(18 * MB)
    assert model.curve.bytes_s(3, 500_000_000) == model.curve.bytes_s(3, None)


def test_a_throttle_that_never_limited_copies_is_no_evidence_of_throttles() -> None:
    model = model_of(inflow(1, 20 * MB, throttle=900_000_000))
    assert model.curve.throttled == THROTTLED.middle
    assert model.curve.known_to is None
    assert model.curve.bytes_s(1, None) == pytest.approx(20 * MB)


def test_the_unthrottled_rate_is_assumed_when_every_copy_was_throttled() -> None:
    model = model_of(inflow(3, 10 * MB, throttle=10_000_000))
    assert model.curve.known_to == 10_000_000
    assert model.curve.bytes_s(1, None) == 50 * MB


def test_partly_idle_throttled_copies_are_no_evidence_of_the_unthrottled_rate() -> None:
    held_up = inflow(2, 0.9 * MB, throttle=1_000_000)
    seldom = [inflow(n, 0.4 * MB, throttle=1_000_000, broker=2) for n in (1, 2, 3)]
    model = model_of(held_up, *seldom)
    assert model.curve.known_to == 1_000_000
    assert model.curve.bytes_s(1, None) == 50 * MB


def test_throttled_copies_achieve_most_of_the_throttle_on_a_real_cluster() -> None:
    shares = (0.74, 0.82, 0.75, 0.86, 1.12)
    seen = [inflow(1, 0.6 * MB * share, 600_000, n) for n, share in enumerate(shares)]
    model = model_of(*seen)
    assert model.curve.known_to == 600_000
    assert model.curve.throttled == pytest.approx(0.858)


def test_the_seconds_between_the_gulps_of_a_throttle_count_for_its_share() -> None:
    gulps = [InflowSample("run", broker, 2, 10.0, 10.0 * 12 * MB, 10_000_000) for broker in (1, 2)]
    nothing = [InflowSample("run", broker, 0, 5.0, 0.0, 10_000_000) for broker in (1, 2)]

    curve = model_of(*gulps, *nothing).curve

    assert curve.throttled == pytest.approx(0.8)
    assert curve.known_to == 10_000_000


def test_a_few_seconds_say_less_about_a_throttle_than_a_long_run() -> None:
    long = InflowSample("run", 1, 2, 100.0, 100.0 * 8 * MB, 10_000_000)
    short = [InflowSample("run", n, 1, 1.0, 13 * MB, 10_000_000) for n in (2, 3, 4)]

    assert model_of(long, *short).curve.throttled == pytest.approx(0.8, abs=0.02)


def test_a_slow_broker_without_a_throttle_is_simply_slow() -> None:
    model = model_of(inflow(1, 3 * MB), inflow(1, 9 * MB, throttle=10_000_000, broker=2))
    assert model.curve.known_to is None
    assert model.curve.bytes_s(1, None) == pytest.approx(SLOWED * 3 * MB)


def test_step_overhead_is_the_median_in_whole_polls() -> None:
    steps = (
        RecordedStep("a", adds=True, took_s=14.5, copying_s=10.0),
        RecordedStep("a", adds=True, took_s=24.5, copying_s=20.0),
        RecordedStep("a", adds=True, took_s=99.0, copying_s=9.0),
        RecordedStep("a", adds=False, took_s=3.5, copying_s=0.0),
    )
    model = model_of(inflow(1, MB), steps=steps)
    assert model.joining_s == 4
    assert model.other_s == 3
    assert (model.overhead.joining_s, model.overhead.other_s) == (4, 3)


def test_a_step_takes_one_poll_without_recorded_steps() -> None:
    model = model_of(inflow(1, MB))
    assert (model.joining_s, model.other_s) == (0, 1)


def test_the_range_covers_recorded_rates_relative_to_the_predicted_ones() -> None:
    rates = [8, 9, 10, 10, 10, 11, 12]
    model = model_of(*(inflow(1, rate * MB, broker=n) for n, rate in enumerate(rates)))
    assert 0.8 <= model.curve.low < 0.95
    assert 1.05 < model.curve.high <= 1.2


def test_the_range_from_few_brokers_is_no_narrower_than_the_default() -> None:
    curve = model_of(inflow(1, MB)).curve
    assert curve.low <= 0.4
    assert curve.high >= 2.0


def test_each_broker_is_simulated_under_its_own_throttle() -> None:
    model = model_of(inflow(1, 50 * MB))
    rates = model.under(parse_throttle_rates("20MB,3=5MB"))
    assert rates.takes(1, 1) == pytest.approx(20 * MB * THROTTLED.middle)
    assert rates.takes(3, 1) == pytest.approx(5 * MB * THROTTLED.middle)


def test_an_answer_names_every_figure_that_no_recording_shows() -> None:
    """Every copy was held up by a throttle of 400 kB/s, so what brokers can do is assumed."""
    steps = tuple(RecordedStep("a", adds=adds, took_s=9.0, copying_s=7.0) for adds in (True, False))
    throttled = [inflow(2, 0.4 * MB, throttle=400_000, broker=n) for n in range(5)]
    model = model_of(*throttled, steps=steps)

    assert model.assumptions(parse_throttle_rates("400kB"), [1, 2]) == ()
    for further in ("none", "20MB", "400kB,2=20MB"):
        assert model.assumptions(parse_throttle_rates(further), [1, 2]) == (
            "50 MB/s into a broker without a throttle",
        )


def test_an_answer_of_few_recordings_names_its_range_and_its_waits_as_assumed() -> None:
    found = model_of(inflow(1, 20 * MB)).assumptions(parse_throttle_rates("10MB"), [1])

    assert found == (
        "a range of rates as 20 MB/s to 100 MB/s is around 50 MB/s",
        "no time beside copying",
        "1 s for a step that copies nothing",
        "that copies get 60% of a throttle",
    )


@pytest.mark.parametrize(
    ("inflows", "runs"),
    [
        ([inflow(1, 50 * MB)], 1),
        ([inflow(1, 50 * MB), inflow(2, 70 * MB, broker=2)], 2),
        ([inflow(1, 50 * MB), inflow(2, 9 * MB, throttle=10_000_000, broker=2)], 1),
        ([inflow(2, 9 * MB, throttle=10_000_000)], 0),
        ([inflow(1, 50 * MB), InflowSample("short", 1, 1, 9.0, 400 * MB, None)], 1),
        ([inflow(1, 50 * MB), InflowSample(None, 1, 1, 60.0, 2000 * MB, None)], 1),
    ],
    ids=["one", "two", "a throttled one", "only throttled", "a short one", "moves of others"],
)
def test_the_runs_that_showed_the_rate_without_a_throttle_are_counted(
    inflows: list[InflowSample], runs: int
) -> None:
    assert model_of(*inflows).curve.unthrottled_runs == runs


def throttled(share: float, broker: int, throttle: int = 2_000_000) -> InflowSample:
    return inflow(2, share * throttle, throttle=throttle, broker=broker)


def test_a_throttle_that_lets_half_through_is_known_beside_faster_copies_without_one() -> None:
    model = model_of(inflow(2, 50 * MB), *(throttled(0.5, broker) for broker in (2, 3, 4)))

    assert model.curve.throttled == pytest.approx(0.5)
    assert model.curve.bytes_s(2, 2_000_000) == pytest.approx(1 * MB)
    assert model.curve.bytes_s(2, None) == pytest.approx(50 * MB * 2 / EVEN)
    assert model.seen.throttle == 2_000_000


def test_a_throttle_is_not_why_a_broker_is_slow_that_hardly_copies() -> None:
    model = model_of(inflow(2, 50 * MB), *(throttled(0.2, broker) for broker in (2, 3, 4)))

    assert model.curve.throttled == THROTTLED.middle


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    return tmp_path / "grid.yaml"


def test_a_grid_combines_every_limit_with_every_other_and_every_throttle(grid: Path) -> None:
    grid.write_text(
        "limits:\n  partitions: [1, 5]\n  shape: [gentle, kip-435]\nthrottle: [none, 50MB/s]\n"
    )
    cells = read_grid(grid)
    assert len(cells) == 8
    assert (
        GridCell(Limits(partitions=5, shape=Shape.KIP_435), parse_throttle_rates("50MB/s")) in cells
    )


def test_a_single_value_needs_no_list_and_none_lifts_a_limit(grid: Path) -> None:
    grid.write_text("limits:\n  partitions: 3\n  replicas: none\n")
    assert read_grid(grid) == (GridCell(Limits(partitions=3)),)


def throttles(cells: tuple[GridCell, ...]) -> set[str]:
    return {cell.throttle.typed for cell in cells}


def test_without_a_file_a_run_is_simulated_near_its_own_limits_and_throttle() -> None:
    own = GridCell(Limits(partitions=8, replicas=1, per_broker=2), parse_throttle_rates("400kB"))

    cells = relative_grid(own, 100, 90e6)

    assert own in cells
    assert len(set(cells)) == len(cells) == 60
    assert throttles(cells) == {"100kB", "200kB", "400kB", "800kB", "1600kB", "none"}
    assert {(cell.limits.partitions, cell.limits.per_broker) for cell in cells} == {
        (2, 1), (4, 1), (8, 2), (16, 4), (32, 8)
    }  # fmt: skip
    assert {cell.limits.replicas for cell in cells} == {1, None}


def test_a_run_without_limits_or_throttle_is_simulated_with_less_than_all_at_once() -> None:
    cells = relative_grid(GridCell(Limits()), 40, 21_456_789.0)

    assert {cell.limits.partitions for cell in cells} == {10, 20, 40, 80, 160}
    assert throttles(cells) == {"none", "5250kB", "10500kB"}


def test_the_rates_of_single_brokers_and_budgets_change_with_the_throttle() -> None:
    own = GridCell(Limits(bytes_per_broker=32 << 20), parse_throttle_rates("8MB,3=2MB,total=20MB"))

    cells = relative_grid(own, 40, 1.0)

    assert "4MB,3=1MB,total=10MB" in throttles(cells)
    assert {cell.limits.bytes_per_broker for cell in cells} == {
        n << 20 for n in (8, 16, 32, 64, 128)
    }


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("limits:\n  partitions: [1, 0]\n", 2, "--partitions: 0 is too small"),
        ("limits:\n  replicas: [1]\n  partition: [1]\n", 3, "there is no such limit"),
        ("limits:\n  shape: [round]\n", 2, "'round' is not a valid value"),
        ("limits: {}\nthrottle: [50MB/s, fast]\n", 2, "throttle: 'fast'"),
        ("limit: {}\n", 1, "unknown key 'limit'; did you mean 'limits'?"),
        ("limits:\n  partitions: []\n", 1, "0 cells"),
        (f"limits:\n  partitions: {list(range(1, 1002))}\n", 1, "1,001 cells"),
        ("limits:\n  shape: [kip-435]\n  extra-replicas: [1]\n", 1, "has no effect"),
    ],
)
def test_a_mistake_in_a_grid_is_reported_with_its_line(
    grid: Path, text: str, line: int, words: str
) -> None:
    grid.write_text(text)
    with pytest.raises(FileProblem, match=re.escape(words)) as refused:
        read_grid(grid)
    assert refused.value.line == line


WHAT_IF_ADVICE_MB = 1_000_000
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
            "broker_bytes_s": 4.0 * WHAT_IF_ADVICE_MB,
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
    slow = cell(300.0, partitions=1, broker_bytes_s=1.0 * WHAT_IF_ADVICE_MB)

    advice = advise([OWN, slow], 400.0)

    assert advice.place == 1
    assert advice.reason == (
        "the fewest at once of the 1 that fit 6m 40s: 5m (4m 30s to 6m) instead of 1m 40s (1m 30s"
        " to 2m) predicted for it as it was started (it took 1m 50s); 1 partition at once instead"
        " of 4; 1 extra replica instead of 4; 1.0 MB/s into a broker at most instead of 4.0 MB/s"
    )


def test_what_faster_limits_cost_is_said_in_figures() -> None:
    advice = advise([OWN, cell(50.0, broker_bytes_s=8.0 * WHAT_IF_ADVICE_MB)], None)

    assert advice.place == 1
    assert advice.reason.endswith("; 8.0 MB/s into a broker at most instead of 4.0 MB/s")


def test_limits_as_fast_as_the_run_are_advised_if_they_have_less_at_once() -> None:
    traded = cell(101.0, partitions=2, broker_bytes_s=5.0 * WHAT_IF_ADVICE_MB)

    advice = advise([OWN, traded, cell(103.0, partitions=2)], None)

    assert advice.place == 2
    assert advice.reason.startswith("as fast as the run, with less at once: 1m 43s ")


def test_where_too_little_was_seen_the_run_to_record_is_named_by_its_options() -> None:
    far = cell(5.0, beyond=("no throttle above 400 kB/s was recorded", "60 MB/s into a broker"))
    near = cell(60.0, "800kB", beyond=BEYOND, broker_bytes_s=0.8 * WHAT_IF_ADVICE_MB)
    nearer_yet = cell(99.0, "500kB", beyond=BEYOND, broker_bytes_s=0.5 * WHAT_IF_ADVICE_MB)

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
