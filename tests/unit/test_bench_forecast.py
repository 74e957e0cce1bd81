"""How the benchmark of forecasts judges them."""

from __future__ import annotations

from statistics import fmean, median

import pytest
from bench.forecast import plans
from bench.forecast.ablation import learnt_on
from bench.forecast.baselines import LINEAR, SmoothedRate
from bench.forecast.before_start import checks
from bench.forecast.moments import KTUI, Moment
from bench.forecast.priors import forward_chained
from bench.forecast.real_runs import Machine
from bench.forecast.report import real_judges
from bench.forecast.scores import (
    by_run,
    compare,
    coverage,
    relative_error,
    surely_short,
    with_interval,
)
from bench.forecast.stored import real, simulated_runs
from hypothesis import given
from hypothesis import strategies as st

from ktui.speed.answer import Source, Span


def moment(
    forecast_s: float, truth_s: float | None, *, at_least_s: float | None = None, run: str = "a"
) -> Moment:
    left = Span(forecast_s / 2, forecast_s, forecast_s * 2)
    return Moment("c", run, "run", 0.5, left, {LINEAR: 30.0}, truth_s, at_least_s, truth_s)


def test_a_run_counts_once_however_many_moments_it_has() -> None:
    moments = [moment(20, 10, run="long")] * 9 + [moment(10, 10, run="short")]
    errors = by_run(moments, lambda one: relative_error(one, KTUI), median)
    assert [figure.value for figure in errors] == [1.0, 0.0]


def test_a_moment_that_was_cut_short_bounds_the_coverage_from_below_and_above() -> None:
    cut = [moment(10, None, at_least_s=15.0), moment(10, None, at_least_s=25.0)]
    found = coverage([moment(10, 12), moment(10, 30), *cut])
    assert found is not None
    assert found.known.value == 0.5
    assert (found.least, found.most) == (0.25, 0.5)
    assert surely_short(cut) == 1.0


def test_ktui_is_behind_where_a_baseline_errs_less_at_the_same_moments() -> None:
    without = moment(10, 10)._replace(naive={LINEAR: None})
    found = compare([moment(10, 20), without], LINEAR)
    assert found is not None
    assert (found.runs, found.ktui, found.baseline) == (1, 0.5, 0.5)
    worse = compare([moment(10, 30)], LINEAR)
    assert worse is not None
    assert worse.behind.value == pytest.approx(2 / 3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_figure_lies_within_its_interval_of_resampled_runs(values: list[float]) -> None:
    runs = [moment(10, 10 * (1 + value), run=str(n)) for n, value in enumerate(values)]
    figures = by_run(runs, lambda one: relative_error(one, KTUI), fmean)
    found = with_interval(figures, median)
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9


def test_a_steady_rate_is_forecast_exactly() -> None:
    smoothed, left = SmoothedRate(), None
    for second in range(20):
        left = smoothed.left_s(float(second), second / 100)
    assert left == pytest.approx(81.0)


def test_a_run_knows_the_rates_of_the_runs_before_it_and_of_no_later_one() -> None:
    (runs,) = list(simulated_runs(frozen=False).clusters.values())[:1]

    chained = list(forward_chained(runs))

    assert [prior and prior.runs for _, prior in chained] == [None, 1, 2]
    for number in range(1, len(runs)):
        _, without_later = list(forward_chained(runs[:number]))[-1]
        assert chained[number - 1][1] == without_later


def test_nothing_is_chosen_by_the_runs_that_judge() -> None:
    chosen_by = {run.cluster for runs in learnt_on() for run in runs.runs}
    judging = {
        run.cluster for runs in (*real_judges(), simulated_runs(frozen=True)) for run in runs.runs
    }

    assert chosen_by
    assert judging
    assert not chosen_by & judging


def test_checks_before_real_runs_know_the_runs_of_the_lab_before_them_and_miss_by_less() -> None:
    lab = real(Machine.SHARES, frozen=True).clusters["frozen-7"]

    found = list(checks(lab))

    assert [each.stored.number for each in found] == [2, 3, 4]
    assert [each.known.basis.runs for each in found] == [1, 2, 3]
    for each in found:
        assert each.flat.basis.source is Source.GIVEN
        assert each.assumed.basis.source is Source.ASSUMED
        assert each.known.basis.source is Source.EARLIER_RUNS
    assert median(each.error(each.known) for each in found) < 0.2
    assert median(each.error(each.flat) for each in found) > 0.4


def test_checks_leave_out_runs_in_which_something_happened_that_nobody_could_know_of() -> None:
    lab = real(Machine.BUSY, frozen=True).clusters["frozen-2"]
    names = [each.stored.name for each in checks(lab)]
    assert names == ["four-at-once", "written-to", "one-on-each-broker", "all-at-once"]


@pytest.mark.parametrize("number", [1, 22, 24])
def test_a_check_with_one_earlier_run_known_says_what_the_run_then_takes(number: int) -> None:
    """The brokers of the cluster copy as those of real runs did, second by second."""
    played = plans.play(number)

    assert played.good, played
