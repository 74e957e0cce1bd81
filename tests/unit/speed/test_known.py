"""What is known of speed, shared and shown."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.insights import Prior, RateCurve, Spread
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Move, Situation, Step, WantedPartition
from ktui.pacing.steps import next_step
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.speed.answer import Misfit
from ktui.speed.capacity import ASSUMED, Capacity, CapacityMemory, Case, misfits
from ktui.speed.copies import BrokerIntake
from ktui.speed.shown import SpeedShown, prior_of, received_by, together
from ktui.speed.simulate import (
    RestOfRun,
    SimulatedOutcome,
    StepInFlight,
    StepOverhead,
    simulate_rest_of_run,
)
from support.runs.engine_runs import received

MB = 10**6
GB = 10**9
FREE = Prior(
    replica_bytes_s=Spread(MB, MB, MB, 1),
    step_s=0.0,
    curve=RateCurve(most_bytes_s=80.0 * MB, half_at=1.0, most_at_once=3),
    runs=2,
    onto=(4, 5),
    largest=GB,
    brokers=5,
)
HELD = msgspec.structs.replace(
    FREE, throttle=20 * MB, curve=msgspec.structs.replace(FREE.curve, known_to=20.0 * MB)
)
BOTH = msgspec.structs.replace(FREE, throttle=20 * MB)
UNKNOWN = Prior(FREE.replica_bytes_s, 0.0, FREE.curve, 3)
"""Rates of insights of an earlier version, which do not say what the runs were like."""


@pytest.mark.parametrize(
    ("prior", "asked", "expected"),
    [
        (FREE, {}, ()),
        (FREE, {"throttle": 20 * MB}, (Misfit.THROTTLE,)),
        (HELD, {"throttle": 20 * MB}, ()),
        (HELD, {"throttle": 10 * MB}, ()),
        (HELD, {"throttle": 40 * MB}, (Misfit.THROTTLE,)),
        (HELD, {}, (Misfit.THROTTLE,)),
        (BOTH, {}, ()),
        (BOTH, {"throttle": 40 * MB}, ()),
        (FREE, {"onto": (4,)}, ()),
        (FREE, {"onto": (4, 6)}, (Misfit.BROKERS,)),
        (FREE, {"brokers": 5}, ()),
        (FREE, {"brokers": 3}, ()),
        (FREE, {"onto": (6,), "brokers": 6}, (Misfit.BROKERS, Misfit.GROWN)),
        (FREE, {"largest": 3 * GB}, ()),
        (FREE, {"largest": 10 * GB}, (Misfit.SIZES,)),
        (UNKNOWN, {"onto": (9,), "largest": 10 * GB, "brokers": 9, "throttle": MB}, ()),
    ],
)
def test_a_run_unlike_the_earlier_ones_is_told_by_what_differs(
    prior: Prior, asked: dict[str, int | tuple[int, ...]], expected: tuple[Misfit, ...]
) -> None:
    throttle, case = asked.pop("throttle", None), Case(**{"onto": (4, 5), **asked})  # type: ignore[arg-type]
    assert tuple(misfits(prior, case, lambda _broker: throttle)) == expected  # type: ignore[arg-type, return-value]


A, B = TopicPartition("a", 0), TopicPartition("a", 1)


def takes(_broker: int, at_once: int) -> float:
    assert at_once > 0
    return 10.0


def test_a_finished_copy_leaves_its_share_to_the_others() -> None:
    copies = received(takes)
    copies.add(A, (1, 5), 10.0, 0.0)
    copies.add(B, (2, 5), 20.0, 0.0)
    assert copies.next_end_s == pytest.approx(2.0)
    ended = copies.ended(10.0)
    assert [(tp, broker) for _, tp, broker in ended] == [(A, 5), (B, 5)]
    assert [end_s for end_s, *_ in ended] == pytest.approx([2.0, 3.0])
    assert copies.next_end_s == inf


def wanted(tp: TopicPartition, size: int = 100) -> WantedPartition:
    situation = Situation(
        replicas=(1, 2), isr=(1, 2), leader=1, target=(5, 2), online=frozenset((1, 2, 5))
    )
    return WantedPartition(tp, situation, size)


def in_flight(one: WantedPartition, limits: Limits, left: dict[int, float]) -> StepInFlight:
    step = next_step(one.situation, limits)
    assert isinstance(step, Step)
    return StepInFlight(one, Move(one.tp, step), left)


def test_steps_in_flight_continue_from_where_they_are_and_the_others_follow() -> None:
    limits = Limits(replicas=1, partitions=1)
    alone = simulate_rest_of_run(
        RestOfRun([], [wanted(A)]), limits, StepOverhead(), received(takes)
    )
    half = simulate_rest_of_run(
        RestOfRun([in_flight(wanted(A), limits, {5: 50.0})], []),
        limits,
        StepOverhead(),
        received(takes),
    )
    both = RestOfRun([in_flight(wanted(A), limits, {5: 50.0})], [wanted(B)])
    then = simulate_rest_of_run(both, limits, StepOverhead(), received(takes))
    assert alone.copying_s == 10.0
    assert half.copying_s == 5.0
    assert then.copying_s == 15.0
    assert then.waiting_s > 0


def test_a_step_that_has_copied_everything_ends_with_the_next_poll() -> None:
    limits = Limits(replicas=1, partitions=1)
    outcome = simulate_rest_of_run(
        RestOfRun([in_flight(wanted(A), limits, {})], []), limits, StepOverhead(), received(takes)
    )
    assert outcome.copying_s == 0.0
    assert 0 < outcome.waiting_s <= 5


def test_an_empty_run_takes_no_time() -> None:
    outcome = simulate_rest_of_run(RestOfRun([], []), Limits(), StepOverhead(), received(takes))
    assert outcome.copying_s == outcome.waiting_s == 0


AT = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def shown(
    bytes_s: dict[tuple[int, int], float],
    seconds: float = 600.0,
    throttle: str = "none",
    largest: int = GB,
) -> SpeedShown:
    """Return what a run has shown whose copies, by leader and broker, had these rates."""
    memory = CapacityMemory()
    copied = [(pair, rate * seconds) for pair, rate in bytes_s.items()]
    Capacity(memory=memory).learn(copied, seconds, parse_throttle_rates(throttle))
    return SpeedShown(
        cluster_id="prod", at=AT, received=received_by(memory), largest=largest, brokers=5
    )


def test_a_run_without_a_throttle_shows_the_rate_of_a_copy_by_itself() -> None:
    prior = prior_of([shown({(1, 4): 30 * MB})])
    assert prior is not None
    assert prior.curve.bytes_s(1, None) == pytest.approx(30 * MB)
    assert prior.curve.known_to is None
    assert (prior.runs, prior.onto, prior.brokers, prior.largest) == (1, (4,), 5, GB)


def test_a_slow_broker_stays_slow_and_the_others_do_not() -> None:
    prior = prior_of([shown({(1, 4): 10 * MB, (2, 5): 40 * MB}, seconds=3_600)])
    assert prior is not None
    assert prior.alone[4] == pytest.approx(10 * MB, rel=0.1)
    assert prior.alone[5] == pytest.approx(40 * MB, rel=0.1)


def test_a_run_under_a_throttle_shows_the_share_of_it_and_no_rate_above_it() -> None:
    prior = prior_of([shown({(1, 4): 4 * MB, (2, 5): 6 * MB}, throttle="10MB")])
    assert prior is not None
    assert prior.curve.throttled == pytest.approx(0.5)
    assert prior.curve.known_to == prior.throttle == 10 * MB
    assert prior.curve.bytes_s(1, None) == pytest.approx(ASSUMED.middle)


def test_a_throttle_that_held_nothing_up_shows_how_slow_the_brokers_are() -> None:
    prior = prior_of([shown({(1, 4): 8 * MB}, throttle="100MB")])
    assert prior is not None
    assert prior.curve.known_to is None
    assert prior.curve.bytes_s(1, None) == pytest.approx(8 * MB)


def test_what_a_run_shows_does_not_depend_on_the_curve_that_it_began_with() -> None:
    earlier = prior_of([shown({(1, 4): 30 * MB})])
    assert earlier is not None
    curve = RateCurve(most_bytes_s=400.0 * MB, half_at=30.0, most_at_once=4)
    fitted = msgspec.structs.replace(earlier, curve=curve)
    copied = [((leader, 4), 100.0 * MB) for leader in (1, 2, 3)]
    kept = []
    for prior in (None, fitted):
        memory = CapacityMemory()
        Capacity(prior, memory).learn(copied, 10.0, NO_THROTTLE)
        kept.append(received_by(memory))
    assert kept[0] == kept[1]


def test_runs_count_by_the_time_in_which_they_copied() -> None:
    long, short = shown({(1, 4): 30 * MB}, 900), shown({(1, 4): 10 * MB}, 100)
    prior = prior_of([long, short])
    assert prior is not None
    assert prior.curve.bytes_s(1, None) == pytest.approx(28 * MB)
    assert (prior.runs, prior.curve.unthrottled_runs) == (2, 2)


def test_runs_that_copied_nothing_show_nothing() -> None:
    assert prior_of([]) is None
    assert prior_of([shown({(1, 4): 0.0})]) is None


def test_an_engine_that_goes_on_with_a_run_adds_to_what_the_one_before_has_shown() -> None:
    first = shown({(1, 4): 30 * MB}, 900)
    second = shown({(1, 4): 10 * MB, (1, 5): 10 * MB}, 100, largest=2 * GB)
    whole = together(first, second)
    both, apart = prior_of([whole]), prior_of([first, second])
    assert both is not None
    assert apart is not None
    assert both.alone == pytest.approx(apart.alone)
    assert (both.runs, both.largest) == (1, 2 * GB)
    assert together(None, second) == second


def test_what_another_cluster_has_shown_is_not_added() -> None:
    here = shown({(1, 4): 30 * MB})
    elsewhere = SpeedShown(
        cluster_id="other", at=AT - timedelta(days=1), received=here.received, largest=GB
    )
    assert together(elsewhere, here) == here


TEMPO_A = TopicPartition("a", 0)
SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=8)


def ends(inbound: BrokerIntake) -> list[float]:
    return [end_s for end_s, _ in inbound.ended(1e9)]


@given(SIZES)
def test_copies_without_contention_end_as_if_alone(sizes: list[int]) -> None:
    inbound = BrokerIntake(lambda at_once: 10.0 * at_once)
    for size in sizes:
        inbound.add(TEMPO_A, size, 0.0)
    assert [round(end_s, 6) for end_s in ends(inbound)] == [size / 10 for size in sorted(sizes)]


@given(SIZES, st.floats(0, 5))
def test_a_rate_curve_is_never_faster_than_its_maximum(sizes: list[int], half_at: float) -> None:
    curve = BrokerIntake(lambda at_once: 10.0 * at_once / (at_once + half_at))
    flat = BrokerIntake(lambda _: 10.0)
    for size in sizes:
        curve.add(TEMPO_A, size, 0.0)
        flat.add(TEMPO_A, size, 0.0)
    assert all(a >= b - 1e-6 for a, b in zip(ends(curve), ends(flat), strict=True))


ONE_BY_ONE = Limits(replicas=1, partitions=1)


def simulated(
    bytes_s: Callable[[int, int], float],
    limits: Limits = ONE_BY_ONE,
    partitions: int = 3,
    beside: StepOverhead = StepOverhead(),  # noqa: B008 - immutable
) -> SimulatedOutcome:
    wanted = [
        WantedPartition(
            TopicPartition("a", n),
            Situation(
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
                leader=2,
                target=(4, 2, 3),
                online=frozenset(range(1, 5)),
            ),
            size=100,
        )
        for n in range(partitions)
    ]
    whole = RestOfRun((), wanted)
    return simulate_rest_of_run(whole, limits, beside, received(bytes_s))


def test_the_overhead_of_steps_is_added_to_their_copying() -> None:
    plain = simulated(lambda *_: 10.0)
    joining = simulated(lambda *_: 10.0, beside=StepOverhead(joining_s=5))
    slow = simulated(lambda *_: 10.0, beside=StepOverhead(other_s=4))
    assert plain.copying_s == joining.copying_s == slow.copying_s == 30.0
    assert joining.waiting_s == plain.waiting_s + 3 * 5
    assert slow.waiting_s > plain.waiting_s


def test_cuts_wait_for_the_minute_of_earlier_ones() -> None:
    plain = simulated(lambda *_: 1_000.0)
    paced = simulated(lambda *_: 1_000.0, Limits(replicas=1, cuts_per_minute=1))
    assert paced.copying_s + paced.waiting_s >= 120.0 > 3 * plain.waiting_s


def test_each_broker_has_its_own_rate() -> None:
    fast = simulated(lambda broker, _at_once: 100.0 if broker == 4 else 1.0)
    assert fast.copying_s == 3.0
