"""Recorded runs simulated under other limits, and the limits advised."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.events import Planned, PlannedPart
from ktui.insights import RateCurve
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.advice import advise
from ktui.pipeline.forecast.model import Evidence, Model
from ktui.pipeline.forecast.play import (
    GridCell,
    PlayableRun,
    RateSpan,
    SimulatedCell,
    playable_run,
    simulate_cell,
)
from ktui.planning.throttle_rates import WINDOW_S, parse_throttle_rates
from support.journals.journals import started

MB = 1_000_000
MODEL = Model(
    curve=RateCurve(most_bytes_s=20.0 * MB, most_at_once=4, half_at=1.0, low=0.5, high=2.0),
    joining_s=2,
    other_s=1,
    seen=Evidence(
        runs=3,
        steps=24,
        broker_bytes_s=20.0 * MB,
        free=True,
        fewest_at_once=1,
        most_at_once=8,
        partitions=8,
    ),
)


def a_run(partitions: int = 8, size: int = 100 * MB) -> PlayableRun:
    planned = tuple(
        Planned(
            topic="a",
            partition=n,
            topic_id=None,
            target=(4, 2, 3),
            original=(1, 2, 3),
            leader=2,
            size=size,
        )
        for n in range(partitions)
    )
    return playable_run("drain", [started(partitions), PlannedPart(partitions=planned)])


def one_by_one(throttle: str = "none", partitions: int = 1) -> GridCell:
    return GridCell(Limits(replicas=1, partitions=partitions), parse_throttle_rates(throttle))


def onto_each_in_turn(size: int, brokers: int = 5, rounds: int = 3) -> PlayableRun:
    planned = tuple(
        Planned(
            topic="a",
            partition=n,
            topic_id=None,
            target=(n % brokers, 11),
            original=(10, 11),
            leader=11,
            size=size,
        )
        for n in range(brokers * rounds)
    )
    return playable_run("spread", [started(len(planned)), PlannedPart(partitions=planned)])


def test_short_copies_may_get_what_a_throttle_left_their_broker_before() -> None:
    """Seen on a lab: 19 MB under 4 MB/s took 1.4 s on brokers that had been idle, else 6.6 s."""
    played = simulate_cell(onto_each_in_turn(20 * MB).moves(), one_by_one("4MB"), MODEL)
    assert played.predicted_s >= 15 * 20 / 4
    beside_copying = 15 * (MODEL.joining_s + MODEL.other_s)
    assert played.low_s <= beside_copying


def test_long_copies_get_little_more_than_their_throttle() -> None:
    exact = msgspec.structs.replace(MODEL.curve, low=1.0, high=1.0)
    model = msgspec.structs.replace(MODEL, curve=exact)
    played = simulate_cell(onto_each_in_turn(400 * MB).moves(), one_by_one("4MB"), model)
    assert 0.85 * played.predicted_s <= played.low_s < played.predicted_s


def test_a_broker_that_always_copies_has_nothing_left_to_catch_up() -> None:
    played = simulate_cell(a_run(80, 5 * MB).moves(), one_by_one("4MB", partitions=4), MODEL)
    assert played.low_s >= 80 * 5 / 4 - WINDOW_S


def test_a_sequential_run_takes_the_sum_of_its_copies_and_steps() -> None:
    played = simulate_cell(a_run().moves(), one_by_one(), MODEL)
    copying, joining = 8 * 100 / 10, 8 * MODEL.joining_s
    assert copying + joining < played.predicted_s <= copying + joining + 8 * MODEL.other_s
    assert played.broker_bytes_s == 10 * MB
    assert played.low_s < played.predicted_s < played.high_s


def test_higher_concurrency_is_faster_up_to_the_rate_of_the_broker() -> None:
    moves = a_run().moves()
    alone, two, four = (simulate_cell(moves, one_by_one(partitions=n), MODEL) for n in (1, 2, 4))
    assert alone.predicted_s > two.predicted_s > four.predicted_s
    assert four.broker_bytes_s < 20 * MB
    assert alone.peak_extra_replicas <= two.peak_extra_replicas <= four.peak_extra_replicas


def test_a_throttle_makes_a_run_slower() -> None:
    moves = a_run().moves()
    throttled = simulate_cell(moves, one_by_one("5MB"), MODEL)
    assert throttled.predicted_s > simulate_cell(moves, one_by_one(), MODEL).predicted_s
    assert throttled.broker_bytes_s == 5 * MB


def the_cells() -> list[SimulatedCell]:
    moves = a_run().moves()
    own = simulate_cell(moves, one_by_one(partitions=2), MODEL, own=True)
    return [own, *(simulate_cell(moves, one_by_one(partitions=n), MODEL) for n in (1, 4, 8))]


def test_limits_above_the_recorded_concurrency_are_not_advised() -> None:
    few = msgspec.structs.replace(MODEL.seen, most_at_once=2, partitions=2)
    model = msgspec.structs.replace(MODEL, seen=few)
    moves = a_run().moves()
    own = simulate_cell(moves, one_by_one(partitions=2), model, own=True)
    more = simulate_cell(moves, one_by_one(partitions=8), model)

    assert own.beyond == ()
    assert "8 partitions at once, and 2 at most were recorded" in more.beyond
    assert advise([own, more], more.high_s).place is None


def test_the_lowest_concurrency_that_surely_fits_a_window_is_advised() -> None:
    played = the_cells()
    window_s = played[2].high_s
    advice = advise(played, window_s)
    assert advice.place == 2
    assert "the fewest at once of the 2 that fit" in advice.reason


def test_nothing_is_advised_if_nothing_fits_and_the_soonest_is_named() -> None:
    played = the_cells()
    advice = advise(played, 5.0)
    assert advice.place is None
    assert advice.reason.startswith("none fits 5 s; the soonest is ")
    assert advice.told_of == min(range(4), key=lambda n: played[n].high_s)


def driven(*spans: tuple[float, str], partitions: int = 1) -> GridCell:
    """Return limits under rates that changed: each for so many seconds."""
    rates = (RateSpan(seconds, parse_throttle_rates(text)) for seconds, text in spans)
    return msgspec.structs.replace(one_by_one(partitions=partitions), driven=tuple(rates))


def test_a_driven_run_copies_at_each_rate_for_as_long_as_that_was_in_force() -> None:
    model = msgspec.structs.replace(MODEL, joining_s=0)
    played = simulate_cell(a_run().moves(), driven((100, "2MB"), (1, "10MB")), model, own=True)

    assert played.predicted_s == pytest.approx(100 + (800 - 200) / 10, abs=8 * MODEL.other_s)
    assert played.broker_bytes_s == 10 * MB


def test_while_a_promise_needed_all_that_there_was_a_run_copies_without_a_throttle() -> None:
    moves = a_run().moves()
    free = simulate_cell(moves, one_by_one(), MODEL)

    played = simulate_cell(moves, driven((5, "none"), (5, "none")), MODEL, own=True)

    assert played.predicted_s == free.predicted_s


@given(
    st.lists(st.floats(0.1, 200.0), min_size=1, max_size=6),
    st.sampled_from(["1MB", "5MB", "9MB,4=3MB"]),
    st.integers(1, 8),
)
def test_a_rate_that_stayed_predicts_what_a_throttle_does(
    seconds: list[float], rate: str, partitions: int
) -> None:
    moves = a_run().moves()
    throttled = simulate_cell(moves, one_by_one(rate, partitions), MODEL)

    same = driven(*((each, rate) for each in seconds), partitions=partitions)

    assert simulate_cell(moves, same, MODEL).predicted_s == pytest.approx(
        throttled.predicted_s, abs=1.0
    )


def test_nothing_is_advised_for_a_run_whose_rate_followed_an_objective() -> None:
    played = the_cells()
    played[0] = msgspec.structs.replace(played[0], driven_by="by, objective")

    advice = advise(played, 10_000.0)

    assert advice.place is None
    assert "what producers feel at another rate was not recorded" in advice.reason


def test_a_run_that_was_to_end_by_a_time_has_that_as_its_window() -> None:
    played = the_cells()
    by_s = played[2].high_s
    played[0] = msgspec.structs.replace(played[0], driven_by="by", by_s=by_s)

    advice = advise(played, None)

    assert advice.place == advise(played, by_s).place == 2
    assert "fit the time of --by, " in advice.reason


def test_rates_that_by_chose_are_never_advised_though_they_fit_its_time() -> None:
    own = msgspec.structs.replace(the_cells()[0], driven_by="by", by_s=10_000.0)
    other = msgspec.structs.replace(the_cells()[3], beyond=("nothing like it was recorded",))

    for played in ([own], [own, other], [msgspec.structs.replace(own, by_s=None), other]):
        advice = advise(played, None)
        assert advice.place is None
        assert advice.told_of == 0
        assert "changed on the way" in advice.reason

    assert advise([own, the_cells()[3]], None).place == 1
