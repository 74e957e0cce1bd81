"""Operators read why the rate of an objective moved last."""

from __future__ import annotations

import pytest

from ktui.execution.run.events import HeldBroker, RateCause, RateHeld, RateReason
from ktui.execution.run.text import held_text, reason_text
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.planning.throttle_rates import parse_objective

MB = 1_000_000
P99 = parse_objective("p99<150ms")


@pytest.mark.parametrize(
    ("why", "rate", "words"),
    [
        (RateReason(RateCause.OVER, 212.0, of=4), 9 * MB, "down: p99 of broker 4 was 212ms"),
        (RateReason(RateCause.OVER, 212.0), FLOOR, "the least rate: p99 was 212ms"),
        (RateReason(RateCause.FAR_OVER, 400.0), 9 * MB, "down at once: p99 was 400ms"),
        (RateReason(RateCause.UNDER, 63.0), 9 * MB, "up: p99 was 63ms"),
        (RateReason(RateCause.IN_BAND, 130.0), 9 * MB, "stays: p99 was 130ms"),
        (RateReason(RateCause.UNUSED, 63.0, used=0.55), 9 * MB, "stays: 55% of it is used"),
        (
            RateReason(RateCause.NO_FIGURE, of=4),
            FLOOR,
            "the least rate: there was no figure of broker 4",
        ),
    ],
)
def test_each_cause_has_its_words(why: RateReason, rate: int, words: str) -> None:
    assert reason_text(why, rate, P99) == words


def test_without_the_objective_the_figure_has_no_name() -> None:
    why = RateReason(RateCause.UNDER, 63.5)
    held = RateHeld(rate=12 * MB, figure=143.5, windows=20, kept=19, why=why)

    assert held_text(held) == (
        "12 MB/s into each broker: the figure is 143.5, 19 of 20 windows kept; "
        "up: the figure was 63.5"
    )


def test_rates_by_broker_are_described_by_the_lowest_and_the_highest() -> None:
    brokers = (HeldBroker(1, figure=143.0), HeldBroker(4, 4 * MB), HeldBroker(5, 12 * MB))
    held = RateHeld(rate=4 * MB, figure=143.0, brokers=brokers)

    assert held_text(held, P99) == "4.0 MB/s to 12 MB/s into 2 brokers: p99 is 143ms"
