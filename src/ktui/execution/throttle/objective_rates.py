"""The rates of an objective, window by window: one for all brokers, or one for each.

What a broker receives is felt by its own clients, and by those of the leaders that it copies from.
So the highest of their figures drives the rate into it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from math import inf, log
from statistics import fmean
from typing import NamedTuple

from ktui.execution.run.events import RateHeld
from ktui.execution.run.held_rate import HeldBroker, RateCause
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective_control import LEAST_FIGURE, RateControl
from ktui.execution.throttle.objective_margin import Margin
from ktui.progress.flows import Flows

_OF_LATE = 6
"""The windows whose mean tells whether a broker feels much more than others."""
_MUCH, _LITTLE = log(2.0), log(1.4)


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


class _Receiver:
    """A broker that receives: what it has felt of late, and its rate where it has one of its own.

    Args:
        alone: its own rate; None for the common one.
    """

    def __init__(self, alone: RateControl | None = None) -> None:
        self.alone = alone
        self._felt: deque[float] = deque(maxlen=_OF_LATE)

    def feel(self, value: float | None) -> None:
        """Add the figure that drives the rate into the broker; without one, nothing is known."""
        if value is None:
            self._felt.clear()
        else:
            self._felt.append(log(max(value, LEAST_FIGURE)))

    @property
    def mean(self) -> float | None:
        """The mean of the logarithms of what it felt; None until there are enough."""
        return fmean(self._felt) if len(self._felt) == _OF_LATE else None


class ObjectiveRates:
    """Drive the rates of one objective.

    With a figure of each broker, the highest of them drives one rate into all. A broker that feels
    much more than others has a rate of its own, and does not hold them back.

    Args:
        below: the objective's value.
        before: the rates so far; None at first.
    """

    def __init__(self, below: float, before: RateHeld | None = None) -> None:
        self._below = below
        self._margin = Margin()
        rates = {} if before is None else before.rates
        first = FLOOR if before is None else max(rates.values(), default=before.rate)
        self._all = self._control(first)
        self._of = {
            broker: _Receiver(self._control(rate) if rate < first else None)
            for broker, rate in rates.items()
        }

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
        felt = {b: _highest(figures, b, leaders) for b, leaders in window.sources.items()}
        for broker, (value, _) in felt.items():
            self._of.setdefault(broker, _Receiver()).feel(value)
        self._part_or_join(felt)
        self._move(felt, window.flows)
        worst = max(felt, key=lambda broker: felt[broker].rank)
        value, of = felt[worst]
        problem = window.figure.problem or f"none of broker {of}"
        sending = {leader for leaders in window.sources.values() for leader in leaders}
        return RateHeld(
            rate=min((self._control_of(broker).rate for broker in self._of), default=FLOOR),
            figure=value,
            reason=problem if value is None else "",
            why=self._control_of(worst).why,
            brokers=tuple(self._held(b, figures) for b in sorted(self._of.keys() | sending)),
        )

    def _part_or_join(self, felt: Mapping[int, _Felt]) -> None:
        """Give a broker its own rate if its figures are far higher than the lowest of the others.

        The broker gets the common rate back once its figures are no higher than theirs, at a rate
        that is no lower or that it does not use.
        """
        means = {broker: self._of[broker].mean for broker in felt}
        least = min((mean for mean in means.values() if mean is not None), default=0.0)
        for broker, mean in means.items():
            receiver, more = self._of[broker], None if mean is None else mean - least
            if receiver.alone is None:
                if felt[broker].value is None or (more is not None and more > _MUCH):
                    receiver.alone = self._control(self._all.rate)
                    self._all.forget()
            elif more is not None and more < _LITTLE and self._is_enough(receiver.alone):
                receiver.alone = None

    def _is_enough(self, alone: RateControl) -> bool:
        unused = alone.why is not None and alone.why.cause is RateCause.UNUSED
        return unused or alone.rate >= self._all.rate

    def _move(self, felt: Mapping[int, _Felt], flows: Flows) -> None:
        """Move the common rate, and those of brokers that have their own."""
        together = [broker for broker in felt if self._of[broker].alone is None]
        self._margin.learners = len(felt) - len(together) + bool(together)
        for broker, (value, of) in felt.items():
            alone = self._of[broker].alone
            if alone is not None:
                alone.window(value, flows.of(broker).in_s, of)
        if together:
            used = [in_s for b in together if (in_s := flows.of(b).in_s) is not None]
            value, of = max((felt[broker] for broker in together), key=lambda each: each.rank)
            self._all.window(value, max(used, default=None), of)

    def _control_of(self, broker: int) -> RateControl:
        return self._of[broker].alone or self._all

    def _held(self, broker: int, figures: Mapping[int, float]) -> HeldBroker:
        if broker not in self._of:
            return HeldBroker(broker, figure=figures.get(broker))
        control = self._control_of(broker)
        return HeldBroker(broker, control.rate, figures.get(broker), control.why)


def _highest(figures: Mapping[int, float], broker: int, leaders: Collection[int]) -> _Felt:
    brokers = (broker, *sorted(leaders))
    return max((_Felt(figures.get(b), b) for b in brokers), key=lambda felt: felt.rank)
