"""The assumed cost of copies in a cluster, based on its recordings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.pipeline.what_if.model import InflowSample, Model, RecordedStep, fit
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
