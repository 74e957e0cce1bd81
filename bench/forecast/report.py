"""`python -m bench forecast`: how far off ktui's forecasts were on the recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from statistics import fmean, median

from bench.checks import check_count
from bench.forecast.baselines import BASELINES, BY_THROTTLE
from bench.forecast.moments import KTUI, Moment, ReplayedRun, replay
from bench.forecast.priors import forward_chained
from bench.forecast.real_runs import Machine
from bench.forecast.scores import (
    LEVEL,
    TENTHS,
    Interval,
    by_run,
    compare,
    coverage,
    is_telling,
    pinball,
    relative_error,
    surely_short,
    tenth_of,
    with_interval,
)
from bench.forecast.stored import RunSet, long_real_runs, real, simulated_runs, together
from bench.timing import percentile
from ktui.pipeline.forecast.replay import PARTITION, RUN

_HALF_WAY = 5
_WITHIN = 0.1
_AHEAD, _BEHIND = 8, 0.02
_OFF_LEVEL = 0.05


def run() -> None:
    """Print the errors on the frozen runs, of which no rule or figure of the forecast comes."""
    judges = real_judges()
    every, long = together("real runs, frozen, all labs", judges), long_real_runs()
    short = {name: of for name, of in every.clusters.items() if name not in long.clusters}
    for runs in (*judges, every, long, RunSet("real runs, frozen, all but the long ones", short)):
        print_scores(runs)
    print_scores(simulated_runs(frozen=True))
    for runs in judges:
        print_with_earlier_runs(runs)


def real_judges() -> list[RunSet]:
    """Return the real runs that only judge the forecast."""
    return [real(machine, frozen=True) for machine in Machine]


def print_scores(runs: RunSet) -> None:
    """Print the errors on some runs."""
    replayed = [replay(stored) for stored in runs.runs]
    moments = [moment for each in replayed for moment in each.moments]
    _check(replayed)
    print(f"{runs.title}: {len(replayed)} runs on {len(runs.clusters)} clusters")
    print(f"  {_censored(replayed)}")
    for scope in (RUN, PARTITION):
        _print_scope(scope, [m for m in moments if m.scope == scope and is_telling(m)])


def print_with_earlier_runs(runs: RunSet) -> None:
    """Print the errors of runs with the rates of the earlier runs of their cluster, and without.

    A run knows those before it, never itself or a later one. The first of each cluster is left out.
    """
    alone: list[Moment] = []
    knowing: list[Moment] = []
    for of in runs.clusters.values():
        for stored, prior in islice(forward_chained(of), 1, None):
            alone += replay(stored).moments
            knowing += replay(stored, prior).moments
    print(f"{runs.title}, without and with the rates of earlier runs of the same cluster")
    for title, moments in (("without", alone), ("with", knowing)):
        chosen = [m for m in moments if m.scope == RUN and is_telling(m)]
        _print_tenth(title, chosen, ())
        shown = fmean(moment.left is not None for moment in chosen)
        print(f"  a forecast at {shown:.0%} of the moments")


def _check(replayed: Sequence[ReplayedRun]) -> None:
    """Check that each run was replayed, and that some ended."""
    silent = [each.stored.folder for each in replayed if not each.moments]
    check_count("runs without a moment", len(silent), 0)
    if not any(each.outcome.ended_t for each in replayed):
        raise SystemExit("not measured: no run has ended")


def _censored(replayed: Sequence[ReplayedRun]) -> str:
    unended = [each for each in replayed if each.outcome.ended_t is None]
    disturbed = [each for each in replayed if each.outcome.disturbed_t]
    return (
        f"{len(unended)} did not end as planned, and {len(disturbed)} were disturbed on the way: "
        "until then it is only known that they took longer"
    )


def _print_scope(scope: str, moments: Sequence[Moment]) -> None:
    known = [moment for moment in moments if moment.truth_s is not None]
    shown = fmean(moment.left is not None for moment in moments)
    short = surely_short(moments)
    print(
        f"\n  of a {scope}: {len(moments):,} moments, {len(moments) - len(known):,} with only a "
        f"bound of the truth (of these forecasts {_percent(short)} were surely too short); "
        f"ktui had a forecast at {shown:.0%}"
    )
    names = [name for name in BASELINES if scope == RUN or name != BY_THROTTLE]
    heads = "".join(f"{'behind ' + name:>25}" for name in names)
    print(f"  {'done':>8}{'runs':>6}{'median':>8}{'p90':>7}{'pinball':>9}{'in range':>17}{heads}")
    for tenth in range(TENTHS):
        _print_tenth(f"{tenth * 10}-{tenth * 10 + 10}%", _in(tenth, moments), names)
    _print_tenth("all", moments, names)
    if scope == RUN:
        _print_by_throttle(moments)
    _print_aims(moments, names)


def _print_by_throttle(moments: Sequence[Moment]) -> None:
    """Print the median error half way of the runs with a throttle, and of those without one."""
    half = _in(_HALF_WAY, moments)
    for title, throttled in (("with", True), ("without", False)):
        chosen = [m for m in half if (m.forecast(BY_THROTTLE) is not None) is throttled]
        errors = by_run(chosen, lambda m: relative_error(m, KTUI), median)
        if errors:
            figure = with_interval(errors, median)
            print(f"    half way {title} a throttle: {_spanned(figure)} of {len(errors)} runs")


def _in(tenth: int, moments: Sequence[Moment]) -> list[Moment]:
    return [moment for moment in moments if tenth_of(moment) == tenth]


def _print_tenth(title: str, moments: Sequence[Moment], names: Sequence[str]) -> None:
    errors = by_run(moments, lambda m: relative_error(m, KTUI), median)
    if not errors:
        print(f"  {title:>8}{0:>6}")
        return
    values, losses = [figure.value for figure in errors], by_run(moments, pinball, fmean)
    cover = coverage(moments)
    covered = (
        "-" if cover is None else f"{cover.known.value:.0%} ({cover.least:.0%}-{cover.most:.0%})"
    )
    behind = "".join(f"{_behind(moments, name):>25}" for name in names)
    print(
        f"  {title:>8}{len(values):>6}{median(values):>8.1%}{percentile(values, 0.9):>7.0%}"
        f"{fmean(figure.value for figure in losses):>9.3f}{covered:>17}{behind}"
    )


def _behind(moments: Sequence[Moment], name: str) -> str:
    compared = compare(moments, name)
    if compared is None:
        return "-"
    low, high = compared.behind.low * 100, compared.behind.high * 100
    return f"{compared.behind.value * 100:+.1f} [{low:+.0f}, {high:+.0f}]"


def _print_aims(moments: Sequence[Moment], names: Sequence[str]) -> None:
    """Print what was aimed at, and what was reached."""
    half = by_run(_in(_HALF_WAY, moments), lambda m: relative_error(m, KTUI), median)
    if half:
        at_half = with_interval(half, median)
        _aim(
            f"median error half way {_spanned(at_half)}",
            "at most 10%",
            reached=at_half.value <= _WITHIN,
        )
    ahead, worst = 0, 0.0
    for tenth in range(TENTHS):
        found = [compare(_in(tenth, moments), name) for name in names]
        behind = [each.behind.value for each in found if each is not None]
        ahead += bool(behind) and max(behind) <= 0
        worst = max([worst, *behind])
    _aim(
        f"ahead of every baseline in {ahead} tenths, and {worst * 100:.1f} points behind at worst",
        "8 and 2",
        reached=ahead >= _AHEAD and worst <= _BEHIND,
    )
    cover = coverage(moments)
    if cover is not None:
        off = abs(cover.known.value - LEVEL)
        _aim(
            f"range with the truth {_spanned(cover.known)}", "75% to 85%", reached=off <= _OFF_LEVEL
        )


def _aim(what: str, aim: str, *, reached: bool) -> None:
    print(f"    {what}: {'reached' if reached else 'NOT reached'} (aim: {aim})")


def _spanned(figure: Interval) -> str:
    return f"{figure.value:.1%} [{figure.low:.0%}, {figure.high:.0%}]"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
