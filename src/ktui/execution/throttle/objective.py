"""The rates that keep an operator's objective, window by window."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from math import exp, inf, log
from statistics import fmean
from typing import NamedTuple

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.execution.run.events import HeldBroker, RateCause, RateHeld, RateReason
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.desired import joining
from ktui.planning.throttle_rates import Objective
from ktui.progress.flows import Flows

_MARGIN_AT_FIRST, _MOST = log(1.6), log(4.0)
_LEARNS, _BEYOND = 0.2, 0.04  # the margin's step, and the share of windows beyond it


class Margin:
    """The distance between the mean of windows and the objective, learnt from how they scatter.

    The rates of all brokers share it: a window counts as over the objective if any broker is, and
    so they learn from each other's windows.
    """

    def __init__(self) -> None:
        self._log = _MARGIN_AT_FIRST
        self.learners = 1  # how many rates learn it together

    @property
    def aim(self) -> float:
        """The part of the objective that the mean stays below, 0.25 to 1."""
        return exp(-self._log)

    def learn(self, above: float) -> None:
        """Learn from a window: the log of its figure, less the mean of those before.

        The margin moves up by much for each window that lies beyond it and down by little for each
        other, so that it stands still when `_BEYOND` of them do (a quantile, by stochastic
        approximation).
        """
        step = 1 - _BEYOND if above > self._log else -_BEYOND
        self._log = min(max(self._log + _LEARNS / self.learners * step, 0.0), _MOST)


WINDOW_S = 10.0  # each has one figure
_DEAD = 1  # windows after a change of the rate that do not show it yet
_MEAN_OF, _FEWEST, _FEW = 12, 3, 2
"""The last windows whose mean decides, the fewest, and those that decide alone where their mean is
above the objective itself."""
_CLEARLY = 0.5  # with a mean below this part of the aim, one window is enough
BAND = 0.8  # from this part of the aim on, the rate stays
_MIDDLE = (1 + BAND) / 2
_DOWN_LEAST, _DOWN_MOST = 0.95, 0.5
_UP_LEAST, _UP_MOST = 1.03, 2.0  # a step goes as far as the figure asks for, within these
_POWER, _AT_FIRST = 2.0, 1.5  # the figure rises with this power of the rate; at first with less
_FAR_OVER = 2.0  # so many times the objective, and the rate goes down at once
_UNUSED = 0.8  # with less of the rate in use, something else is slower: it stays
LEAST_FIGURE = 1e-6  # a figure that is lower counts as this: its logarithm is needed
_MISSING = 2  # so many windows without a figure, and the rate is the floor


class RateControl:
    """Decide a rate into brokers by windows, from `rate` on, to stay `below`."""

    def __init__(self, below: float, rate: int = FLOOR, margin: Margin | None = None) -> None:
        self._below = below
        self._margin = margin or Margin()
        self.rate = rate  # bytes a second into each broker
        self.why: RateReason | None = None  # why the rate moved last, or stays
        self._power = _AT_FIRST
        self._missing = 0
        self._dead = 0
        self._felt: deque[float] = deque(maxlen=_MEAN_OF)  # logarithms, at the present rate

    def forget(self) -> None:
        self._felt.clear()

    def window(self, figure: float | None, used: float | None, of: int | None = None) -> int:
        """Return the rate after a window with this figure (of a broker), and the most used."""
        if figure is None:
            self._missing += 1
            if self._missing >= _MISSING:
                self._decide(RateReason(RateCause.NO_FIGURE, of=of), FLOOR)
                self._felt.clear()
            return self.rate
        self._missing = 0
        part = max(figure / self._below, LEAST_FIGURE)
        self._add(log(part))
        aim = self._margin.aim
        share = None if used is None else round(used / self.rate, 2)
        if part > _FAR_OVER:
            why = RateReason(RateCause.FAR_OVER, figure, of, share, round(aim, 2))
            self._decide(why, self._lower(_DOWN_MOST, used))
        elif (over := self._over(aim)) is not None:
            cause, rate = self._step(over, used)
            mean = round(over * aim * self._below, 3)
            self._decide(RateReason(cause, mean, of, share, round(aim, 2)), rate)
        return self.rate

    def _add(self, felt: float) -> None:
        if self._dead:
            self._dead -= 1
            return
        if self._felt:
            self._margin.learn(felt - fmean(self._felt))
        self._felt.append(felt)
        newest = list(self._felt)[-_FEW:]
        if min(newest) > 0:
            self._felt = deque(newest, maxlen=_MEAN_OF)

    def _over(self, aim: float) -> float | None:
        if not self._felt:
            return None
        over = exp(fmean(self._felt)) / aim
        fewest = 1 if over < _CLEARLY else _FEW if over * aim > 1.0 else _FEWEST
        return over if len(self._felt) >= fewest else None

    def _step(self, over: float, used: float | None) -> tuple[RateCause, float]:
        if over > 1.0:
            asked = max(_DOWN_MOST, min(_DOWN_LEAST, over ** (-1 / _POWER)))
            return RateCause.OVER, self._lower(asked, used)
        if over > BAND:
            return RateCause.IN_BAND, self.rate
        if used is not None and used < _UNUSED * self.rate:
            return RateCause.UNUSED, self.rate
        asked = (_MIDDLE / over) ** (1 / self._power)
        return RateCause.UNDER, self.rate * min(_UP_MOST, max(_UP_LEAST, asked))

    def _lower(self, part: float, used: float | None) -> float:
        self._power = _POWER
        in_use = self.rate if used is None else min(float(self.rate), max(used, FLOOR))
        return in_use * part

    def _decide(self, why: RateReason, rate: float) -> None:
        self.why, new = why, max(FLOOR, int(rate))
        if new == self.rate:
            return
        shift = self._power * log(new / self.rate)
        self._felt = deque((felt + shift for felt in self._felt), maxlen=_MEAN_OF)
        self.rate, self._dead = new, _DEAD


_OF_LATE = 6  # the windows whose mean tells whether a broker feels much more than others
_MUCH, _LITTLE = log(2.0), log(1.4)


class Figure(NamedTuple):
    """The figure of the last window."""

    value: float | None  # in the objective's unit; None for none, or only by broker
    problem: str = ""
    brokers: Mapping[int, float] | None = None  # where known; None where one figure is that of all


Sources = Mapping[int, Collection[int]]
"""The brokers that received copies in a window, with the leaders of each, at least one."""


class _Felt(NamedTuple):
    """The figure that drives the rate into a broker, and the broker that it is of."""

    value: float | None
    of: int

    @property
    def rank(self) -> float:
        return inf if self.value is None else self.value


class _Receiver:
    """A broker that receives: what it has felt of late, and the rate that it has alone, if any."""

    def __init__(self, alone: RateControl | None = None) -> None:
        self.alone = alone
        self._felt: deque[float] = deque(maxlen=_OF_LATE)

    def feel(self, value: float | None) -> None:
        if value is None:
            self._felt.clear()
        else:
            self._felt.append(log(max(value, LEAST_FIGURE)))

    @property
    def mean(self) -> float | None:
        """Of the logarithms of what it felt; None until there are enough."""
        return fmean(self._felt) if len(self._felt) == _OF_LATE else None


class ObjectiveRates:
    """Drive the rates of one objective.

    With a figure of each broker, the highest of them drives one rate into all. A broker that feels
    much more than others has a rate of its own, and does not hold them back.
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
        self._of = {broker: of for broker, of in self._of.items() if broker in brokers}

    def window(self, figure: Figure, sources: Sources, flows: Flows) -> RateHeld:
        """Return the rates from the end of a window on, its figure, and why they moved last."""
        if figure.brokers is not None:
            return self._by_broker(figure.problem, figure.brokers, sources, flows)
        used = [of.in_s for of in flows.brokers.values() if of.in_s is not None]
        rate = self._all.window(figure.value, max(used, default=None))
        return RateHeld(rate=rate, figure=figure.value, reason=figure.problem, why=self._all.why)

    def _by_broker(
        self, problem: str, figures: Mapping[int, float], sources: Sources, flows: Flows
    ) -> RateHeld:
        felt = {b: _highest(figures, b, leaders) for b, leaders in sources.items()}
        for broker, (value, _) in felt.items():
            self._of.setdefault(broker, _Receiver()).feel(value)
        self._part_or_join(felt)
        self._move(felt, flows)
        worst = max(felt, key=lambda broker: felt[broker].rank)
        value, of = felt[worst]
        sending = {leader for leaders in sources.values() for leader in leaders}
        return RateHeld(
            rate=min((self._control_of(broker).rate for broker in self._of), default=FLOOR),
            figure=value,
            reason=problem or f"none of broker {of}" if value is None else "",
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


SLACK = 0.1  # a rate is set again only when it changes by more than this part of it
REPORT_S = 60.0  # seconds until the figure and the share of windows are journaled again


def no_figure(_objective: Objective) -> Figure:
    """Return that there is no figure."""
    return Figure(None, "nothing measures it")


class ObjectiveKeeper:
    """Drive the rates of a run while it has an objective."""

    def __init__(self, run: Run, clock: Clock, figure: Callable[[Objective], Figure]) -> None:
        self._run = run
        self._clock = clock
        self._figure = figure
        self._objective: Objective | None = None
        self._rates = ObjectiveRates(1.0)
        self._window_s = self._reported_s = 0.0
        self._sources: defaultdict[int, set[int]] = defaultdict(set)  # leaders, by receiving broker
        self._windows = self._kept = 0

    def update(self, seen: Observation, flows: Flows) -> list[RateHeld]:
        objective, now_s = self._run.throttled.rates.objective, self._clock.monotonic()
        if objective != self._objective:
            self._begin(objective, now_s)
        if objective is None:
            return []
        self._see_copies(seen)
        if now_s - self._window_s < WINDOW_S:
            return []
        self._window_s, figure = now_s, self._figure(objective)
        sources, self._sources = self._sources, defaultdict(set)
        if not sources:
            return []
        later = {broker for broker, count in self._run.copies.onto.items() if count > 0}
        self._rates.keep(later | sources.keys())
        held = self._rates.window(figure, sources, flows)
        self._windows += 1
        self._kept += held.figure is not None and held.figure <= objective.below
        held = msgspec.structs.replace(held, windows=self._windows, kept=self._kept)
        return self._report(held, now_s)

    def _see_copies(self, seen: Observation) -> None:
        for track, step in self._run.open_steps:
            begun, state = step.begun, seen.partitions.get(track.tp)
            leader = begun.leader if state is None else state.leader
            for broker in joining(begun, state):
                self._sources[broker].update(() if leader is None else (leader,))

    def _begin(self, objective: Objective | None, now_s: float) -> None:
        self._objective, self._window_s, self._reported_s = objective, now_s, now_s
        self._sources.clear()
        if objective is not None:
            self._figure(objective)  # begins to ask
            before = self._run.throttled.held_at
            self._rates = ObjectiveRates(objective.below, before)
            self._windows, self._kept = (0, 0) if before is None else (before.windows, before.kept)

    def _report(self, held: RateHeld, now_s: float) -> list[RateHeld]:
        before = self._run.throttled.held_at
        if before is not None:
            held = _steadied(held, before)
            alike = (held.rate, held.rates) == (before.rate, before.rates)
            known = (held.figure is None, held.reason) == (before.figure is None, before.reason)
            if alike and known and now_s - self._reported_s < REPORT_S:
                return []
        self._reported_s = now_s
        return [held]


def _steadied(new: RateHeld, old: RateHeld) -> RateHeld:
    brokers = tuple(
        each
        if each.rate is None
        else msgspec.structs.replace(each, rate=_steady(each.rate, old.rates.get(each.broker)))
        for each in new.brokers
    )
    return msgspec.structs.replace(new, rate=_steady(new.rate, old.rate), brokers=brokers)


def _steady(new: int, old: int | None) -> int:
    return old if old is not None and abs(new - old) <= SLACK * old else new
