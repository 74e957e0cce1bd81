"""Each broker has a rate of its own, driven by what it and the leaders that it copies from feel."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.events import HeldBroker, RateCause, RateHeld, RateReason
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import Figure, FigureWindow, ObjectiveRates, RateControl
from ktui.progress.flows import BrokerFlow, Flows

MB = 1_000_000
BELOW = 150.0
QUIET = 40.0
"""What a broker without copies has for a figure."""
Sources = Mapping[int, tuple[int, ...]]


class Hosts:
    """Brokers whose latency rises with the third power of what is copied into and out of each.

    A new rate shows in the second window, as under Kafka's quotas.

    Args:
        rooms: the bytes a second at which each broker is at the objective.
        sources: the leaders that each receiving broker copies from, in equal parts.
    """

    def __init__(self, rooms: Mapping[int, float], sources: Sources, seed: int = 1) -> None:
        self._rooms = rooms
        self._sources = sources
        self._chance = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self._rates: deque[Mapping[int, int]] = deque([{}, {}], maxlen=2)

    def _load(self, broker: int, rates: Mapping[int, int]) -> float:
        received = float(rates.get(broker, FLOOR if broker in self._sources else 0))
        sent = sum(
            rates.get(to, FLOOR) / len(leaders)
            for to, leaders in self._sources.items()
            if broker in leaders
        )
        return received + sent

    def figures(self, rates: Mapping[int, int]) -> dict[int, float]:
        """Return the p99 of each broker in the window that ends now, in ms."""
        figures = {}
        for broker, room in self._rooms.items():
            load = sum(self._load(broker, each) for each in self._rates) / 2 / room
            figures[broker] = 60 + 90 * load**3 * self._chance.uniform(0.9, 1.1)
        self._rates.append(dict(rates))
        return figures


def _window(figures: Mapping[int, float], sources: Sources, **used: float) -> FigureWindow:
    flows = Flows({int(name[1:]): BrokerFlow(in_s=in_s) for name, in_s in used.items()})
    return FigureWindow(Figure(None, brokers=figures), sources, flows)


def _played(hosts: Hosts, sources: Sources, windows: int = 360) -> list[RateHeld]:
    rates, found = ObjectiveRates(BELOW), list[RateHeld]()
    for _ in range(windows):
        figures = hosts.figures(found[-1].rates if found else {})
        found.append(rates.window(_window(figures, sources)))
    return found


def _mean(found: list[RateHeld], broker: int) -> float:
    return sum(held.rates[broker] for held in found[60:]) / len(found[60:])


@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_suffers_holds_no_other_one_back(seed: int) -> None:
    sources: Sources = {4: (1,), 5: (2,), 6: (3,)}
    rooms = {1: 400.0 * MB, 2: 400.0 * MB, 3: 400.0 * MB, 4: 5.0 * MB, 5: 40.0 * MB, 6: 40.0 * MB}

    found = _played(Hosts(rooms, sources, seed), sources)

    assert 0.7 * 5 * MB <= _mean(found, 4) <= 5 * MB
    assert _mean(found, 5) >= 0.75 * 40 * MB
    assert _mean(found, 6) >= 0.75 * 40 * MB
    for broker in sources:
        own = [next(b.figure for b in held.brokers if b.broker == broker) for held in found]
        assert sum(figure is not None and figure <= BELOW for figure in own) >= 0.95 * len(own)


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_suffers_holds_back_those_that_copy_from_it_and_nobody_else(
    seed: int,
) -> None:
    sources: Sources = {4: (1,), 5: (1,), 6: (3,)}
    rooms = dict.fromkeys((3, 4, 5, 6), 400.0 * MB) | {1: 20.0 * MB, 6: 40.0 * MB}

    found = _played(Hosts(rooms, sources, seed), sources)

    assert 0.7 * 20 * MB <= _mean(found, 4) + _mean(found, 5) <= 20 * MB
    assert _mean(found, 6) >= 0.75 * 40 * MB


FIGURES = st.floats(0, 1e4)
ALIKE = st.floats(0.75, 1.4)


@given(st.lists(st.tuples(FIGURES, ALIKE, ALIKE, ALIKE, ALIKE)))
def test_brokers_that_feel_much_alike_have_one_rate_which_the_highest_figure_of_all_drives(
    windows: list[tuple[float, ...]],
) -> None:
    sources: Sources = {4: (1,), 5: (1, 2)}
    rates, alone = ObjectiveRates(BELOW), RateControl(BELOW)

    for figure, *parts in windows:
        figures = {b: figure * part for b, part in zip((1, 2, 4, 5), parts, strict=True)}
        held = rates.window(_window(figures, sources, b4=1e9, b5=1e9))
        expected = alone.window(max(figures.values()), 1e9)
        assert held.rates == {4: expected, 5: expected}
        assert held.rate == expected >= FLOOR


def test_a_broker_that_feels_no_more_than_others_again_has_their_rate_again() -> None:
    sources: Sources = {4: (1,), 5: (2,), 6: (3,)}
    rooms = dict.fromkeys((1, 2, 3), 400.0 * MB) | {4: 10.0 * MB, 5: 40.0 * MB, 6: 40.0 * MB}
    hosts, rates = Hosts(rooms, sources), ObjectiveRates(BELOW)

    def after(windows: int) -> Mapping[int, int]:
        held = RateHeld(rate=FLOOR)
        for _ in range(windows):
            held = rates.window(_window(hosts.figures(held.rates), sources))
        return held.rates

    apart = after(120)
    assert apart[4] < 10 * MB < apart[5] == apart[6]
    rooms[4] = 40.0 * MB
    together = after(180)
    assert together[4] == together[5] == together[6]


def test_a_common_rate_is_raised_while_a_broker_uses_it_and_not_without() -> None:
    before = RateHeld(rate=MB, brokers=(HeldBroker(4, 10 * MB), HeldBroker(5, 10 * MB)))
    figures, sources = dict.fromkeys((1, 4, 5), QUIET), {4: (1,), 5: (1,)}
    used, unused = ObjectiveRates(BELOW, before), ObjectiveRates(BELOW, before)

    for _ in range(10):
        raised = used.window(_window(figures, sources, b4=5.5 * MB, b5=1e9))
        held = unused.window(_window(figures, sources, b4=5.5 * MB, b5=4 * MB))

    assert raised.rates[4] == raised.rates[5] > 20 * MB
    assert held.rates == {4: 10 * MB, 5: 10 * MB}
    why = held.brokers[1].why
    assert why is not None
    assert (why.cause, why.figure, why.used) == (RateCause.UNUSED, QUIET, 0.55)


def test_without_a_figure_of_a_broker_or_of_its_leader_its_rate_is_the_least_and_others_go_on() -> (
    None
):
    before = RateHeld(rate=MB, brokers=tuple(HeldBroker(b, 10 * MB) for b in (4, 5, 6)))
    rates = ObjectiveRates(BELOW, before)
    figures = {1: 130.0, 4: 130.0, 6: 130.0}

    for _ in range(2):
        held = rates.window(_window(figures, {4: (1,), 5: (1,), 6: (2,)}))

    assert held.rates == {4: 10 * MB, 5: FLOOR, 6: FLOOR}
    assert (held.figure, held.reason) == (None, "none of broker 5")
    assert [each.broker for each in held.brokers] == [1, 2, 4, 5, 6]
    assert held.brokers[4].why == RateReason(RateCause.NO_FIGURE, of=2)


def test_a_broker_that_begins_to_receive_has_the_common_rate() -> None:
    before = RateHeld(rate=MB, brokers=(HeldBroker(4, 10 * MB), HeldBroker(5, 30 * MB)))
    rates = ObjectiveRates(BELOW, before)

    held = rates.window(_window(dict.fromkeys((1, 4, 5, 6), 130.0), {6: (1,)}))

    assert held.rates == {4: 10 * MB, 5: 30 * MB, 6: 30 * MB}
    assert held.rate == 10 * MB


def test_a_broker_into_which_nothing_more_is_copied_is_forgotten() -> None:
    before = RateHeld(rate=MB, brokers=(HeldBroker(4, 2 * MB), HeldBroker(5, 30 * MB)))
    rates = ObjectiveRates(BELOW, before)
    rates.keep({5})

    held = rates.window(_window(dict.fromkeys((1, 5, 6), 130.0), {6: (1,)}))

    assert held.rates == {5: 30 * MB, 6: 30 * MB}


def test_one_figure_of_all_drives_one_rate_into_all() -> None:
    rates = ObjectiveRates(BELOW, RateHeld(rate=40 * MB))

    held = rates.window(FigureWindow(Figure(400.0), {4: (1,)}, Flows()))

    assert (held.rate, held.figure, held.rates) == (20 * MB, 400.0, {})
    assert held.why is not None
    assert held.why.cause is RateCause.FAR_OVER
