"""What a cluster's copies are taken to cost, as its recordings show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.pipeline.what_if.model import InflowSample, Model, RecordedStep, fit
from ktui.planning.throttle_rates import parse_throttle_rates

MB = 1_000_000.0


def inflow(at_once: int, rate: float, throttle: int | None = None, broker: int = 1) -> InflowSample:
    return InflowSample(f"run-{broker}", broker, at_once, 100.0, 100.0 * rate, throttle)


def model_of(*inflows: InflowSample, steps: tuple[RecordedStep, ...] = ()) -> Model:
    model = fit(inflows, steps)
    assert model is not None
    return model


def test_nothing_is_told_where_nothing_was_copied() -> None:
    assert fit([], []) is None
    assert fit([inflow(1, 0.0)], []) is None


@given(most=st.floats(1, 1000), half_at=st.floats(0, 15))
def test_a_cluster_that_copies_as_the_model_says_is_found_again(
    most: float, half_at: float
) -> None:
    seen = [inflow(n, most * MB * n / (n + half_at)) for n in (1, 2, 4, 8, 16)]
    model = model_of(*seen)
    for n in (1, 3, 10, 30):
        told = model.curve.bytes_s(n, None)
        assert told == pytest.approx(most * MB * n / (n + half_at), rel=0.01)


def test_no_more_is_told_of_many_at_once_than_of_twice_as_many_as_were_seen() -> None:
    model = model_of(inflow(1, 10 * MB), inflow(2, 20 * MB))
    assert model.curve.bytes_s(4, None) == model.curve.bytes_s(100, None)
    assert model.curve.bytes_s(4, None) <= 40 * MB


def test_a_throttle_lets_through_what_throttled_brokers_were_seen_to_take() -> None:
    model = model_of(inflow(1, 50 * MB), inflow(2, 9 * MB, throttle=10_000_000, broker=2))
    assert model.curve.bytes_s(3, 20_000_000) == pytest.approx(18 * MB)
    assert model.curve.bytes_s(3, 500_000_000) == model.curve.bytes_s(3, None)


def test_a_throttle_that_held_nothing_up_says_nothing_of_throttles() -> None:
    model = model_of(inflow(1, 20 * MB, throttle=900_000_000))
    assert model.curve.throttled == 1.0
    assert model.curve.known_to is None
    assert model.curve.bytes_s(1, None) == pytest.approx(20 * MB)


def test_where_a_throttle_held_everything_up_the_free_rate_is_assumed_and_said_to_be() -> None:
    model = model_of(inflow(3, 10 * MB, throttle=10_000_000))
    assert model.curve.known_to == 10_000_000
    assert model.curve.bytes_s(1, None) == 50 * MB


def test_who_copied_for_a_part_of_the_time_under_a_throttle_tells_nothing_of_the_free_rate() -> (
    None
):
    held_up = inflow(2, 0.9 * MB, throttle=1_000_000)
    seldom = [inflow(n, 0.4 * MB, throttle=1_000_000, broker=2) for n in (1, 2, 3)]
    model = model_of(held_up, *seldom)
    assert model.curve.known_to == 1_000_000
    assert model.curve.bytes_s(1, None) == 50 * MB


def test_most_of_a_throttle_is_what_comes_through_it_on_a_real_cluster() -> None:
    shares = (0.74, 0.82, 0.75, 0.86, 1.12)
    seen = [inflow(1, 0.6 * MB * share, 600_000, n) for n, share in enumerate(shares)]
    model = model_of(*seen)
    assert model.curve.known_to == 600_000
    assert model.curve.throttled == pytest.approx(0.82)


def test_who_is_slow_alone_under_a_throttle_that_only_many_at_once_reach_is_free() -> None:
    model = model_of(
        inflow(1, 12 * MB, throttle=20_000_000), inflow(2, 18 * MB, throttle=20_000_000)
    )
    assert model.curve.known_to is None
    assert model.curve.bytes_s(1, None) == pytest.approx(12 * MB)


def test_without_a_throttle_a_slow_broker_is_one() -> None:
    model = model_of(inflow(1, 3 * MB), inflow(1, 9 * MB, throttle=10_000_000, broker=2))
    assert model.curve.known_to is None
    assert model.curve.bytes_s(1, None) == pytest.approx(3 * MB)


def test_steps_take_their_median_beside_copying_in_whole_polls() -> None:
    steps = (
        RecordedStep("a", adds=True, took_s=14.5, copying_s=10.0),
        RecordedStep("a", adds=True, took_s=24.5, copying_s=20.0),
        RecordedStep("a", adds=True, took_s=99.0, copying_s=9.0),
        RecordedStep("a", adds=False, took_s=3.5, copying_s=0.0),
    )
    model = model_of(inflow(1, MB), steps=steps)
    assert model.joining_s == 4
    assert model.other_s == 3
    assert model.tempo(parse_throttle_rates("none")).joining_s == 4


def test_without_steps_a_step_takes_what_a_poll_takes() -> None:
    model = model_of(inflow(1, MB))
    assert (model.joining_s, model.other_s) == (0, 1)


def test_the_range_is_that_of_what_brokers_took_in_by_what_is_told() -> None:
    rates = [8, 9, 10, 10, 10, 11, 12]
    model = model_of(*(inflow(1, rate * MB, broker=n) for n, rate in enumerate(rates)))
    assert 0.8 <= model.curve.low < 0.95
    assert 1.05 < model.curve.high <= 1.2


def test_of_few_brokers_the_range_is_no_narrower_than_what_is_assumed_of_any() -> None:
    curve = model_of(inflow(1, MB)).curve
    assert curve.low <= 0.4
    assert curve.high >= 2.0


def test_each_broker_is_played_under_its_own_throttle() -> None:
    model = model_of(inflow(1, 50 * MB))
    tempo = model.tempo(parse_throttle_rates("20MB,3=5MB"))
    assert tempo.bytes_s(1, 1) == 20 * MB
    assert tempo.bytes_s(3, 1) == 5 * MB
