"""The rate follows a figure: down fast, up slowly, and within the objective nearly always."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.events import RateCause, RateReason
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import WINDOW_S, RateControl

MB = 1_000_000
BELOW = 150.0


class Plant:
    """Producers whose latency rises with the copying, and with what they write themselves.

    A new rate shows in the second window, as under Kafka's quotas.
    """

    def __init__(self, room: Callable[[float], float], seed: int = 1) -> None:
        self._room = room
        self._chance = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self._rates: deque[float] = deque([FLOOR, FLOOR], maxlen=2)

    def figure(self, now_s: float, rate: float) -> float:
        """Return the p99 of a window, in ms: the objective is met up to the room there is."""
        felt = sum(self._rates) / 2
        self._rates.append(rate)
        load = felt / self._room(now_s)
        return 60 + 90 * load**3 * self._chance.uniform(0.9, 1.1)


def _played(room: Callable[[float], float], windows: int, seed: int) -> list[tuple[int, float]]:
    """Return the rate of each window and its figure."""
    plant, control, found = Plant(room, seed), RateControl(BELOW), []
    for number in range(windows):
        now_s = number * WINDOW_S
        figure = plant.figure(now_s, control.rate)
        found.append((control.window(figure, float(control.rate)), figure))
    return found


def _kept(found: list[tuple[int, float]]) -> float:
    return sum(figure <= BELOW for _, figure in found) / len(found)


@pytest.mark.parametrize("seed", range(10))
def test_the_objective_holds_in_nineteen_of_twenty_windows_near_the_highest_rate_that_keeps_it(
    seed: int,
) -> None:
    found = _played(lambda _: 40.0 * MB, 360, seed)

    assert _kept(found) >= 0.95
    rates = [rate for rate, _ in found[60:]]
    assert sum(rates) / len(rates) >= 0.75 * 40 * MB


@pytest.mark.parametrize("seed", range(10))
def test_it_gives_way_when_the_load_doubles_and_comes_back_when_it_is_over(seed: int) -> None:
    found = _played(lambda s: 20.0 * MB if 1_200 <= s < 2_400 else 40.0 * MB, 360, seed)

    assert _kept(found) >= 0.95
    during = [rate for rate, _ in found[130:240]]
    assert max(during) < 24 * MB
    assert found[-1][0] > 28 * MB


def test_two_windows_above_the_objective_lower_the_rate_and_one_alone_does_not() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(200.0, None) == 40 * MB
    assert control.window(200.0, None) == pytest.approx(27.5 * MB, rel=0.02)


def test_a_change_has_to_show_before_the_rate_moves_again() -> None:
    control = RateControl(BELOW, 10 * MB)

    assert control.window(20.0, None) == 20 * MB
    assert control.window(20.0, None) == 20 * MB
    assert control.window(20.0, None) > 35 * MB


def test_far_above_the_objective_it_does_not_wait() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(600.0, None) == 20 * MB
    assert control.window(600.0, None) == 10 * MB


def test_it_goes_up_as_far_as_the_figures_leave_room() -> None:
    control = RateControl(BELOW, 10 * MB)

    up = [control.window(30.0, None), *(control.window(75.0, None) for _ in range(6))]

    assert up[0] == pytest.approx(20 * MB, rel=0.02)
    assert up == sorted(up)
    assert up[-1] < 24 * MB


def test_one_quiet_window_after_loud_ones_does_not_double_the_rate() -> None:
    fresh, experienced = RateControl(BELOW, 20 * MB), RateControl(BELOW, 40 * MB)
    loud = [experienced.window(120.0, None) for _ in range(6)]

    assert loud[-1] < 40 * MB
    assert fresh.window(30.0, None) > 39 * MB
    assert experienced.window(30.0, None) < 1.2 * loud[-1]


def test_two_windows_above_the_objective_count_more_than_all_before() -> None:
    control = RateControl(BELOW, 40 * MB)
    for _ in range(12):
        before = control.window(88.0, None)

    assert control.window(200.0, None) > 0.9 * before
    control.window(200.0, None)  # the change may not have shown yet
    assert control.window(200.0, None) < 0.8 * before


def test_a_rate_that_nobody_uses_is_not_raised() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert [control.window(50.0, 10.0 * MB) for n in range(10)] == [40 * MB] * 10


def test_without_a_figure_for_two_windows_it_is_the_floor() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(None, None) == 40 * MB
    assert control.window(None, None) == FLOOR


def test_it_knows_why_its_rate_moved_last() -> None:
    control = RateControl(BELOW, 40 * MB)

    def cause(figure: float | None, used: float | None = None) -> RateCause | None:
        control.window(figure, used)
        return None if control.why is None else control.why.cause

    assert cause(None) is None
    assert cause(200.0) is None
    assert cause(200.0) is RateCause.OVER
    assert cause(80.0) is RateCause.OVER  # the change has to show first
    assert [cause(90.0) for _ in range(6)][-1] is RateCause.IN_BAND
    assert [cause(30.0, 15.0 * MB) for _ in range(12)][-1] is RateCause.UNUSED
    assert cause(400.0) is RateCause.FAR_OVER
    assert control.why is not None
    assert control.why == RateReason(RateCause.FAR_OVER, 400.0, aim=control.why.aim)
    assert [cause(None), cause(None)] == [RateCause.FAR_OVER, RateCause.NO_FIGURE]
    assert [cause(20.0) for _ in range(3)][-1] is RateCause.UNDER


def test_the_more_windows_scatter_the_further_below_the_objective_their_mean_is_kept() -> None:
    def aim(scatter: float) -> float:
        chance, control = random.Random(1), RateControl(BELOW, FLOOR)  # noqa: S311 - a seed
        for _ in range(200):
            control.window(80 * chance.lognormvariate(0, scatter), 0.0)
        assert control.why is not None
        return control.why.aim

    assert 1.0 > aim(0.05) > aim(0.3) > aim(0.6) > 0.25


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e12))))
def test_it_never_goes_below_the_least_rate(
    windows: list[tuple[float | None, float | None]],
) -> None:
    control = RateControl(BELOW)

    for figure, used in windows:
        assert control.window(figure, used) >= FLOOR
