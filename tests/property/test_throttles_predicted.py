"""Whatever is written and however it is shared, the suggested rates and limits suffice."""

import math
import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.pacing.limits import Limits, Mode, Order
from ktui.planning.check.findings import Finding, FindingKind
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.preview import throttle_findings
from ktui.preview.facts import moves_of
from ktui.preview.preview import PlanPreview
from ktui.preview.throttle_findings import GrowingPartitions, ThrottledRun
from ktui.progress.poll import starvation_threshold
from ktui.quantities import as_rate_above
from ktui.speed.simulate import RestOfRun, StepOverhead, simulate_rest_of_run
from support.cli.start_sandbox import Way, a_plan, a_snapshot, preflight, tp
from support.runs.engine_runs import received
from support.runs.pacing import replica_lists

some_replicas = replica_lists(range(1, 8), 4)
ways = st.lists(st.tuples(some_replicas, some_replicas), min_size=1, max_size=8)
rates = st.integers(1, 60)
written = st.lists(st.none() | st.integers(0, 40), min_size=8, max_size=8)
few = st.none() | st.integers(1, 3)
limits = st.builds(
    Limits,
    replicas=few,
    partitions=few,
    leader_movements=few,
    replica_movements=few,
    per_broker=few,
    mode=st.sampled_from(Mode),
    order=st.sampled_from(Order),
) | st.just(Limits())
MB = 10**6
TB = 10**12
held = st.lists(st.none() | st.integers(0, 300).map(lambda tb: tb * TB), min_size=8, max_size=8)


def forecast_of(
    some: list[Way],
    inbound: list[int | None],
    rate: int,
    limits: Limits,
    *,
    leaders: bool = False,
    sizes: Sequence[int | None] = (),
) -> PlanPreview:
    known = {tp(n): b * MB for n, b in enumerate(inbound[: len(some)]) if b is not None}
    snapshot = a_snapshot(*some, sizes=sizes, inbound=known)
    throttle = ThrottleRates(rate)
    return preflight(a_plan(*some), snapshot, limits, throttle=throttle, throttle_leaders=leaders)


def of(forecast: PlanPreview, kind: FindingKind) -> list[Finding]:
    return [found for found in forecast.findings if found.kind is kind]


def rates_in(sentence: str) -> list[int]:
    return [int(float(number) * MB) for number in re.findall(r"([\d.]+) MB/s", sentence)]


@given(ways, written, held, rates, limits)
def test_a_rate_above_the_highest_named_one_is_enough(
    some: list[Way], inbound: list[int | None], sizes: list[int | None], rate: int, limits: Limits
) -> None:
    found = of(forecast_of(some, inbound, rate * MB, limits, sizes=sizes), FindingKind.NEVER_ENDS)

    if found:  # one for each broker that is named
        more = max(number for each in found for number in rates_in(each.sentence)) + 1
        assert more > rate * MB
        enough = forecast_of(some, inbound, more, limits, sizes=sizes)
        assert not of(enough, FindingKind.NEVER_ENDS)


@given(ways, written, rates, limits)
def test_the_per_broker_limit_that_is_named_is_enough(
    some: list[Way], inbound: list[int | None], rate: int, limits: Limits
) -> None:
    for found in of(forecast_of(some, inbound, rate * MB, limits), FindingKind.NEVER_ENDS):
        named = re.search(r"it needs --per-broker (\d+)", found.sentence)
        if named is not None:
            fewer = msgspec.structs.replace(limits, per_broker=int(named[1]))
            again = of(forecast_of(some, inbound, rate * MB, fewer), FindingKind.NEVER_ENDS)
            assert all("will never finish" in other.sentence for other in again)


@given(ways, written, rates, limits)
def test_exactly_the_partitions_written_at_or_above_the_throttle_are_named(
    some: list[Way], inbound: list[int | None], rate: int, limits: Limits
) -> None:
    named = {
        each
        for found in of(forecast_of(some, inbound, rate * MB, limits), FindingKind.NEVER_ENDS)
        for each in found.partitions
    }

    assert named == {
        tp(n)
        for n, ((now, then), mb) in enumerate(zip(some, inbound, strict=False))
        if {*then} - {*now} and mb is not None and mb >= rate
    }


@given(ways, written, rates, limits)
def test_brokers_without_a_throttle_are_never_warned_about_one(
    some: list[Way], inbound: list[int | None], rate: int, limits: Limits
) -> None:
    throttle = ThrottleRates(rate, tuple(BrokerRate(b, None) for b in range(1, 8)))
    known = {tp(n): b * MB for n, b in enumerate(inbound[: len(some)]) if b is not None}
    snapshot = a_snapshot(*some, inbound=known)

    forecast = preflight(a_plan(*some), snapshot, limits, throttle=throttle)

    assert forecast.findings == preflight(a_plan(*some), snapshot, limits).findings
    assert forecast.how_long == preflight(a_plan(*some), snapshot, limits).how_long


@given(some=ways, limits=limits, leaders=st.booleans())
def test_the_suggested_number_of_partitions_fits_the_throttle_list(
    *, some: list[Way], limits: Limits, leaders: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle_findings, "LONGEST_LIST", 20)
        forecast = forecast_of(some, [0] * 8, MB, limits, leaders=leaders)
        named = [
            re.search(r"--partitions (\d+) would do", found.sentence)
            for found in of(forecast, FindingKind.LIST_TOO_LONG)
        ]
        fitting = [int(each[1]) for each in named if each is not None]
        if fitting and len(fitting) == len(named):
            fewer = msgspec.structs.replace(limits, partitions=min(fitting))
            forecast = forecast_of(some, [0] * 8, MB, fewer, leaders=leaders)
            assert not of(forecast, FindingKind.LIST_TOO_LONG)


@given(ways, written, limits)
def test_a_broker_never_receives_more_at_once_than_the_limits_allow(
    some: list[Way], inbound: list[int | None], limits: Limits
) -> None:
    known = {tp(n): b for n, b in enumerate(inbound[: len(some)]) if b is not None}
    snapshot = a_snapshot(*some, inbound=known)
    wanted = moves_of(a_plan(*some), snapshot).wanted

    played = simulate_rest_of_run(
        RestOfRun((), wanted), limits, StepOverhead(), received(lambda *_: 10.0 * MB), inbound=known
    )

    growing = GrowingPartitions(snapshot, wanted)
    run = ThrottledRun(growing, ThrottleRates(MB), limits, played, leaders=True)
    for broker in growing.gaining:
        assert played.peak_written[broker] <= run.most_at_once(broker)
    for broker in growing.holding:
        assert played.peak_sent[broker] <= sum(7 * b for b in known.values())
    if limits == Limits():
        everything = {b: run.most_at_once(b) for b in growing.gaining if run.most_at_once(b)}
        assert dict(played.peak_written) == everything


def fairly(inbound: list[float], rate: float) -> list[float]:
    """Share a rate equally until no other copy catches up; return those that do not."""
    copies = sorted(inbound)
    while copies and copies[0] < rate / len(copies):
        copies.pop(0)
    return copies


flows = st.lists(st.integers(0, 100).map(float), max_size=12)


@given(flows, st.integers(1, 400).map(float))
def test_copies_that_starve_are_those_a_fair_share_leaves_behind(
    inbound: list[float], rate: float
) -> None:
    least = starvation_threshold(inbound, rate)

    assert [each for each in sorted(inbound) if each >= least] == fairly(inbound, rate)


@given(flows)
def test_a_rate_above_all_inbound_starves_no_copy(inbound: list[float]) -> None:
    assert starvation_threshold(inbound, sum(inbound) + 1) == math.inf


@given(flows, st.integers(1, 400).map(float), st.integers(1, 100).map(float))
def test_a_higher_rate_starves_no_more_copies(
    inbound: list[float], rate: float, more: float
) -> None:
    assert starvation_threshold(inbound, rate + more) >= starvation_threshold(inbound, rate)


@given(st.integers(0, 10**15))
def test_a_rate_to_exceed_is_never_rounded_down(bytes_s: int) -> None:
    number, unit = as_rate_above(bytes_s).split()
    factors = {
        "B/s": 1,
        "kB/s": 10**3,
        "MB/s": 10**6,
        "GB/s": 10**9,
        "TB/s": 10**12,
        "PB/s": 10**15,
    }

    assert float(number) * factors[unit] >= bytes_s * (1 - 1e-6)
    assert float(number) * factors[unit] <= bytes_s * 1.1 + 1
