"""What a plan would do to a cluster under given limits, in figures, before anything is sent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import msgspec

from ktui.cluster.errors import Operation
from ktui.pacing.decision import WantedPartition
from ktui.pacing.limits import Limits, Shape
from ktui.planning.check.disks import (
    DiskLoad,
    disk_of,
    disk_warnings,
    log_dir_warnings,
    warning,
)
from ktui.planning.check.findings import ClusterSnapshot, Finding, FindingKind, Severity
from ktui.planning.names import among
from ktui.planning.plan import Plan
from ktui.planning.preflight.moves import moves_of
from ktui.planning.preflight.summary import PlanSummary, summarise
from ktui.planning.preflight.throttle_findings import throttle_findings
from ktui.planning.preflight.throttled_run import Growing, ThrottledRun
from ktui.planning.simulate.copy_rates import CopyRates, Span, rates_for
from ktui.planning.simulate.schedule import OnDecision, Schedule, Tempo, schedule
from ktui.planning.simulate.step_cost import StepPatterns
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.units import Rate

MOST_COMPARED = 500
"""Of a larger plan so many partitions are drawn, to see what the shape that is not in force holds
at its peak."""


class ShapeCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan costs in one shape, under the limits."""

    shape: Shape
    alters: int
    elections: int
    leader_epoch_bumps: int
    most_replicas: int
    """The most that one partition holds at once."""
    peak_extra_replicas: int
    """The most at one time, over all partitions: replicas that a partition has beyond both what
    it has now and what it will have."""


class Bound(msgspec.Struct, frozen=True):
    """No run can be faster than the broker that has the most to copy for its rate."""

    broker: int
    time_s: Span


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one plan on one cluster under some limits."""

    limits: Limits
    summary: PlanSummary
    bytes_to_copy: int | None
    """None where a partition's size is not known."""
    sizes_unknown: int
    """Partitions that copy something, and whose size is not known."""
    brokers: tuple[DiskLoad, ...]
    shapes: tuple[ShapeCost, ...]
    """Both, so that they can be compared; the one in force is the limits'."""
    batches: int
    """Decisions that submit something; in wave mode, waves. They go with the rate; where a size is
    not known, they are as many as if there were nothing to copy."""
    time_s: Span | None
    """From the fastest rate to the slowest; None where sizes are not known."""
    rates: CopyRates
    bound: Bound | None
    """None where nothing is copied, or sizes are not known."""
    warnings: tuple[Finding, ...]
    """Beside those of `check_plan`, with a note at most."""

    @property
    def in_force(self) -> ShapeCost:
        """The cost in the limits' shape."""
        return next(cost for cost in self.shapes if cost.shape is self.limits.shape)


def preflight(
    plan: Plan,
    snapshot: ClusterSnapshot,
    limits: Limits,
    assume: Rate | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
    *,
    throttle_leaders: bool = False,
) -> Preflight:
    """Work out all figures; `Ground` does it for limits that change.

    Args:
        plan: what is asked for.
        snapshot: the cluster, as `snapshot.take_snapshot` reads it.
        limits: those in force.
        assume: bytes a second into each broker; None takes throttles, else a range.
        throttle: the run's own rates.
        throttle_leaders: whether they bind what leaders send, too.
    """
    ground = Ground(plan, snapshot, assume)
    return ground.under(limits, throttle=throttle, throttle_leaders=throttle_leaders)


class Ground:
    """What depends on neither limits nor throttle, worked out once for all of them.

    `under` plays the whole run under some limits and a throttle, at some 30 microseconds a step.
    It all takes some 500 bytes for each partition that moves.
    """

    def __init__(self, plan: Plan, snapshot: ClusterSnapshot, assume: Rate | None = None) -> None:
        self._snapshot = snapshot
        self._summary = summarise(plan, snapshot)
        self._moved = moves_of(plan, snapshot)
        self._gains = {each.broker: each.gains for each in self._summary.brokers if each.gains}
        self._assume = assume
        self._warnings = (*log_dir_warnings(self._gains, snapshot.log_dirs), *self._unreadable())
        self._drawn = _drawn(self._moved.wanted)
        self._growing = Growing(snapshot, self._moved.wanted)

    def under(
        self,
        limits: Limits,
        told: OnDecision | None = None,
        throttle: ThrottleRates = NO_THROTTLE,
        *,
        throttle_leaders: bool = False,
    ) -> Preflight:
        """Work out the figures under some limits and a throttle.

        Args:
            limits: those in force.
            told: hears of each decision of the run.
            throttle: the run's own rates.
            throttle_leaders: whether they bind what leaders send, too.
        """
        snapshot = self._snapshot
        rates = rates_for(self._gains, snapshot.broker_configs, self._assume, throttle)
        inbound = snapshot.inbound if throttle else None
        run = schedule(self._moved.wanted, limits, _tempo(rates), told, inbound)
        loads = tuple(self._loads(run))
        shapes = [self._cost(limits, run.peak_extra_replicas)]
        for shape in Shape:
            if shape is not limits.shape:
                other = _shaped(limits, shape)
                shapes.append(self._cost(other, self._peak_extra(other, rates)))
        known = not self._moved.sizes_unknown
        bound = self._busiest(rates)
        warnings = [*self._warnings, *disk_warnings(loads), *self._never_fit(limits)]
        if throttle:
            throttled = ThrottledRun(self._growing, throttle, limits, run, leaders=throttle_leaders)
            warnings += throttle_findings(throttled)
        return Preflight(
            limits=limits,
            summary=self._summary,
            bytes_to_copy=self._moved.bytes_to_copy if known else None,
            sizes_unknown=self._moved.sizes_unknown,
            brokers=loads,
            shapes=tuple(shapes),
            batches=run.batches,
            time_s=_time(run, bound, rates) if known else None,
            rates=rates,
            bound=bound,
            warnings=tuple(warnings),
        )

    def _cost(self, limits: Limits, peak_extra: int) -> ShapeCost:
        ways = StepPatterns(limits)
        costs = [
            (len(alike), ways.cost(pattern)) for pattern, alike in self._moved.patterns.items()
        ]
        return ShapeCost(
            shape=limits.shape,
            alters=sum(count * cost.alters for count, cost in costs),
            elections=sum(count * cost.elections for count, cost in costs),
            leader_epoch_bumps=sum(count * cost.leader_epoch_bumps for count, cost in costs),
            most_replicas=max((cost.most_replicas for _, cost in costs), default=0),
            peak_extra_replicas=peak_extra,
        )

    def _peak_extra(self, limits: Limits, rates: CopyRates) -> int:
        """Tell the peak of a large plan from that of a part of it.

        What limits bind is the same in the part; what all begin at once grows with the plan.
        """
        drawn = self._drawn
        run = schedule(drawn, limits, _tempo(rates))
        if 2 * run.most_in_flight < len(drawn):
            return run.peak_extra_replicas
        return run.peak_extra_replicas * len(self._moved.wanted) // max(1, len(drawn))

    def _busiest(self, rates: CopyRates) -> Bound | None:
        moved = self._moved
        if moved.sizes_unknown or not moved.bytes_to_copy:
            return None
        seconds, broker = max((b / rates.of(at), at) for at, b in moved.bytes_in.items())
        return Bound(broker, _range(seconds, broker, rates))

    def _loads(self, run: Schedule) -> Iterator[DiskLoad]:
        moved = self._moved
        for change in self._summary.brokers:
            broker = change.broker
            known = not moved.unknown[broker]
            disk = disk_of(self._snapshot.log_dirs.get(broker, ()))
            come, go = moved.bytes_in[broker], moved.bytes_out[broker]
            room = disk.room if known else None
            yield DiskLoad(
                broker=broker,
                gains=change.gains,
                loses=change.loses,
                bytes_in=come if known else None,
                bytes_out=go if known else None,
                disk_bytes=disk.total,
                room_bytes=disk.room,
                room_after_bytes=None if room is None else room - come + go,
                room_at_peak_bytes=None if room is None else room - run.peak_bytes[broker],
            )

    def _never_fit(self, limits: Limits) -> Iterator[Finding]:
        """Name those with a step that adds more than M: it goes when nothing else does."""
        most = limits.replica_movements
        if most is None:
            return
        ways, wanted = StepPatterns(limits), self._moved.wanted
        alone = sorted(
            index
            for pattern, alike in self._moved.patterns.items()
            if ways.cost(pattern).most_adds > most
            for index in alike
        )
        if alone:
            partitions = tuple(wanted[index].tp for index in alone)
            told = (
                f"a step adds more replicas than --replica-movements {most} lets, and goes alone, "
                f"when nothing else moves: {among(partitions)}"
            )
            yield Finding(Severity.WARNING, FindingKind.NEVER_FITS, partitions, told)

    def _unreadable(self) -> Iterator[Finding]:
        failed = [f for f in self._snapshot.failures if f.operation is Operation.LOG_DIRS]
        if not failed:
            return
        who = among(f"broker {failure.broker}" for failure in failed)
        unknown = self._moved.sizes_unknown
        lost = f", so {sizes_of(unknown)} not known" if unknown else ""
        told = f"the log dirs of {who} could not be read{lost}: {failed[0].answer}"
        yield warning(FindingKind.DISKS_UNREADABLE, told)


def _tempo(rates: CopyRates) -> Tempo:
    """Let each broker take in its rate, however many replicas it is adding."""
    of = cache(rates.of)
    return Tempo(lambda broker, _at_once: of(broker))


def _time(run: Schedule, bound: Bound | None, rates: CopyRates) -> Span:
    """Tell the time at the slow and the fast rate from that at the middle one."""
    copying = Span(0.0, 0.0, 0.0)
    if bound is not None:
        copying = _range(run.copying_s, bound.broker, rates)
    waiting = run.waiting_s
    return Span(copying.low + waiting, copying.middle + waiting, copying.high + waiting)


def _range(seconds: float, broker: int, rates: CopyRates) -> Span:
    spread = rates.spread(broker)
    return Span(seconds / spread.high, seconds, seconds / spread.low)


def sizes_of(partitions: int) -> str:
    """Begin to say something of sizes: "the size of 1 partition is"."""
    return (
        "the size of 1 partition is"
        if partitions == 1
        else f"the sizes of {partitions:,} partitions are"
    )


def _drawn(wanted: list[WantedPartition]) -> list[WantedPartition]:
    """Draw the same partitions at every call, with no regard to how they follow each other."""
    if len(wanted) <= MOST_COMPARED:
        return wanted
    drawn = random.Random(0).sample(range(len(wanted)), MOST_COMPARED)  # noqa: S311 - no secret
    return [wanted[index] for index in sorted(drawn)]


def _shaped(limits: Limits, shape: Shape) -> Limits:
    """Give the same limits in one of the shapes: E and C belong to gentle."""
    if shape is Shape.GENTLE:
        return msgspec.structs.replace(limits, shape=shape)
    return msgspec.structs.replace(limits, shape=shape, extra_replicas=None, cut_together=None)
