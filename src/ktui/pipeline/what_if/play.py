"""Simulate a recorded run under its own limits and under others."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
from msgspec.structs import force_setattr

from ktui.cluster.broker import Broker
from ktui.cluster.partition import PartitionState, Replica
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    LimitsChanged,
    Outage,
    Owned,
    Paused,
    Planned,
    PlannedPart,
    Recovered,
    Started,
    StepGate,
    ThrottleChanged,
)
from ktui.insights.curve import RateCurve
from ktui.pacing.limits import Limits
from ktui.pipeline.what_if.driven import DrivenIntakes, Intake
from ktui.pipeline.what_if.evidence import SimulatedUse, beyond_evidence, missing_evidence
from ktui.pipeline.what_if.grid import GridCell
from ktui.pipeline.what_if.model import Model
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import WINDOW_S, ThrottleRates
from ktui.preview.moves import Moves, moves_of
from ktui.speed.simulate import (
    RestOfRun,
    RunSpeed,
    SimulatedOutcome,
    StepOverhead,
    simulate_rest_of_run,
    simulate_run,
)

_UNSTEADY = (LimitsChanged, ThrottleChanged, Paused, Outage, Added, Recovered)
"""A run with one of these events did not keep one set of limits from its first step to its last."""


class PlayableRun(msgspec.Struct):
    """The facts needed to simulate a run."""

    name: str = ""
    cell: GridCell = GridCell(Limits())
    """The run's own limits and throttle, at its start, or the rates that its promises chose."""
    known: bool = False
    """Whether `cell` is known: the recording has the run's start."""
    planned: list[Planned] = msgspec.field(default_factory=list)
    steady: bool = True
    """Whether the run kept its limits and was never paused, held up, resumed or added to."""
    driven_by: str = ""
    """The promises that chose its rates: by, objective, or both; empty for none."""
    owned: bool = False
    """Whether an engine has taken the run on."""

    def take(self, event: AnyRunEvent) -> None:
        """Add the next event of the run's journal."""
        if isinstance(event, Started):
            throttle = msgspec.structs.replace(event.options.throttle, objective=None)
            self.cell, self.known = GridCell(event.limits, throttle), True
        elif isinstance(event, Owned):
            self.steady, self.owned = self.steady and not self.owned, True
        elif isinstance(event, PlannedPart):
            self.planned += event.partitions
        elif isinstance(event, _UNSTEADY) or (isinstance(event, StepGate) and event.shut):
            self.steady = False

    def moves(self) -> Moves:
        """Compute the plan's moves on the cluster as it was at the run's start, all brokers up."""
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


class SimulatedCell(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated result for one cell."""

    cell: GridCell
    own: bool
    """Whether the cell is the run's own."""
    predicted_s: float
    low_s: float
    """At most the predicted time; the record sees to that, and to the next one."""
    high_s: float
    """At least the predicted time."""
    partitions_at_once: int
    """The most partitions in flight at one time."""
    peak_extra_replicas: int
    batches: int
    broker_bytes_s: float
    """The highest rate into one broker, bytes a second."""
    actual_s: float | None = None
    """What the run really took, of its own cell; None for others, and where it has not ended."""
    driven_by: str | None = None
    """The promises that chose the rates of the run as it was; None for none, and other cells."""
    by_s: float | None = None
    """Seconds from the run's first step to the time of --by; None without, and for other cells."""
    beyond: tuple[str, ...] = ()
    """Why the cell is not advised, by the rules of `evidence`; empty where it may be."""
    assumed: tuple[str, ...] = ()
    """The figures behind the times that no recording shows."""

    def __post_init__(self) -> None:
        """Let the range hold the predicted time, which advice compares with both of its ends."""
        force_setattr(self, "low_s", min(self.low_s, self.predicted_s))
        force_setattr(self, "high_s", max(self.high_s, self.predicted_s))

    @property
    def took_s(self) -> float:
        """The shorter of what a run really took and what is predicted for it, seconds."""
        return self.predicted_s if self.actual_s is None else min(self.predicted_s, self.actual_s)


def simulate_cell(
    moves: Moves, cell: GridCell, model: Model, *, own: bool = False
) -> SimulatedCell:
    """Simulate a run under some limits and a throttle."""
    throttle, most = cell.throttle.shared_evenly(moves.bytes_in), _Most()
    if cell.driven:
        run = _simulate_driven(moves, cell, model, most)
    else:
        tempo = model.tempo(throttle)
        speed = RunSpeed(most.seen_by(tempo.bytes_s), tempo.joining_s, tempo.other_s)
        run = simulate_run(moves.wanted, cell.limits, speed)
    use = SimulatedUse(
        throttle=throttle,
        broker_bytes_s=most.seen,
        fewest_at_once=most.fewest_at_once or model.seen.fewest_at_once,
        most_at_once=most.most_at_once,
        partitions=run.most_in_flight,
    )
    further = () if own else beyond_evidence(use, model.seen)  # the run really used its own cell
    return SimulatedCell(
        cell=cell,
        own=own,
        predicted_s=run.copying_s + run.waiting_s,
        low_s=min(_at(run, model.curve.high), _soonest_s(run, moves, throttle, model.curve)),
        high_s=_at(run, model.curve.low),
        partitions_at_once=run.most_in_flight,
        peak_extra_replicas=run.peak_extra_replicas,
        batches=run.batches,
        broker_bytes_s=most.seen,
        beyond=(*missing_evidence(model.seen), *further),
        assumed=model.assumptions(throttle, tuple(moves.bytes_in)),
    )


def _simulate_driven(moves: Moves, cell: GridCell, model: Model, most: _Most) -> SimulatedOutcome:
    spans = [(each.seconds, most.seen_by(model.tempo(each.rates).bytes_s)) for each in cell.driven]
    overhead = StepOverhead(model.joining_s, model.other_s)
    rest = RestOfRun((), moves.wanted)
    return simulate_rest_of_run(rest, cell.limits, overhead, DrivenIntakes(spans))


def _at(run: SimulatedOutcome, rate: float) -> float:
    """Return the duration at another rate, in seconds: only the copying scales with the rate."""
    return run.copying_s / rate + run.waiting_s


def _soonest_s(
    run: SimulatedOutcome, moves: Moves, throttle: ThrottleRates, curve: RateCurve
) -> float:
    """Return the duration if brokers take in at once what throttles left them before, in seconds.

    Kafka averages the traffic of a throttle over `WINDOW_S`. So after some idle seconds a broker
    takes in, as fast as it can, what its throttle would have let through in these.
    """
    limits = {broker: throttle.of(broker) for broker in moves.bytes_in}
    held_up = {
        broker: limit
        for broker, limit in limits.items()
        if limit is not None and curve.bytes_s(1, limit) < curve.bytes_s(1, None)
    }
    busy_s = sum(moves.bytes_in[b] / curve.bytes_s(1, limit) for b, limit in held_up.items())
    if not busy_s:
        return math.inf
    copies = sum(b in held_up for each in moves.wanted for b in each.situation.missing)
    idle_s = max(0.0, (run.copying_s + run.waiting_s) * len(held_up) - busy_s)
    saved_s = min(idle_s, copies * WINDOW_S, busy_s)
    least_s = max(moves.bytes_in[b] / limit for b, limit in held_up.items()) - WINDOW_S
    return max(least_s, run.copying_s * (1 - saved_s / busy_s) + run.waiting_s)


class _Most:
    """Remembers the highest rate that was asked for, and the numbers of replicas at once."""

    def __init__(self) -> None:
        self.seen = 0.0
        self.fewest_at_once = 0
        """0 until the first call."""
        self.most_at_once = 0

    def seen_by(self, bytes_s: Intake) -> Intake:
        """Return the same intake, and remember what is asked of it."""

        def seen(broker: int, at_once: int) -> float:
            rate = bytes_s(broker, at_once)
            self.fewest_at_once = min(self.fewest_at_once or at_once, at_once)
            self.most_at_once = max(self.most_at_once, at_once)
            self.seen = max(self.seen, rate)
            return rate

        return seen


def _state(planned: Planned) -> PartitionState:
    return PartitionState(
        planned.tp, planned.topic_id, planned.original, planned.original, _leader(planned)
    )


def _leader(planned: Planned) -> int:
    led = planned.leader in planned.original
    return planned.leader if led and planned.leader is not None else planned.original[0]


def playable_run(name: str, events: Iterable[AnyRunEvent]) -> PlayableRun:
    """Build a run from the events of its journal, in order."""
    run = PlayableRun(name)
    for event in events:
        run.take(event)
    return run
