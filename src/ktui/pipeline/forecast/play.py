"""Simulate a recorded run under its own limits and under others: those of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec.structs import force_setattr

from ktui.cluster.broker import Broker
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.settings import UNLIMITED
from ktui.execution.run import events
from ktui.pacing.limits import FIELDS, Limits, LimitsProblem, parse_limits
from ktui.pipeline.forecast.model import Model, SimulatedUse, beyond_evidence, missing_evidence
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    WINDOW_S,
    BrokerRate,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)
from ktui.preview.facts import Moves, moves_of
from ktui.speed.copies import NONE_BESIDE, CopiesOfBothEnds, CopyLoad, Pair
from ktui.speed.simulate import RestOfRun, SimulatedOutcome, simulate_rest_of_run
from ktui.yamlfile import YamlFile, read_yaml

MOST = 1_000  # the most cells of a grid
Value = str | int | None


class RateSpan(msgspec.Struct, frozen=True):
    """Rates, and how long steps were in flight under them."""

    seconds: float
    rates: ThrottleRates


class GridCell(msgspec.Struct, frozen=True):
    """One combination of limits and throttle."""

    limits: Limits
    throttle: ThrottleRates = NO_THROTTLE
    driven: tuple[RateSpan, ...] = ()  # the rates that promises chose, over time


class _File(msgspec.Struct, forbid_unknown_fields=True):
    limits: dict[str, list[Value] | Value]
    throttle: list[str] | str = "none"


FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""What is multiplied: what a run has at once, and its throttle."""
_AT_ONCE = tuple(field for field, limit in FIELDS.items() if limit.bounds_copies)


def relative_grid(own: GridCell, partitions: int, bytes_s: float) -> tuple[GridCell, ...]:
    """Return multiples of a run's own limits and throttle, for when no file names a grid.

    All limits of how much is copied at once change together; `replicas` is the run's, 1, or none.
    Without such limits the run counts as limited to its `partitions`, without a throttle to
    `bytes_s`.
    """
    limits = msgspec.structs.replace(own.limits, brokers=())
    if all(getattr(limits, name) is None for name in _AT_ONCE):
        scaled = {"partitions": partitions}
    else:
        scaled = {name: of for name in _AT_ONCE if (of := getattr(limits, name)) is not None}
    replicas = dict.fromkeys((limits.replicas, 1, None))
    # rounded to two digits, as an operator would type it
    throttle = own.throttle or ThrottleRates(max(1, int(float(f"{bytes_s:.1e}"))))
    throttles = [_times(throttle, factor) for factor in FACTORS if own.throttle or factor < 1]
    each = [
        msgspec.structs.replace(
            limits, replicas=count, **{n: max(1, int(of * factor)) for n, of in scaled.items()}
        )
        for factor in FACTORS
        for count in replicas
    ]
    cells = (GridCell(one, rates) for one in each for rates in (*throttles, NO_THROTTLE))
    return tuple(dict.fromkeys(cells))


def _times(rates: ThrottleRates, factor: Fraction) -> ThrottleRates:
    def times(rate: int | None) -> int | None:
        return None if rate is None else max(1, min(UNLIMITED - 1, int(rate * factor)))

    brokers = tuple(BrokerRate(each.broker, times(each.bytes_s)) for each in rates.brokers)
    return ThrottleRates(times(rates.every), brokers, times(rates.budget))


def read_grid(path: Path) -> tuple[GridCell, ...]:
    """Read every combination of the limits and throttles in a file; FileProblem names the line."""
    file = read_yaml(path)
    content = file.convert((), file.data, _File)
    limits = {name: _as_list(values) for name, values in content.limits.items()}
    for name, values in limits.items():
        for number, value in enumerate(values):
            _check(file, name, number, value)
    throttles = list(_throttles(file, _as_list(content.throttle)))
    cells = len(throttles)
    for values in limits.values():
        cells *= len(values)
    if not 1 <= cells <= MOST:
        raise file.problem((), f"{cells:,} cells. A grid has 1 to {MOST:,}")
    try:
        return tuple(_cells(limits, throttles))
    except LimitsProblem as problem:
        raise file.problem(("limits",), f"limits: {problem}") from None


def _as_list(values: list[Value] | list[str] | Value) -> list[Value]:
    return [*values] if isinstance(values, list) else [values]


def _check(file: YamlFile, name: str, number: int, value: Value) -> None:
    try:
        parse_limits({name: value})
    except LimitsProblem as problem:
        raise file.problem(("limits", name, number), f"limits.{problem}") from None


def _throttles(file: YamlFile, texts: list[Value]) -> Iterator[ThrottleRates]:
    for number, text in enumerate(texts):
        try:
            yield parse_throttle_rates(str(text))
        except ThrottleProblem as problem:
            raise file.problem(("throttle", number), f"throttle: {problem}") from None


def _cells(limits: Mapping[str, list[Value]], throttles: list[ThrottleRates]) -> Iterator[GridCell]:
    for values in itertools.product(*limits.values()):
        chosen = parse_limits(dict(zip(limits, values, strict=True)))
        yield from (GridCell(chosen, throttle) for throttle in throttles)


_DISTURBED: Mapping[type[events.RunEvent], str] = {
    events.LimitsChanged: "its limits were changed",
    events.ThrottleChanged: "its throttle was changed",
    events.SettingChanged: "its throttle was changed by others",
    events.Paused: "it was paused",
    events.StepGate: "its steps were held back",
    events.Outage: "the cluster did not answer",
    events.Added: "partitions were added",
    events.Owned: "it was resumed",  # by a second engine
    events.Recovered: "its journal was recovered",
}
"""What the model does not have: the time of such a run says little about its limits."""


class PlayableRun(msgspec.Struct):
    """The facts needed to simulate a run."""

    name: str = ""
    cell: GridCell = GridCell(Limits())  # its limits and throttle, or promised rates
    known: bool = False  # whether `cell` is known: the recording has the run's start
    planned: list[events.Planned] = msgspec.field(default_factory=list)
    disturbed: dict[str, None] = {}  # in words: what held it up or changed it on the way, in order
    driven_by: str = ""  # the promises that chose its rates: by, objective, or both
    racks: dict[int, str] = {}
    owned: bool = False  # whether an engine has taken the run on

    def take(self, event: events.AnyRunEvent) -> None:
        if isinstance(event, events.Started):
            throttle = msgspec.structs.replace(event.options.throttle, objective=None)
            self.cell, self.known = GridCell(event.limits, throttle), True
            self.racks = event.rack_of
        elif isinstance(event, events.Owned) and not self.owned:
            self.owned = True
        elif isinstance(event, events.PlannedPart):
            self.planned += event.partitions
        elif isinstance(event, events.StepGate) and not event.shut:
            return
        elif type(event) in _DISTURBED:
            self.disturbed[_DISTURBED[type(event)]] = None

    def had_down(self, brokers: Iterable[int]) -> None:
        """Note which of its own brokers were down at times while it went on."""
        own = {b for p in self.planned for b in (*p.target, *p.original)}
        for broker in sorted(own.intersection(brokers)):
            self.disturbed[f"broker {broker} was down"] = None

    def moves(self) -> Moves:
        """Compute the plan's moves on the cluster as it was at the run's start, all brokers up."""
        targets = [PartitionTarget(p.topic, p.partition, p.target) for p in self.planned]
        brokers = {b for p in self.planned for b in (*p.target, *p.original)}
        return moves_of(
            Plan(tuple(targets)),
            ClusterSnapshot(
                partitions={
                    p.tp: PartitionState(p.tp, p.topic_id, p.original, p.original, _leader(p))
                    for p in self.planned
                },
                brokers={id_: Broker(id_, rack=self.racks.get(id_)) for id_ in brokers},
                sizes={Replica(p.tp, _leader(p)): p.size for p in self.planned},
            ),
        )


class SimulatedCell(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated result for one cell."""

    cell: GridCell
    own: bool
    predicted_s: float
    low_s: float
    high_s: float  # at least the predicted time
    partitions_at_once: int
    peak_extra_replicas: int
    batches: int
    broker_bytes_s: float
    actual_s: float | None = None  # the real time, of its own cell; None until the end
    disturbed: tuple[str, ...] = ()  # of its own cell: why the model's time is not the real one
    driven_by: str | None = None  # the promises that chose its own rates; None else
    by_s: float | None = None  # from its first step to the time of --by; None without
    beyond: tuple[str, ...] = ()  # why it is not advised; empty where it may be
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "low_s", min(self.low_s, self.predicted_s))
        force_setattr(self, "high_s", max(self.high_s, self.predicted_s))

    @property
    def to_beat_s(self) -> float:
        """What is predicted for it as it was started, or less if it took less undisturbed."""
        if self.actual_s is None or self.disturbed:
            return self.predicted_s
        return min(self.predicted_s, self.actual_s)


def simulate_cell(
    moves: Moves, cell: GridCell, model: Model, *, own: bool = False
) -> SimulatedCell:
    """Simulate a run under some limits and a throttle."""
    throttle = cell.throttle.shared_evenly(moves.bytes_in)
    copies = _Copies(model, cell.driven or (RateSpan(math.inf, throttle),))
    rest = RestOfRun((), moves.wanted, moves.racks)
    run = simulate_rest_of_run(rest, cell.limits, model.overhead, copies)
    use = SimulatedUse(
        throttle=throttle,
        broker_bytes_s=copies.most_bytes_s,
        fewest_at_once=copies.fewest_at_once or model.seen.fewest_at_once,
        most_at_once=copies.most_at_once,
        partitions=run.most_in_flight,
    )
    further = () if own else beyond_evidence(use, model.seen)  # the run really used its own cell
    return SimulatedCell(
        cell=cell,
        own=own,
        predicted_s=run.copying_s + run.waiting_s,
        low_s=min(_at(run, model.curve.high), _soonest_s(run, moves, throttle, model)),
        high_s=_at(run, model.curve.low),
        partitions_at_once=run.most_in_flight,
        peak_extra_replicas=run.peak_extra_replicas,
        batches=run.batches,
        broker_bytes_s=use.broker_bytes_s,
        beyond=(*missing_evidence(model.seen), *further),
        assumed=model.assumptions(throttle, tuple(moves.bytes_in)),
    )


def _at(run: SimulatedOutcome, rate: float) -> float:  # only the copying scales with the rate
    return run.copying_s / rate + run.waiting_s


def _soonest_s(run: SimulatedOutcome, moves: Moves, throttle: ThrottleRates, model: Model) -> float:
    """The duration, in seconds, if brokers catch up on what throttles left them before.

    Kafka averages the traffic of a throttle over `WINDOW_S`: after idle seconds a broker takes in,
    as fast as it can, what its throttle would have let through in these.
    """
    rates, free = model.under(throttle), model.under(NO_THROTTLE)
    limits = {broker: throttle.of(broker) for broker in moves.bytes_in}
    held_up = {
        broker: limit
        for broker, limit in limits.items()
        if limit is not None and rates.takes(broker, 1) < free.takes(broker, 1)
    }
    busy_s = sum(moves.bytes_in[broker] / rates.takes(broker, 1) for broker in held_up)
    if not busy_s:
        return math.inf
    copies = sum(b in held_up for each in moves.wanted for b in each.situation.missing)
    idle_s = max(0.0, (run.copying_s + run.waiting_s) * len(held_up) - busy_s)
    saved_s = min(idle_s, copies * WINDOW_S, busy_s)
    least_s = max(moves.bytes_in[b] / limit for b, limit in held_up.items()) - WINDOW_S
    return max(least_s, run.copying_s * (1 - saved_s / busy_s) + run.waiting_s)


class _Copies(CopiesOfBothEnds):
    """The replicas being copied, while the throttle changes; the last of `spans` stays."""

    def __init__(self, model: Model, spans: Sequence[RateSpan]) -> None:
        self.most_bytes_s, self.fewest_at_once, self.most_at_once = 0.0, 0, 0
        rates = [model.under(span.rates) for span in spans]
        ends_s = accumulate(span.seconds for span in spans[:-1])
        self._changes = [*zip(ends_s, rates[1:], strict=True)][::-1]
        self._now = rates[0]
        super().__init__(self._of_copy, self._now.load())
        self._pairs: dict[tuple[TopicPartition, int], Pair] = {}

    @property
    def next_end_s(self) -> float:
        end_s = self._next_end_s()
        return end_s if end_s == math.inf else min(end_s, self._changes_s)

    @property
    def _changes_s(self) -> float:
        return self._changes[-1][0] if self._changes else math.inf

    def add(
        self,
        tp: TopicPartition,
        pair: Pair,
        size: float,
        at_s: float,
        beside: Mapping[int, int] = NONE_BESIDE,
    ) -> None:
        self._pairs[tp, pair[1]] = pair
        super().add(tp, pair, size, at_s, beside)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        ended = []
        while self._changes_s <= by_s:
            at_s, then = self._changes.pop()
            ended += self._ended(at_s)
            self._now = then
            self.rates_changed(then.load(self._pairs.values()), at_s)
        return ended + self._ended(by_s)

    def _ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        ended = super().ended(by_s)
        for _, tp, broker in ended:
            del self._pairs[tp, broker]
        return ended

    def _of_copy(self, pair: Pair, load: CopyLoad) -> float:
        rate, at_once = self._now.of_copy(pair, load), load.onto(pair[1])
        self.fewest_at_once = min(self.fewest_at_once or at_once, at_once)
        self.most_at_once = max(self.most_at_once, at_once)
        self.most_bytes_s = max(self.most_bytes_s, rate * at_once)
        return rate


def _leader(planned: events.Planned) -> int:
    led = planned.leader in planned.original
    return planned.leader if led and planned.leader is not None else planned.original[0]


def playable_run(name: str, events: Iterable[events.AnyRunEvent]) -> PlayableRun:
    """Build a run from the events of its journal, in order."""
    run = PlayableRun(name)
    for event in events:
        run.take(event)
    return run
