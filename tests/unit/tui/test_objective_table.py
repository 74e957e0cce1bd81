"""The picture of an objective is read without colours, in 72 cells."""

from __future__ import annotations

import pytest

from ktui.execution.run.events import HeldBroker, RateCause, RateHeld, RateReason
from ktui.planning.throttle_rates import parse_objective
from ktui.tui.draw.bars import BAR_CELLS, objective_bar
from ktui.tui.widgets.objective_table import objective_table

MB = 1_000_000
P99 = parse_objective("p99<150ms")


@pytest.mark.parametrize(
    ("figure", "aim", "bar"),
    [
        (None, 1.0, "▕············░░░│    ▏"),
        (0.0, 1.0, "▕············░░░│    ▏"),
        (75.0, 1.0, "▕███████▌····░░░│    ▏"),
        (130.0, 1.0, "▕█████████████░░│    ▏"),
        (150.0, 1.0, "▕███████████████│    ▏"),
        (170.0, 1.0, "▕███████████████│██  ▏"),
        (1e9, 1.0, "▕███████████████│███»▏"),
        (None, 0.8, "▕··········░░···│    ▏"),
    ],
)
def test_a_bar_shows_the_figure_the_band_and_the_objective(
    figure: float | None, aim: float, bar: str
) -> None:
    drawn = "".join(piece.text for piece in objective_bar(figure, 150.0, aim))

    assert drawn == bar
    assert len(drawn) == BAR_CELLS


def test_each_broker_has_a_row_with_its_figure_its_rate_and_why_that_moved_last() -> None:
    brokers = (
        HeldBroker(2, figure=212.0),
        HeldBroker(4, MB, 95.0, RateReason(RateCause.OVER, 212.0, of=2)),
        HeldBroker(5, 12 * MB, 63.0, RateReason(RateCause.UNDER, 63.0, of=5)),
        HeldBroker(6, 41 * MB, 128.0, RateReason(RateCause.UNUSED, 100.0, of=6, used=0.55)),
        HeldBroker(10, MB, None, RateReason(RateCause.NO_FIGURE, of=10)),
    )
    held = RateHeld(rate=MB, figure=212.0, windows=21, kept=19, brokers=brokers)

    lines = [line.plain.rstrip() for line in objective_table(P99, held, 72)]

    assert lines == [
        "p99<150ms held in 19 of 21 windows. Mean in ░: the rate stays; below, it rises.",
        "broker   0        120    150ms        p99    rate in  why",
        "2 sends  ▕███████████████│███»▏     212ms",
        "4        ▕█████████▌··░░░│    ▏      95ms   1.0 MB/s  least: b2 212ms",
        "5        ▕██████▎·····░░░│    ▏      63ms    12 MB/s  up: 63ms",
        "6        ▕████████████▊░░│    ▏     128ms    41 MB/s  stays: 55% used",
        "10       ▕············░░░│    ▏         -   1.0 MB/s  no figure",
    ]


def test_one_figure_of_all_has_one_row() -> None:
    lag, why = parse_objective("lag<5000"), RateReason(RateCause.IN_BAND, 4_500.0, aim=0.8)
    held = RateHeld(rate=12 * MB, figure=4_500.0, windows=1, kept=1, why=why)

    first, heading, row = (line.plain for line in objective_table(lag, held, 72))

    assert "Mean in ░: the rate stays" in first
    assert heading.split() == ["broker", "0", "3200", "5000", "lag", "rate", "in", "why"]
    assert row.split()[0] == "all"
    assert row.rstrip().endswith("4500    12 MB/s  stays: 4500")


def test_a_band_that_begins_low_leaves_no_room_for_the_zero_of_its_axis() -> None:
    felt = parse_objective("p99<400ms")
    why = RateReason(RateCause.UNDER, 193.1, aim=0.46)
    held = RateHeld(rate=MB, figure=193.1, windows=1, kept=1, why=why)

    heading = objective_table(felt, held, 72)[1].plain

    assert heading.split()[:3] == ["broker", "147.2", "400ms"]


def test_without_a_figure_the_reason_is_named() -> None:
    held = RateHeld(rate=MB, reason="no metrics", windows=3, kept=1)

    assert "No figure: no metrics." in objective_table(P99, held, 72)[0].plain
    assert "nothing was copied yet" in objective_table(P99, None, 72)[0].plain
