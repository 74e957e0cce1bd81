"""The rate follows a figure: down fast, up slowly, and within the objective nearly always."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective_control import WINDOW_S, RateControl

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
        found.append((control.window(now_s, figure, float(control.rate)), figure))
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


def test_it_goes_down_at_once_and_up_only_after_its_last_change_shows() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(0.0, 200.0, None) == 30 * MB
    assert control.window(10.0, 160.0, None) == 30 * MB
    assert control.window(20.0, 100.0, None) > 30 * MB
    assert control.window(30.0, 100.0, None) == control.window(30.0, 100.0, None)


def test_far_above_the_objective_it_does_not_wait() -> None:
    control = RateControl(BELOW, 40 * MB)
    control.window(0.0, 200.0, None)

    assert control.window(10.0, 600.0, None) == 15 * MB


def test_it_goes_up_as_far_as_the_figure_leaves_room_and_slowly_near_a_rate_that_was_too_high() -> (
    None
):
    control = RateControl(BELOW, 10 * MB)

    assert control.window(0.0, 60.0, None) == 20 * MB  # of the room up to 120, twofold
    assert control.window(20.0, 80.0, None) == 30 * MB
    assert control.window(40.0, 200.0, None) == 22_500_000
    assert control.window(60.0, 80.0, None) == 27 * MB  # nine tenths of the 30 that were too many
    assert control.window(80.0, 80.0, None) == 27_810_000


def test_a_rate_that_nobody_uses_is_not_raised() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert [control.window(20.0 * n, 50.0, 10.0 * MB) for n in range(10)] == [40 * MB] * 10


def test_without_a_figure_for_two_windows_it_is_the_floor() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(0.0, None, None) == 40 * MB
    assert control.window(10.0, None, None) == FLOOR


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e12))),
    st.integers(FLOOR, 10**12),
)
def test_it_never_leaves_its_bounds(
    windows: list[tuple[float | None, float | None]], most: int
) -> None:
    control = RateControl(BELOW)

    for number, (figure, used) in enumerate(windows):
        assert FLOOR <= control.window(number * WINDOW_S, figure, used, most) <= most
