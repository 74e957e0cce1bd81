"""The rates of an objective, window by window: one for all brokers, or one for each.

What a broker receives is felt by its own clients, and by those of the leaders that it copies from.
So the highest of their figures drives the rate into it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import NamedTuple

from ktui.execution.run.events import RateHeld
from ktui.execution.run.held_rate import HeldBroker
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective_control import RateControl
from ktui.execution.throttle.objective_margin import Margin
from ktui.progress.flows import Flows


class Figure(NamedTuple):
    """The figure of the last window."""

    value: float | None
    """In the objective's unit; None if there is none, or only by broker."""
    problem: str = ""
    """Why there is none."""
    brokers: Mapping[int, float] | None = None
    """The figure of each broker of which it is known; None where one figure is that of all."""


class Window(NamedTuple):
    """What was copied in a window, and what somebody felt."""

    figure: Figure
    sources: Mapping[int, Collection[int]]
    """The brokers that received copies, at least one, each with the leaders that it copied from."""
    flows: Flows
    """The copies into each broker."""


class _Felt(NamedTuple):
    """The figure that drives the rate into a broker, and the broker that it is of."""

    value: float | None
    of: int

    @property
    def rank(self) -> float:
        """The value; an unknown one is the highest."""
        return inf if self.value is None else self.value


class ObjectiveRates:
    """Drive the rates of one objective.

    Args:
        below: the objective's value.
        before: the rates so far; None at first.
    """

    def __init__(self, below: float, before: RateHeld | None = None) -> None:
        self._below = below
        self._all = RateControl(below, FLOOR if before is None else before.rate)
        self._margin = Margin()
        rates = {} if before is None else before.rates
        self._of = {broker: self._control(rate) for broker, rate in rates.items()}

    def _control(self, rate: int) -> RateControl:
        return RateControl(self._below, rate, self._margin)

    def keep(self, brokers: Collection[int]) -> None:
        """Forget the rate of every other broker: nothing more is copied into it."""
        self._of = {broker: of for broker, of in self._of.items() if broker in brokers}

    def window(self, window: Window) -> RateHeld:
        """Return the rates from the end of a window on, its figure, and why they moved last."""
        figure, flows = window.figure, window.flows
        if figure.brokers is not None:
            return self._by_broker(window, figure.brokers)
        used = [of.in_s for of in flows.brokers.values() if of.in_s is not None]
        rate = self._all.window(figure.value, max(used, default=None))
        return RateHeld(rate=rate, figure=figure.value, reason=figure.problem, why=self._all.why)

    def _by_broker(self, window: Window, figures: Mapping[int, float]) -> RateHeld:
        first = self._lowest
        felt = {b: _highest(figures, b, leaders) for b, leaders in window.sources.items()}
        self._margin.learners = len(felt)
        for broker, (value, of) in felt.items():
            control = self._of.setdefault(broker, self._control(first))
            control.window(value, window.flows.of(broker).in_s, of)
        worst = max(felt, key=lambda broker: felt[broker].rank)
        value, of = felt[worst]
        problem = window.figure.problem or f"none of broker {of}"
        sending = {leader for leaders in window.sources.values() for leader in leaders}
        return RateHeld(
            rate=self._lowest,
            figure=value,
            reason=problem if value is None else "",
            why=self._of[worst].why,
            brokers=tuple(self._held(b, figures) for b in sorted(self._of.keys() | sending)),
        )

    @property
    def _lowest(self) -> int:
        """The rate to begin with for a broker that has none yet."""
        return min((control.rate for control in self._of.values()), default=FLOOR)

    def _held(self, broker: int, figures: Mapping[int, float]) -> HeldBroker:
        control = self._of.get(broker)
        if control is None:
            return HeldBroker(broker, figure=figures.get(broker))
        return HeldBroker(broker, control.rate, figures.get(broker), control.why)


def _highest(figures: Mapping[int, float], broker: int, leaders: Collection[int]) -> _Felt:
    brokers = (broker, *sorted(leaders))
    return max((_Felt(figures.get(b), b) for b in brokers), key=lambda felt: felt.rank)
