"""What a run learns about brokers from its own copies."""

from __future__ import annotations

import pytest

from ktui.insights.prior import Prior, RateCurve, Spread
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.speed.capacity import ASSUMED, Capacity

MB = 1e6


def seen(
    capacity: Capacity, bytes_s: dict[int, float], seconds: float = 120, throttle: str = "none"
) -> Capacity:
    """Feed it one copy onto each broker, from a leader of its own, second by second."""
    copied = [((-broker, broker), size) for broker, size in bytes_s.items()]
    for _ in range(int(seconds)):
        capacity.learn(copied, 1.0, parse_throttle_rates(throttle))
    return capacity


def takes(capacity: Capacity, broker: int, at_once: int = 1, throttle: str = "none") -> float:
    return capacity.under(parse_throttle_rates(throttle)).takes(broker, at_once)


def test_a_broker_is_expected_to_take_in_the_rate_that_was_observed() -> None:
    capacity = seen(Capacity(), {4: 10 * MB, 5: 30 * MB})
    assert takes(capacity, 4) == pytest.approx(10 * MB)
    assert takes(capacity, 5) == pytest.approx(30 * MB)


def test_an_unobserved_broker_is_assumed_to_be_like_the_others() -> None:
    capacity = seen(Capacity(), {4: 10 * MB, 5: 30 * MB})
    assert takes(capacity, 6) == pytest.approx(20 * MB)


def test_an_unknown_capacity_comes_from_earlier_runs_or_else_from_the_assumed_rate() -> None:
    curve = RateCurve(most_bytes_s=60 * MB, half_at=1.0, most_at_once=4)
    assert takes(Capacity(), 4) == ASSUMED.middle
    earlier = Prior(Spread(1, 2, 3, 9), 1.0, curve, runs=1)
    assert takes(Capacity(earlier), 4) == pytest.approx(30 * MB)
    assert takes(Capacity(earlier), 4, at_once=2) == pytest.approx(40 * MB)


def test_the_expected_rate_follows_a_slower_or_faster_broker_within_minutes() -> None:
    capacity = seen(seen(Capacity(), {4: 10 * MB}), {4: 4 * MB}, seconds=300)
    assert takes(capacity, 4) == pytest.approx(4 * MB, rel=0.1)
    assert takes(seen(capacity, {4: 20 * MB}, seconds=300), 4) == pytest.approx(20 * MB, rel=0.1)


def test_a_throttled_rate_does_not_predict_the_rate_without_the_throttle() -> None:
    capacity = seen(Capacity(), {4: 10 * MB}, throttle="10MB")
    assert takes(capacity, 4, throttle="10MB") == pytest.approx(10 * MB, rel=0.02)
    assert takes(capacity, 4, throttle="20MB") == pytest.approx(20 * MB, rel=0.02)
    assert takes(capacity, 4) == ASSUMED.middle


def test_a_throttle_that_comes_in_gulps_counts_with_its_pauses() -> None:
    capacity = Capacity()
    for _ in range(10):
        seen(capacity, {4: 22 * MB}, seconds=1, throttle="4MB")
        seen(capacity, {4: 0.0}, seconds=10, throttle="4MB")
    assert takes(capacity, 4, throttle="4MB") == pytest.approx(2 * MB, rel=0.2)
    assert takes(capacity, 5, throttle="4MB") == pytest.approx(2 * MB, rel=0.2)


def test_a_few_seconds_under_a_throttle_hardly_change_what_is_expected() -> None:
    capacity = Capacity()
    expected = takes(capacity, 4, throttle="4MB")
    assert 0.5 * 4 * MB <= expected < 4 * MB
    seen(capacity, {4: 0.0}, seconds=2, throttle="4MB")
    assert takes(capacity, 4, throttle="4MB") == pytest.approx(expected * 5 / 7, rel=0.05)
    seen(capacity, {4: 40 * MB}, seconds=1, throttle="4MB")
    assert takes(capacity, 4, throttle="4MB") == 4 * MB


def test_a_broker_keeps_its_share_of_another_throttle() -> None:
    capacity = seen(Capacity(), {4: 8 * MB}, seconds=600, throttle="10MB")
    assert takes(capacity, 4, throttle="5MB") == pytest.approx(4 * MB, rel=0.02)
    assert takes(capacity, 5, throttle="5MB") == pytest.approx(4 * MB, rel=0.02)


def test_the_expected_rate_never_exceeds_the_throttle() -> None:
    capacity = seen(Capacity(), {4: 30 * MB})
    assert takes(capacity, 4, throttle="10MB") == 10 * MB
    assert takes(capacity, 4, throttle="100MB") == pytest.approx(30 * MB)
