"""How long a run takes, whatever is copied and known; rates of twins; advice for other limits."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.insights import Prior, RateCurve, Spread, limit_options, options_text
from ktui.pacing.limits import (
    InternalOrder,
    Limits,
    Mode,
    Order,
    Shape,
    default_limits,
    parse_limits,
)
from ktui.pacing.situation import Situation, WantedPartition
from ktui.pipeline.forecast.advice import advise
from ktui.pipeline.forecast.play import GridCell, SimulatedCell
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates, parse_throttle_rates
from ktui.rehearsal.twin import Pace, twin_of
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.data.flows import EVERYWHERE, NOWHERE
from ktui.simulated.layout import ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import SnapshotInfo
from ktui.simulated.twin_parts import BrokerLoads, broker_spec, rates_of
from ktui.speed.answer import Source
from ktui.speed.capacity import Capacity
from ktui.speed.least_time import least_time
from ktui.speed.simulate import RestOfRun, StepOverhead, simulate_rest_of_run
from support.simulated.witness import DataPlane, data_plane

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


BROKERS = range(6)
pairs = st.tuples(st.sampled_from(BROKERS), st.sampled_from(BROKERS)).filter(lambda p: p[0] != p[1])
curves = st.none() | st.builds(
    lambda most, half_at, share: Prior(
        Spread(1.0, 1.0, 1.0, 1),
        1.0,
        RateCurve(most_bytes_s=most, half_at=half_at, most_at_once=4, throttled=share),
        1,
    ),
    st.floats(1e6, 1e9),
    st.floats(0.1, 20),
    st.sampled_from((0.5, 0.6, 0.9)),
)


@given(
    copies=st.lists(pairs, min_size=1, max_size=12),
    prior=curves,
    throttle=st.sampled_from((None, 3_000_000)),
)
def test_the_machines_of_a_twin_copy_as_fast_as_forecasts_expect(
    copies: list[tuple[int, int]], prior: Prior | None, throttle: int | None
) -> None:
    forecast = Capacity(prior).under(ThrottleRates(throttle))
    load = forecast.load(copies)
    plane = _twin(prior, [leader for leader, _ in copies])
    tps = [TopicPartition("t", number) for number in range(len(copies))]
    if throttle is not None:
        plane.replication.set_throttled_replicas("t", followers=EVERYWHERE, leaders=NOWHERE)
        for broker in BROKERS:
            plane.replication.set_throttle_rates(broker, follower=throttle, leader=None)
    for tp, (_, broker) in zip(tps, copies, strict=True):
        plane.add(tp, broker)

    for tp, pair in zip(tps, copies, strict=True):
        expected = forecast.of_copy(pair, load)
        assert plane.replication.rate(tp, pair[1]) == pytest.approx(expected, rel=0.01)


def _twin(prior: Prior | None, leaders: list[int]) -> DataPlane:
    """Return the usual twin of a cluster of which this is known, at rest."""
    rates = rates_of(prior)
    loads = BrokerLoads({}, {}, {})
    brokers = tuple(
        broker_spec(b, rack=None, log_dirs=None, configs={}, loads=loads, rates=rates)
        for b in BROKERS
    )
    topic = TopicSpec(name="t", replicas=tuple((b,) for b in leaders), bytes_each=10**12)
    info = SnapshotInfo(cluster="prod", taken=FIRST_MOMENT, rates=rates)
    spec = twin_of("prod", ClusterSpec(brokers=brokers), info).cluster(Pace.USUAL)
    return data_plane(topic, brokers=spec.brokers)


TIMES = st.integers(1, 40).map(lambda n: 10.0 * n)
CELLS = st.builds(
    SimulatedCell,
    cell=st.builds(GridCell, st.builds(Limits, partitions=st.integers(1, 50))),
    own=st.just(False),  # noqa: FBT003 - Hypothesis' own signature
    predicted_s=TIMES,
    low_s=TIMES,
    high_s=TIMES,
    partitions_at_once=st.integers(1, 3),
    peak_extra_replicas=st.integers(0, 3),
    batches=st.just(1),
    broker_bytes_s=st.sampled_from([1e6, 1.01e6, 2e6]),
    actual_s=st.none(),
    beyond=st.lists(st.sampled_from(["more", "faster"]), max_size=1).map(tuple),
)


@given(
    cells=st.lists(CELLS, min_size=1, max_size=6),
    took_s=st.none() | TIMES,
    window_s=st.none() | TIMES,
)
def test_advised_limits_were_recorded_and_gain_time_or_have_less_at_once(
    cells: list[SimulatedCell], took_s: float | None, window_s: float | None
) -> None:
    own = cells[0] = msgspec.structs.replace(cells[0], own=True, actual_s=took_s)

    advice = advise(cells, window_s)

    assert advice.reason
    if own.beyond:
        assert advice.place is None
        assert advice.record is not None
    if advice.place is None:
        return
    chosen = cells[advice.place]
    less = (
        chosen.partitions_at_once < own.partitions_at_once
        or chosen.peak_extra_replicas < own.peak_extra_replicas
        or chosen.broker_bytes_s < own.broker_bytes_s
    )
    faster = chosen.predicted_s < own.predicted_s and chosen.predicted_s < (took_s or own.high_s)
    fits_alone = window_s is not None and chosen.high_s <= window_s < own.high_s
    assert not chosen.own
    assert not chosen.beyond
    assert less or faster or fits_alone
    assert window_s is None or chosen.high_s <= window_s


COUNTS = st.none() | st.integers(1, 10_000)
SIZES = st.none() | st.integers(1, 2**40)
OF_BOTH = st.sampled_from(Order).filter(lambda order: order is not Order.LONG_FIRST)
COMMON = {
    "replicas": COUNTS, "partitions": COUNTS, "leader_movements": COUNTS,
    "replica_movements": COUNTS, "per_broker": COUNTS, "per_leader": COUNTS,
    "cuts_per_minute": COUNTS, "bytes_in_flight": SIZES, "bytes_per_broker": SIZES,
    "mode": st.sampled_from(Mode), "order": st.sampled_from(Order),
}  # fmt: skip
LIMITS = st.builds(
    Limits,
    **COMMON,
    extra_replicas=COUNTS,
    cut_together=COUNTS,
    internal=st.sampled_from(InternalOrder),
) | st.builds(Limits, **{**COMMON, "order": OF_BOTH}, shape=st.just(Shape.KIP_435))
RATES = st.builds(ThrottleRates, st.none() | st.integers(1, 10**10))


@given(limits=LIMITS | st.just(default_limits()), throttle=RATES)
def test_the_options_typed_after_ktui_start_give_the_limits_and_the_throttle(
    limits: Limits, throttle: ThrottleRates
) -> None:
    words = options_text(limit_options(limits), throttle.typed).split()
    given_options = dict(zip(words[::2], words[1::2], strict=True))

    rates = parse_throttle_rates(given_options.pop("--throttle", "none"))

    assert rates == throttle
    assert parse_limits(given_options, default_limits(given_options)) == limits


@given(limits=LIMITS | st.just(default_limits()))
def test_no_option_that_is_a_default_is_among_those_to_type(limits: Limits) -> None:
    options = limit_options(limits)

    for name in options:
        fewer = {other: value for other, value in options.items() if other != name}
        assert parse_limits(fewer, default_limits(fewer)) != limits


def test_the_defaults_need_no_option() -> None:
    assert options_text(limit_options(default_limits()), "none") == ""


def test_options_of_the_insights_file_survive_its_json() -> None:
    options = limit_options(Limits(partitions=4, bytes_per_broker=None))

    assert options["partitions"] == 4
    assert options["replicas"] is None
    assert msgspec.json.decode(msgspec.json.encode(options), type=dict) == options
