"""What a run learns about brokers from its own copies."""

from __future__ import annotations

from math import inf

import pytest

from ktui.execution.time_left.broker_capacity import Capacity
from ktui.insights.curve import RateCurve
from ktui.planning.simulate.copy_rates import ASSUMED
from ktui.planning.simulate.fair_share import Pair
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates

MB = 1e6


def seen(
    capacity: Capacity, bytes_s: dict[Pair, float], seconds: float = 120, throttle: str = "none"
) -> Capacity:
    """Feed it one copy of each pair, slot by slot."""
    for _ in range(int(seconds / 5)):
        capacity.learn(dict.fromkeys(bytes_s, 1), bytes_s, 5.0, parse_throttle_rates(throttle))
    return capacity


def takes(capacity: Capacity, broker: int, at_once: int = 1, throttle: str = "none") -> float:
    return capacity.under(parse_throttle_rates(throttle)).takes(broker, at_once)


def test_a_broker_is_expected_to_take_in_the_rate_that_was_observed() -> None:
    capacity = seen(Capacity(), {(1, 4): 10 * MB, (2, 5): 30 * MB})
    assert takes(capacity, 4) == pytest.approx(10 * MB)
    assert takes(capacity, 5) == pytest.approx(30 * MB)


def test_an_unobserved_broker_is_assumed_to_be_like_the_others() -> None:
    capacity = seen(Capacity(), {(1, 4): 10 * MB, (2, 5): 30 * MB})
    assert takes(capacity, 6) == pytest.approx(20 * MB)


def test_an_unknown_capacity_comes_from_earlier_runs_or_else_from_the_assumed_rate() -> None:
    curve = RateCurve(most_bytes_s=60 * MB, half_at=1.0, most_at_once=4)
    assert takes(Capacity(), 4) == ASSUMED.middle
    assert takes(Capacity(curve), 4) == pytest.approx(30 * MB)
    assert takes(Capacity(curve), 4, at_once=2) == pytest.approx(40 * MB)


def test_the_expected_rate_follows_a_slower_or_faster_broker_within_two_minutes() -> None:
    capacity = seen(seen(Capacity(), {(1, 4): 10 * MB}), {(1, 4): 4 * MB})
    assert takes(capacity, 4) == pytest.approx(4 * MB, rel=0.05)
    assert takes(seen(capacity, {(1, 4): 20 * MB}), 4) == pytest.approx(20 * MB, rel=0.05)


def test_a_throttled_rate_does_not_predict_the_rate_without_the_throttle() -> None:
    capacity = seen(Capacity(), {(1, 4): 10 * MB}, throttle="10MB")
    assert takes(capacity, 4, throttle="10MB") == 10 * MB
    assert takes(capacity, 4, throttle="20MB") == 20 * MB
    assert takes(capacity, 4) == ASSUMED.middle


def test_the_expected_rate_never_exceeds_the_throttle() -> None:
    capacity = seen(Capacity(), {(1, 4): 30 * MB})
    assert takes(capacity, 4, throttle="10MB") == 10 * MB
    assert takes(capacity, 4, throttle="100MB") == pytest.approx(30 * MB)


def test_a_leader_counts_as_saturated_once_all_its_copies_are_slower_than_possible() -> None:
    capacity = Capacity()
    seen(capacity, {(1, 4): 30 * MB, (2, 5): 30 * MB})
    assert capacity.under(NO_THROTTLE).sends(1) == inf
    seen(capacity, {(1, 4): 10 * MB, (1, 5): 10 * MB})
    assert capacity.under(NO_THROTTLE).sends(1) == pytest.approx(20 * MB)
    assert takes(capacity, 4) == pytest.approx(30 * MB)
    assert takes(capacity, 5) == pytest.approx(30 * MB)


def test_a_leader_that_sends_more_than_expected_raises_its_capacity() -> None:
    capacity = Capacity()
    seen(capacity, {(1, 4): 30 * MB, (2, 5): 30 * MB})
    seen(capacity, {(1, 4): 10 * MB, (1, 5): 10 * MB})
    seen(capacity, {(1, 4): 25 * MB, (1, 5): 25 * MB})
    assert capacity.under(NO_THROTTLE).sends(1) == pytest.approx(50 * MB, rel=0.05)
