"""The bench of rehearsals measures a recording as it is, and compares two of them."""

from __future__ import annotations

import msgspec
import pytest
from bench.rehearsal.figures import Figures, figures_of, same_order

from ktui.cluster.partition import TopicPartition
from ktui.rehearsal.summary import Summary
from ktui.rehearsal.twin import Pace
from ktui.rehearsal.twins import rehearse
from ktui.simulated.clock import FIRST_MOMENT
from support.rehearsal.small_twins import ONTO_4, SIZE, TWIN, rehearsal_of


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, Summary]:
    folder = tmp_path_factory.mktemp("recorded")
    (twin,) = rehearse(rehearsal_of(ONTO_4), TWIN.at(50e6), start=FIRST_MOMENT, record=folder)
    assert twin.pace is Pace.USUAL
    return figures_of(folder), twin.summary


def test_a_recording_shows_the_time_and_the_bytes_of_its_rehearsal(
    recorded: tuple[Figures, Summary],
) -> None:
    figures, summary = recorded

    assert figures.seconds == pytest.approx(summary.time_s, abs=0.01)
    assert figures.copied == pytest.approx(2 * SIZE, rel=0.02)
    assert sorted(figures.order) == [target.tp for target in ONTO_4.partitions]


def test_the_peak_is_an_average_that_no_broker_exceeds_at_any_time(
    recorded: tuple[Figures, Summary],
) -> None:
    figures, summary = recorded
    most = {use.broker: use.inflow for use in summary.brokers if use.inflow}

    assert figures.inflow.keys() == most.keys() == {4}
    assert 0.5 * most[4] < figures.inflow[4] < 1.01 * most[4]


def _ordered(batches: tuple[int, ...], base: Figures, *, together: bool) -> Figures:
    order = {TopicPartition("orders", n): batch for n, batch in enumerate(batches)}
    return msgspec.structs.replace(base, order=order, together=together)


@pytest.mark.parametrize(
    ("first", "second", "in_flight", "alike"),
    [
        ((1, 2, 3), (2, 5, 9), 1, 1.0),
        ((1, 2, 3), (2, 9, 5), 1, 0.0),
        ((1, 2, 3), (3, 2, 1), 2, -1.0),
        ((1, 1, 2), (3, 3, 7), 2, 1.0),
        ((1, 1, 1), (1, 2, 3), 2, None),
    ],
)
def test_orders_are_equal_one_by_one_and_else_as_far_as_their_batches_are(
    first: tuple[int, ...],
    second: tuple[int, ...],
    in_flight: int,
    alike: float | None,
    recorded: tuple[Figures, Summary],
) -> None:
    of = [_ordered(each, recorded[0], together=in_flight > 1) for each in (first, second)]

    assert same_order(*of) == (None if alike is None else pytest.approx(alike))
