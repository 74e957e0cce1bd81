"""What runs have shown of a cluster's speed, and the rates that follow for the next one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ktui.insights.prior import RateCurve
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.speed.capacity import ASSUMED, Capacity, CapacityMemory
from ktui.speed.shown import SpeedShown, prior_of, received_by, together

AT = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
MB = 10**6
GB = 10**9


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
