"""How long a run takes, whatever is copied and whatever is known."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.insights.prior import Prior, RateCurve, Spread
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Situation, WantedPartition
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.speed.answer import Source
from ktui.speed.capacity import Capacity
from ktui.speed.least_time import least_time
from ktui.speed.simulate import RestOfRun, StepOverhead, simulate_rest_of_run

MB = 10**6
ALL_AT_ONCE = Limits()
Copies = list[tuple[int, int, int]]
"""The leader, the new broker and the megabytes of each partition."""
copies = st.lists(
    st.tuples(st.integers(1, 3), st.integers(4, 6), st.integers(1, 2_000)), min_size=1, max_size=12
)
throttles = st.one_of(st.none(), st.integers(1, 500))
priors = st.one_of(
    st.none(),
    st.builds(
        lambda rate, half, runs: Prior(
            Spread(rate, rate, rate, 9),
            1.0,
            RateCurve(most_bytes_s=rate * MB, half_at=half, most_at_once=8, unthrottled_runs=runs),
            runs=runs,
        ),
        st.integers(1, 500),
        st.floats(0, 4),
        st.integers(1, 9),
    ),
)
limits = st.builds(
    Limits,
    partitions=st.one_of(st.none(), st.integers(1, 4)),
    per_broker=st.one_of(st.none(), st.integers(1, 3)),
    per_leader=st.one_of(st.none(), st.integers(1, 3)),
    bytes_per_broker=st.one_of(st.none(), st.just(32 * MB)),
)


def partitions(drawn: Copies) -> list[WantedPartition]:
    return [
        WantedPartition(
            TopicPartition("a", n),
            Situation(
                replicas=(leader,),
                isr=(leader,),
                leader=leader,
                target=(leader, broker),
                online=frozenset(range(1, 7)),
            ),
            size * MB,
        )
        for n, (leader, broker, size) in enumerate(drawn)
    ]


def takes_s(
    drawn: Copies, known: Capacity, throttle: int | None = None, under: Limits = ALL_AT_ONCE
) -> float:
    rates = known.under(ThrottleRates(None if throttle is None else throttle * MB))
    whole = RestOfRun((), partitions(drawn))
    run = simulate_rest_of_run(whole, under, StepOverhead(), rates.copies())
    return run.copying_s + run.waiting_s


@given(copies, st.data(), throttles, priors)
def test_more_bytes_never_take_less_time(
    drawn: Copies, data: st.DataObject, throttle: int | None, prior: Prior | None
) -> None:
    n = data.draw(st.integers(0, len(drawn) - 1))
    leader, broker, size = drawn[n]
    more = [*drawn[:n], (leader, broker, size + 500), *drawn[n + 1 :]]

    assert takes_s(more, Capacity(prior), throttle) >= takes_s(drawn, Capacity(prior), throttle)


@given(copies, st.integers(1, 300), st.integers(1, 300), priors)
def test_a_lower_throttle_never_takes_less_time(
    drawn: Copies, one: int, other: int, prior: Prior | None
) -> None:
    low, high = sorted((one, other))

    assert takes_s(drawn, Capacity(prior), low) >= takes_s(drawn, Capacity(prior), high)


@given(copies, limits, throttles, priors)
@settings(max_examples=60)
def test_no_run_takes_less_than_the_least_time(
    drawn: Copies, under: Limits, throttle: int | None, prior: Prior | None
) -> None:
    known = Capacity(prior)
    rates = known.under(ThrottleRates(None if throttle is None else throttle * MB))
    least = least_time(partitions(drawn), under, rates)

    assert least is not None
    assert least.time_s.low <= least.time_s.middle <= least.time_s.high
    assert takes_s(drawn, known, throttle, under) >= 0.999 * least.time_s.middle


@given(copies, st.integers(1, 4))
def test_a_limit_never_lowers_the_least_time(drawn: Copies, most: int) -> None:
    wanted, rates = partitions(drawn), Capacity().under(NO_THROTTLE)
    free = least_time(wanted, ALL_AT_ONCE, rates)
    for limit in ("partitions", "per_leader", "replica_movements"):
        bound = least_time(wanted, msgspec.structs.replace(ALL_AT_ONCE, **{limit: most}), rates)

        assert free is not None
        assert bound is not None
        assert bound.time_s.middle >= free.time_s.middle


@given(copies, st.integers(1, 500), throttles, priors)
def test_a_given_rate_overrides_whatever_is_known(
    drawn: Copies, given: int, throttle: int | None, prior: Prior | None
) -> None:
    known, learned = Capacity(prior, given=given * MB), Capacity(given=given * MB)
    rates = known.under(ThrottleRates(None if throttle is None else throttle * MB))

    assert takes_s(drawn, known, throttle) == takes_s(drawn, learned, throttle)
    assert rates.basis.source is Source.GIVEN
    assert rates.spread(4).low == rates.spread(4).high == 1.0
    assert rates.takes(4, 3) == MB * min(given, given if throttle is None else throttle)


@given(st.integers(1, 200), st.integers(1, 200), priors)
def test_what_this_run_has_shown_overrides_earlier_runs(
    rate: int, other: int, prior: Prior | None
) -> None:
    known = Capacity(prior)
    for _ in range(200):
        known.learn([((1, 4), 10 * rate * MB), ((2, 5), 10 * other * MB)], 10.0, NO_THROTTLE)

    assert known.known
    assert known.under(NO_THROTTLE).takes(4, 1) == pytest.approx(rate * MB, rel=0.01)
    assert known.under(NO_THROTTLE).takes(5, 1) == pytest.approx(other * MB, rel=0.01)
