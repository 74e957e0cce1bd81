"""The figures of a plan on a cluster under some limits, before anything is sent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.errors import Operation
from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import WantedPartition
from ktui.pacing.limits import SHAPES, Limits, Shape, order_without_gentle
from ktui.planning.check.coordinators import CoordinatorMoves, coordinator_moves
from ktui.planning.check.disks import (
    DiskLoad,
    disk_of,
    disk_warnings,
    log_dir_warnings,
    warning,
)
from ktui.planning.check.findings import ClusterSnapshot, Finding, FindingKind, Severity
from ktui.planning.names import join_some
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import NO_THROTTLE, BrokerRate, ThrottleRates
from ktui.preview.broker_shares import BrokerShare, broker_shares
from ktui.preview.moves import moves_of
from ktui.preview.step_cost import StepPatterns
from ktui.preview.summary import PlanSummary, summarise
from ktui.preview.throttle_findings import throttle_findings
from ktui.preview.throttled_run import GrowingPartitions, ThrottledRun
from ktui.speed.answer import Bound, HowLong, Span
from ktui.speed.capacity import MANY, Capacity, Case, Rates, with_present_rates
from ktui.speed.least_time import least_time
from ktui.speed.simulate import (
    OnDecision,
    RestOfRun,
    SimulatedOutcome,
    StepOverhead,
    simulate_rest_of_run,
)

MOST_COMPARED = 500
"""The size of the sample of a larger plan, for the peak of the shape that is not in force."""


class ShapeCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of the plan in one shape, under the limits."""

    shape: Shape
    alters: int
    elections: int
    leader_epoch_bumps: int
    most_replicas: int
    """The most replicas that one partition holds at once."""
    peak_extra_replicas: int
    """The most extra replicas at one time, over all partitions.

    Extra replicas are those beyond both a partition's present and its final number.
    """


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a plan on a cluster under some limits."""

    limits: Limits
    summary: PlanSummary
    bytes_to_copy: int | None
    """None if a partition's size is not known."""
    sizes_unknown: int
    """The number of partitions with unknown size among those that copy something."""
    brokers: tuple[DiskLoad, ...]
    shares: tuple[BrokerShare, ...]
    """Replicas and leaders of every broker, before and after."""
    shapes: tuple[ShapeCost, ...]
    """Both shapes, for comparison; the limits decide which is in force."""
    batches: int
    """Decisions that submit moves; in wave mode, waves.

    The number depends on the rate. A partition with unknown size counts as if empty.
    """
    how_long: HowLong | None
    """None if sizes are not known."""
    throttled: tuple[BrokerRate, ...]
    """The throttles of brokers that gain replicas, which the time counts with."""
    coordinators: CoordinatorMoves | None
    """None if no partition of an internal topic gets another leader."""
    warnings: tuple[Finding, ...]
    """Warnings and notes, in addition to the findings of `check_plan`."""

    @property
    def time_s(self) -> Span | None:
        """The seconds that the run takes; None if sizes are not known."""
        return None if self.how_long is None else self.how_long.time_s

    @property
    def bound(self) -> Bound | None:
        """The least time of any run; None if nothing is copied, or sizes are not known."""
        return None if self.how_long is None else self.how_long.pacesetter

    @property
    def in_force(self) -> ShapeCost:
        """The cost of the shape in force."""
        return next(cost for cost in self.shapes if cost.shape is self.limits.shape)


def preflight(
    plan: Plan,
    snapshot: ClusterSnapshot,
    limits: Limits,
    known: Capacity | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
    *,
    throttle_leaders: bool = False,
    slow: bool = False,
) -> Preflight:
    """Compute the figures of a plan; use `PreflightBase` for limits that change.

    Args:
        plan: the plan to preview.
        snapshot: the cluster, as read by `snapshot.take_snapshot`.
        limits: the limits in force.
        known: what is known of the speed of copies; None for nothing.
        throttle: the run's own rates.
        throttle_leaders: whether these rates also throttle leaders.
        slow: whether rates under which no copy ends are no problem.
    """
    ground = PreflightBase(plan, snapshot, known)
    return ground.under(limits, throttle=throttle, throttle_leaders=throttle_leaders, slow=slow)


class PreflightBase:
    """The parts of a preflight that depend on neither limits nor throttle, computed once.

    `under` simulates the whole run under some limits and a throttle, at about 30 microseconds per
    step. Memory is about 500 bytes per moving partition.
    """

    def __init__(
        self, plan: Plan, snapshot: ClusterSnapshot, known: Capacity | None = None
    ) -> None:
        self._snapshot = snapshot
        self._summary = summarise(plan, snapshot)
        self._shares = broker_shares(plan, snapshot)
        self._coordinators = coordinator_moves(plan, snapshot)
        self._moves = moves_of(plan, snapshot)
        self._gains = {each.broker: each.gains for each in self._summary.brokers if each.gains}
        self.known = Capacity() if known is None else known
        self._warnings = (*log_dir_warnings(self._gains, snapshot.log_dirs), *self._unreadable())
        self._sample = _sample(self._moves.wanted)
        self._growing = GrowingPartitions(snapshot, self._moves.wanted)
        largest = max((one.size for one in self._growing.wanted), default=0)
        self._case = Case(tuple(self._gains), largest, len(snapshot.brokers))

    def under(
        self,
        limits: Limits,
        on_decision: OnDecision | None = None,
        throttle: ThrottleRates = NO_THROTTLE,
        *,
        throttle_leaders: bool = False,
        slow: bool = False,
    ) -> Preflight:
        """Compute the figures under some limits and a throttle.

        Args:
            limits: the limits in force.
            on_decision: called for each decision of the run.
            throttle: the run's own rates.
            throttle_leaders: whether these rates also throttle leaders.
            slow: whether rates under which no copy ends are no problem.
        """
        snapshot = self._snapshot
        in_force = throttle.shared_evenly(self._gains)
        rates = self._rates(in_force)
        inbound = snapshot.inbound if throttle else None
        run = self._simulate(self._moves.wanted, limits, rates, on_decision, inbound)
        loads = tuple(self._loads(run))
        shapes = [self._cost(limits, run.peak_extra_replicas)]
        for shape in SHAPES:
            if shape is not limits.shape:
                other = _shaped(limits, shape)
                shapes.append(self._cost(other, self._peak_extra(other, rates)))
        known = not self._moves.sizes_unknown
        warnings = [*self._warnings, *disk_warnings(loads), *self._never_fit(limits)]
        warnings += self._held_by_cordons(limits)
        if throttle:
            throttled = ThrottledRun(
                self._growing,
                in_force,
                limits,
                run,
                leaders=throttle_leaders,
                asked=throttle,
                slow=slow,
            )
            warnings += throttle_findings(throttled)
        return Preflight(
            limits=limits,
            summary=self._summary,
            bytes_to_copy=self._moves.bytes_to_copy if known else None,
            sizes_unknown=self._moves.sizes_unknown,
            brokers=loads,
            shares=self._shares,
            shapes=tuple(shapes),
            batches=run.batches,
            how_long=self._how_long(run, limits, rates) if known else None,
            throttled=rates.limits_of(self._gains),
            coordinators=self._coordinators,
            warnings=tuple(warnings),
        )

    def _cost(self, limits: Limits, peak_extra: int) -> ShapeCost:
        patterns = StepPatterns(limits)
        costs = [
            (len(alike), patterns.cost(pattern)) for pattern, alike in self._moves.patterns.items()
        ]
        return ShapeCost(
            shape=limits.shape,
            alters=sum(count * cost.alters for count, cost in costs),
            elections=sum(count * cost.elections for count, cost in costs),
            leader_epoch_bumps=sum(count * cost.leader_epoch_bumps for count, cost in costs),
            most_replicas=max((cost.most_replicas for _, cost in costs), default=0),
            peak_extra_replicas=peak_extra,
        )

    def _rates(self, in_force: ThrottleRates) -> Rates:
        """Return the rates of copies: by the operator, the throttles, and what is known."""
        configs = self._snapshot.broker_configs if self.known.given is None else {}
        throttle = with_present_rates(in_force, self._gains, configs)
        return self.known.under(throttle, self._case)

    def _simulate(
        self,
        wanted: Sequence[WantedPartition],
        limits: Limits,
        rates: Rates,
        on_decision: OnDecision | None = None,
        inbound: Mapping[TopicPartition, int] | None = None,
    ) -> SimulatedOutcome:
        whole = RestOfRun((), wanted)
        return simulate_rest_of_run(
            whole, limits, StepOverhead(self.known.joining_s), rates.copies(), on_decision, inbound
        )

    def _peak_extra(self, limits: Limits, rates: Rates) -> int:
        """Estimate the peak of a large plan from a sample.

        A peak bound by limits is the same in the sample. If all partitions begin at once, the peak
        grows with the plan.
        """
        sampled = self._sample
        run = self._simulate(sampled, limits, rates)
        if 2 * run.most_in_flight < len(sampled):
            return run.peak_extra_replicas
        return run.peak_extra_replicas * len(self._moves.wanted) // max(1, len(sampled))

    def _how_long(self, run: SimulatedOutcome, limits: Limits, rates: Rates) -> HowLong:
        """Return how long it takes: with the range of the broker that takes in its copies last."""
        copying, waiting = Span(0.0, 0.0, 0.0), run.waiting_s
        received = {broker: size for broker, size in self._moves.bytes_in.items() if size}
        if received:
            busiest = max(received, key=lambda broker: received[broker] / rates.takes(broker, MANY))
            copying = rates.time_s(run.copying_s, busiest)
        return HowLong(
            time_s=Span(copying.low + waiting, copying.middle + waiting, copying.high + waiting),
            basis=rates.basis,
            pacesetter=least_time(self._moves.wanted, limits, rates),
            copying_s=run.copying_s,
            waiting_s=waiting,
            batches=run.batches,
        )

    def _loads(self, run: SimulatedOutcome) -> Iterator[DiskLoad]:
        moved = self._moves
        for change in self._summary.brokers:
            broker = change.broker
            known = not moved.unknown[broker]
            disk = disk_of(self._snapshot.log_dirs.get(broker, ()))
            bytes_in, bytes_out = moved.bytes_in[broker], moved.bytes_out[broker]
            room = disk.room if known else None
            yield DiskLoad(
                broker=broker,
                gains=change.gains,
                loses=change.loses,
                bytes_in=bytes_in if known else None,
                bytes_out=bytes_out if known else None,
                disk_bytes=disk.total,
                room_bytes=disk.room,
                room_after_bytes=None if room is None else room - bytes_in + bytes_out,
                room_at_peak_bytes=None if room is None else room - run.peak_bytes[broker],
            )

    def _held_by_cordons(self, limits: Limits) -> Iterator[Finding]:
        """Warn of partitions that cannot leave a cordoned broker: too few would be in sync."""
        patterns, wanted = StepPatterns(limits), self._moves.wanted
        held: dict[int, list[TopicPartition]] = {}
        for pattern, alike in self._moves.patterns.items():
            steps = patterns.steps(pattern) if pattern.closed else ()
            if pattern.closed and not (steps and steps[-1].target == pattern.target):
                for each in (wanted[index] for index in alike):
                    for broker in each.situation.closed.intersection(each.situation.replicas):
                        held.setdefault(broker, []).append(each.tp)
        for broker, partitions in sorted(held.items()):
            text = (
                f"broker {broker} is cordoned, and without it fewer would be in sync than "
                f"min.insync.replicas: the run waits with {join_some(sorted(partitions))} until "
                f"you lift the cordon with ktui broker uncordon {broker}"
            )
            yield Finding(Severity.WARNING, FindingKind.CORDONED, tuple(sorted(partitions)), text)

    def _never_fit(self, limits: Limits) -> Iterator[Finding]:
        """Warn of partitions with a step that adds more than M, and so runs alone."""
        most = limits.replica_movements
        if most is None:
            return
        patterns, wanted = StepPatterns(limits), self._moves.wanted
        alone = sorted(
            index
            for pattern, alike in self._moves.patterns.items()
            if patterns.cost(pattern).most_adds > most
            for index in alike
        )
        if alone:
            partitions = tuple(wanted[index].tp for index in alone)
            sentence = (
                f"a step adds more replicas than --replica-movements {most} allows, and goes "
                f"alone, when nothing else moves: {join_some(partitions)}"
            )
            yield Finding(Severity.WARNING, FindingKind.NEVER_FITS, partitions, sentence)

    def _unreadable(self) -> Iterator[Finding]:
        failed = [f for f in self._snapshot.failures if f.operation is Operation.LOG_DIRS]
        if not failed:
            return
        brokers = join_some(f"broker {failure.broker}" for failure in failed)
        unknown = self._moves.sizes_unknown
        lost = f", so {sizes_phrase(unknown)} not known" if unknown else ""
        sentence = f"the log dirs of {brokers} could not be read{lost}: {failed[0].answer}"
        yield warning(FindingKind.DISKS_UNREADABLE, sentence)


def sizes_phrase(partitions: int) -> str:
    """Return the start of a sentence about sizes: "the size of 1 partition is"."""
    return (
        "the size of 1 partition is"
        if partitions == 1
        else f"the sizes of {partitions:,} partitions are"
    )


def _sample(wanted: list[WantedPartition]) -> list[WantedPartition]:
    """Draw the same random sample at every call, whatever pattern the plan's order has."""
    if len(wanted) <= MOST_COMPARED:
        return wanted
    sampled = random.Random(0).sample(range(len(wanted)), MOST_COMPARED)  # noqa: S311 - no secret
    return [wanted[index] for index in sorted(sampled)]


def _shaped(limits: Limits, shape: Shape) -> Limits:
    """The same limits in one of the shapes: some belong to gentle."""
    if shape is Shape.GENTLE:
        return msgspec.structs.replace(limits, shape=shape)
    order = order_without_gentle(limits.order)
    return msgspec.structs.replace(
        limits, shape=shape, extra_replicas=None, cut_together=None, order=order
    )
