"""Advice for runs that were held up or changed on the way: like is compared with like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.execution.run.events import (
    AnyRunEvent,
    Outage,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    SettingChanged,
    StepGate,
    ThrottleChanged,
)
from ktui.insights import RateCurve
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.model import Evidence, HeldOutTests, Model
from ktui.pipeline.forecast.play import GridCell, PlayableRun, playable_run
from ktui.pipeline.forecast.what_if import RealDuration, advised_rows, simulated_rows
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates, parse_throttle_rates
from support.journals.journals import started

MB = 1_000_000
MODEL = Model(
    curve=RateCurve(most_bytes_s=20.0 * MB, half_at=1.0, most_at_once=8),
    joining_s=0,
    other_s=1,
    seen=Evidence(
        runs=2, steps=20, broker_bytes_s=20.0 * MB, free=True, fewest_at_once=1, most_at_once=4,
        partitions=4,
    ),
)  # fmt: skip
EXACT = HeldOutTests(runs=2)
SLOWER, FASTER = (
    GridCell(Limits(replicas=1, partitions=1)),
    GridCell(Limits(replicas=1, partitions=4)),
)
DOWN, OTHER = 4, 9  # a broker that the run copies to, and one that it has nothing to do with

DISTURBANCES: dict[str, Sequence[AnyRunEvent]] = {
    "it was paused": [Paused(by=PauseOrigin.OPERATOR)],
    "its throttle was changed": [
        ThrottleChanged(old=NO_THROTTLE, new=ThrottleRates(MB)),
        ThrottleChanged(old=ThrottleRates(MB), new=NO_THROTTLE),
    ],
    "its throttle was changed by others": [
        SettingChanged(
            resource=ConfigResource(ConfigScope.BROKER, "4"),
            key="follower.replication.throttled.rate",
            found="1",
        )
    ],
    "its steps were held back": [StepGate(shut=True), StepGate(shut=False)],
    "the cluster did not answer": [Outage(lost=True), Outage(lost=False)],
    "broker 4 was down": [],
}
each_disturbance = pytest.mark.parametrize("words", DISTURBANCES)


def a_run(words: str = "", throttle: str = "none") -> PlayableRun:
    """Four partitions go to broker 4, two at a time: about 30 s without a throttle."""
    planned = tuple(
        Planned("a", n, None, (DOWN, 2, 3), (1, 2, 3), 1, size=100 * MB) for n in range(4)
    )
    events = DISTURBANCES.get(words, [])
    run = playable_run("drain", [started(4), PlannedPart(partitions=planned), *events])
    run.had_down([DOWN, OTHER] if words.startswith("broker") else [OTHER])
    run.cell = GridCell(run.cell.limits, parse_throttle_rates(throttle))
    return run


def advised(
    run: PlayableRun, took_s: float, *cells: GridCell, tests: HeldOutTests = EXACT
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row with the advice, and the run's own row."""
    lasted = RealDuration(int(took_s * 1000), None)
    rows = [*advised_rows([*simulated_rows(run, [run.cell, *cells], MODEL, lasted)], None, tests)]
    (told,) = (row for row in rows if row["reason"])
    (own,) = (row for row in rows if row["own"])
    return told, own


@each_disturbance
def test_nothing_is_advised_for_being_faster_than_a_run_that_was_held_up(words: str) -> None:
    told, own = advised(a_run(words), 600.0, SLOWER)

    assert own["predicted_s"] < 60
    assert not told["recommended"]
    assert told["reason"].startswith("nothing that was recorded is faster than the run")


@each_disturbance
def test_advice_compares_with_the_time_of_the_same_model_for_the_run_as_it_was_started(
    words: str,
) -> None:
    told, own = advised(a_run(words), 600.0, FASTER)

    assert told["recommended"]
    assert own["disturbed"] == (words,)
    assert f"instead of {own['predicted_s']:.0f} s" in told["reason"]
    assert f"predicted for it as it was started (it took 10m: {words})" in told["reason"]


def test_the_advice_for_an_undisturbed_run_has_its_real_time_beside_the_predicted_one() -> None:
    told, own = advised(a_run(), 33.0, FASTER)

    assert told["recommended"]
    assert own["disturbed"] == ()
    assert "predicted for it as it was started (it took 33 s);" in told["reason"]


def test_nothing_is_advised_that_an_undisturbed_run_was_as_fast_as() -> None:
    told, own = advised(a_run(), 20.0, FASTER)

    assert not told["recommended"]
    assert own["predicted_s"] > 1.2 * 20


def test_a_run_whose_throttle_was_raised_is_advised_what_is_faster_than_it_was_started() -> None:
    run = a_run("its throttle was changed", throttle="2MB")

    told, own = advised(run, 60.0, GridCell(run.cell.limits, parse_throttle_rates("4MB")))

    assert told["recommended"]
    assert own["predicted_s"] == pytest.approx(200, abs=5)
    assert told["predicted_s"] == pytest.approx(100, abs=5)


@pytest.mark.parametrize("words", ["", "it was paused"])
def test_a_gain_within_the_range_of_error_is_no_advice_and_the_reason_says_so(words: str) -> None:
    told, own = advised(a_run(words), 40.0, FASTER, tests=HeldOutTests(runs=2, low=0.5, high=2.0))

    assert not told["recommended"]
    assert told["own"]
    assert "is within the range of error of" in told["reason"]
    assert f"{own['predicted_s']:.0f} s" in told["reason"]


@each_disturbance
def test_a_run_that_was_held_up_does_not_test_the_model(words: str) -> None:
    lasted = RealDuration(30_000, MODEL)
    (own,) = simulated_rows(a_run(words), [a_run(words).cell], MODEL, lasted)
    (undisturbed,) = simulated_rows(a_run(), [a_run().cell], MODEL, lasted)

    assert own["error_held_out"] is None
    assert undisturbed["error_held_out"] is not None


def test_the_command_that_is_offered_has_no_option_that_is_a_default() -> None:
    few = Evidence(runs=1, steps=20)
    run = a_run()
    model = Model(MODEL.curve, 0, 1, seen=few)
    rows = [*simulated_rows(run, [run.cell], model, RealDuration(30_000, None))]

    (own,) = advised_rows(rows, None, EXACT)

    assert run.cell.limits.replicas == 1  # as is the default
    assert own["record"].startswith("--partitions 2 ")
    assert "--replicas" not in own["record"]
