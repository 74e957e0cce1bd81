"""How flows share bandwidth."""

from __future__ import annotations

import math

import pytest

from ktui.max_min import max_min_rates
from ktui.simulated.data.channels import SLOT_S, TideFactors
from ktui.simulated.layout import Tide


def test_flows_through_one_resource_share_it_equally() -> None:
    assert max_min_rates([90.0], [((0,), 3)]) == [30.0]


def test_bandwidth_unused_by_a_limited_flow_goes_to_the_others() -> None:
    rates = max_min_rates([100.0, 10.0], [((0, 1), 1), ((0,), 2)])
    assert rates == [10.0, 45.0]


def test_a_flow_is_limited_by_its_narrowest_resource() -> None:
    assert max_min_rates([100.0, 20.0, math.inf], [((0, 1, 2), 2)]) == [10.0]


def test_a_blocked_resource_starves_only_the_flows_that_need_it() -> None:
    assert max_min_rates([0.0, 50.0], [((0, 1), 5), ((1,), 1)]) == [0.0, 50.0]


def test_an_overdrawn_resource_counts_as_empty() -> None:
    assert max_min_rates([-5.0], [((0,), 1)]) == [0.0]


def test_no_flows_have_no_rates() -> None:
    assert max_min_rates([1.0], []) == []


def test_traffic_is_even_without_a_tide() -> None:
    tides = TideFactors(Tide(), seed=1)
    assert tides.factor(12_345.6) == 1.0
    assert tides.integral(12_345.6) == 12_345.6
    assert tides.next_turn_s(5.0) == math.inf


def test_a_tide_rises_in_the_first_half_of_its_period_and_falls_in_the_second() -> None:
    tides = TideFactors(Tide(swing=0.5, period_s=3_600), seed=1)
    assert tides.factor(900) == pytest.approx(1.5, abs=0.01)
    assert tides.factor(2_700) == pytest.approx(0.5, abs=0.01)
    assert tides.integral(3_600) == pytest.approx(3_600)


def test_a_tide_changes_only_every_half_minute() -> None:
    tides = TideFactors(Tide(noise=0.4), seed=3)
    assert tides.factor(0.0) == tides.factor(29.9) != tides.factor(SLOT_S)
    assert tides.next_turn_s(0.0) == tides.next_turn_s(29.9) == SLOT_S
    assert tides.next_turn_s(SLOT_S) == 2 * SLOT_S


def test_the_integral_is_the_sum_of_the_factors() -> None:
    tides = TideFactors(Tide(swing=0.3, noise=0.4), seed=3)
    factors = [tides.factor(SLOT_S * slot) for slot in range(10)]
    assert tides.integral(10 * SLOT_S) == pytest.approx(SLOT_S * sum(factors))
    assert tides.integral(45.0) == pytest.approx(30 * factors[0] + 15 * factors[1])


def test_a_seed_gives_the_same_tide_however_it_is_read() -> None:
    one, other = TideFactors(Tide(noise=0.4), seed=3), TideFactors(Tide(noise=0.4), seed=3)
    late = one.factor(3_000)
    assert [other.factor(at) for at in range(0, 3_001, 30)][-1] == late
    assert TideFactors(Tide(noise=0.4), seed=4).factor(3_000) != late


def test_a_tide_never_flows_backwards() -> None:
    tides = TideFactors(Tide(swing=3.0), seed=1)
    assert min(tides.factor(at) for at in range(0, 3_600, 30)) == 0.0
