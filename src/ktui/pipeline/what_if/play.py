"""A recorded run, played under other limits than its own; and which of them to advise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ktui.cluster.broker import Broker
from ktui.cluster.partition import PartitionState, Replica
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    Gate,
    LimitsChanged,
    Outage,
    Owned,
    Paused,
    Planned,
    PlannedPart,
    Recovered,
    Started,
    ThrottleChanged,
)
from ktui.pacing.limits import Limits
from ktui.pipeline.what_if.evidence import Use, beyond, lacking
from ktui.pipeline.what_if.grid import GridCell
from ktui.pipeline.what_if.model import Model
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.preflight.moves import Moves, moves_of
from ktui.planning.simulate.schedule import Schedule, Tempo, schedule
from ktui.quantities import as_duration

_OTHERWISE = (LimitsChanged, ThrottleChanged, Paused, Outage, Added, Recovered)
"""After these a run did not go by one set of limits from its first step to its last."""

_ALIKE = 1.05
"""So much slower than the fastest is as fast: no forecast is that exact."""


class PlayableRun(msgspec.Struct):
    """What is to be known of a run to play it."""

    name: str = ""
    cell: GridCell = GridCell(Limits())
    """Its own limits and throttle, at its start."""
    known: bool = False
    """Whether they are: the recording has the run's start."""
    planned: list[Planned] = msgspec.field(default_factory=list)
    steady: bool = True
    """Whether it kept them, and was neither paused, nor held up, nor resumed, nor added to."""
    owned: bool = False
    """Whether a process has taken it on."""

    def take(self, event: AnyRunEvent) -> None:
        """Take in the next event of its journal."""
        if isinstance(event, Started):
            self.cell, self.known = GridCell(event.limits, event.options.throttle), True
        elif isinstance(event, Owned):
            self.steady, self.owned = self.steady and not self.owned, True
        elif isinstance(event, PlannedPart):
            self.planned += event.partitions
        elif isinstance(event, _OTHERWISE) or (isinstance(event, Gate) and event.shut):
            self.steady = False

    def moves(self) -> Moves:
        """Hold its plan against the cluster as it was at its start, all brokers up."""
        targets = [PartitionTarget(p.topic, p.partition, p.target) for p in self.planned]
        brokers = {b for p in self.planned for b in (*p.target, *p.original)}
        return moves_of(
            Plan(tuple(targets)),
            ClusterSnapshot(
                partitions={p.tp: _state(p) for p in self.planned},
                brokers={broker: Broker(broker) for broker in brokers},
                sizes={Replica(p.tp, _leader(p)): p.size for p in self.planned},
            ),
        )


class PlayedCell(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cell."""

    cell: GridCell
    own: bool
    """Whether the run really had it."""
    predicted_s: float
    low_s: float
    high_s: float
    peak_extra_replicas: int
    batches: int
    broker_bytes_s: float
    """The most that went into one broker at a time."""
    beyond: tuple[str, ...] = ()
    """Why it is not advised, as `what_if_evidence` says; nothing where it may be."""


class Advice(msgspec.Struct, frozen=True):
    """Which of the cells to take; None where none will do."""

    place: int | None
    reason: str
    told_of: int
    """The cell that the reason is about."""


def play(moves: Moves, cell: GridCell, model: Model, *, own: bool = False) -> PlayedCell:
    """Play a run under some limits and a throttle."""
    tempo = model.tempo(cell.throttle)
    most = _Most(tempo.bytes_s)
    run = schedule(moves.wanted, cell.limits, Tempo(most.bytes_s, tempo.joining_s, tempo.other_s))
    use = Use(
        throttle=cell.throttle,
        broker_bytes_s=most.seen,
        fewest_at_once=most.fewest_at_once or model.seen.fewest_at_once,
        most_at_once=most.most_at_once,
        partitions=run.most_in_flight,
    )
    further = () if own else beyond(use, model.seen)  # its own way it really went
    return PlayedCell(
        cell=cell,
        own=own,
        predicted_s=run.copying_s + run.waiting_s,
        low_s=_at(run, model.curve.high),
        high_s=_at(run, model.curve.low),
        peak_extra_replicas=run.peak_extra_replicas,
        batches=run.batches,
        broker_bytes_s=most.seen,
        beyond=(*lacking(model.seen), *further),
    )


def advise(played: Sequence[PlayedCell], window_s: float | None) -> Advice:
    """Choose the gentlest that fits a window, or else the fastest that holds no more than the own.

    Nothing that goes beyond what was recorded is chosen; where only that would do, it is said what
    would have to be recorded.

    Args:
        played: the cells of one run, its own among them.
        window_s: seconds; None where nobody gave any.
    """
    own = next(n for n, one in enumerate(played) if one.own)
    if played[own].beyond:  # too little was recorded for anything
        return Advice(None, "; ".join(played[own].beyond), own)
    within = [n for n, one in enumerate(played) if not one.beyond]
    if window_s is None:
        return _fastest(played, within)
    fits = [n for n in within if played[n].high_s <= window_s]
    window = as_duration(window_s)
    if not fits:
        soonest = min(within, key=lambda n: played[n].high_s)
        told = f"none fits {window}; the soonest is {_told(played[soonest])}"
        others = [one for one in played if one.beyond and one.high_s <= window_s]
        return Advice(None, told + _might(others, "fit"), soonest)
    best = min(fits, key=lambda n: _gentle(played[n]))
    told = f"the fewest at once of the {len(fits):,} that fit {window}: {_told(played[best])}"
    return Advice(best, told, best)


def _fastest(played: Sequence[PlayedCell], within: Sequence[int]) -> Advice:
    own = next(one for one in played if one.own)
    most = own.peak_extra_replicas
    held = [n for n in within if played[n].peak_extra_replicas <= most]
    soonest = min(played[n].predicted_s for n in held)
    alike = [n for n in held if played[n].predicted_s <= _ALIKE * soonest]
    best = min(alike, key=lambda n: (_gentle(played[n]), not played[n].own))
    told = f"the gentlest of the fastest that hold {most:,} extra replicas at most, as the run did"
    others = [
        one
        for one in played
        if one.beyond and one.peak_extra_replicas <= most and one.predicted_s * _ALIKE < soonest
    ]
    return Advice(best, f"{told}: {_told(played[best])}{_might(others, 'be faster')}", best)


def _might(others: Sequence[PlayedCell], do: str) -> str:
    """Say what would have to be recorded for others to be advised; no time is told of them."""
    if not others:
        return ""
    nearest = min(others, key=lambda one: (len(one.beyond), one.predicted_s))
    return f"; others might {do}, beyond what was recorded: {'; '.join(nearest.beyond)}"


def _gentle(one: PlayedCell) -> tuple[float, ...]:
    """Sort the gentlest first: by partitions at once, replicas, and what goes into a broker."""
    limits = one.cell.limits
    counts = (limits.partitions, limits.replicas, limits.per_broker, limits.replica_movements)
    return (*(math.inf if count is None else count for count in counts), one.broker_bytes_s)


def _told(one: PlayedCell) -> str:
    low, high = as_duration(one.low_s), as_duration(one.high_s)
    return f"{as_duration(one.predicted_s)} ({low} to {high})"


def _at(run: Schedule, rate: float) -> float:
    """Tell the time at another rate: what goes with it is the copying."""
    return run.copying_s / rate + run.waiting_s


class _Most:
    """Remembers the highest rate that was asked for, and for how many replicas at once."""

    def __init__(self, bytes_s: Callable[[int, int], float]) -> None:
        self._bytes_s = bytes_s
        self.seen = 0.0
        self.fewest_at_once = 0
        """None were asked for yet."""
        self.most_at_once = 0

    def bytes_s(self, broker: int, at_once: int) -> float:
        rate = self._bytes_s(broker, at_once)
        self.fewest_at_once = min(self.fewest_at_once or at_once, at_once)
        self.most_at_once = max(self.most_at_once, at_once)
        self.seen = max(self.seen, rate)
        return rate


def _state(planned: Planned) -> PartitionState:
    return PartitionState(
        planned.tp, planned.topic_id, planned.original, planned.original, _leader(planned)
    )


def _leader(planned: Planned) -> int:
    led = planned.leader in planned.original
    return planned.leader if led and planned.leader is not None else planned.original[0]


def recorded_run(name: str, events: Iterable[AnyRunEvent]) -> PlayableRun:
    """Read a run from the events of its journal, in their order."""
    run = PlayableRun(name)
    for event in events:
        run.take(event)
    return run
