"""One preview of a plan: what it moves and costs, how long it takes, what speaks against it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import inf
from typing import Self

import msgspec
from msgspec import UNSET, UnsetType

from ktui.cluster.errors import Operation
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import SHAPES, Limits, Shape, order_without_gentle
from ktui.pacing.situation import WantedPartition
from ktui.planning.check.check import CoordinatorMoves, check_plan, coordinator_moves
from ktui.planning.check.findings import (
    LOW,
    TO_START,
    Allowances,
    Finding,
    FindingKind,
    NeededPermission,
    Severity,
    disk_of,
    log_dir_warnings,
    missing_permissions,
    warning,
)
from ktui.planning.plan import Plan, join_some
from ktui.planning.throttle_rates import ThrottleRates
from ktui.preview.facts import (
    BrokerShare,
    ClusterFacts,
    PartitionSteps,
    PlanSummary,
    StepPatterns,
    Terms,
    broker_shares,
    moves_of,
    summarise,
)
from ktui.preview.throttle_findings import GrowingPartitions, ThrottledRun, throttle_findings
from ktui.quantities import Rate, as_bytes
from ktui.speed.answer import HowLong
from ktui.speed.capacity import Capacity, Case, Rates, with_present_rates
from ktui.speed.least_time import least_time
from ktui.speed.simulate import (
    OnDecision,
    RestOfRun,
    SimulatedOutcome,
    StepOverhead,
    simulate_in_bundles,
    simulate_rest_of_run,
)

_SEVERITIES = (*Severity,)
MOST_COMPARED = 500
"""The size of the sample of a larger plan, for the peak of the shape that is not in force."""
_EVERY_NTH = 5  # while limits are typed, every fifth of them is enough
_EXACT = 1_000  # up to so many partitions, a preview while limits are typed is exact, too


class ShapeCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of the plan in one shape, under the limits."""

    shape: Shape
    alters: int
    elections: int
    leader_epoch_bumps: int
    most_replicas: int
    peak_extra_replicas: int  # beyond partitions' present and final numbers, in all


class BrokerPreview(BrokerShare, frozen=True, kw_only=True):
    """A broker before and after a plan. Bytes; None where not known."""

    bytes_in: int | None
    bytes_out: int | None
    throttle_bytes_s: int | None
    disk_bytes: int | None
    room_bytes: int | None  # free bytes now, in the log dirs that work and are not cordoned
    room_after_bytes: int | None  # free bytes afterwards; a negative figure is lacking
    room_at_peak_bytes: int | None  # the least, while some old replicas are still there


class PlanPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A plan on a cluster under some terms, before anything is sent; its JSON is a contract."""

    schema_version: int = 1
    plan: str
    cluster: str
    findings: tuple[Finding, ...]
    summary: PlanSummary
    bytes_to_copy: int | None  # None if a partition's size is not known
    sizes_unknown: int  # of partitions that copy something
    limits: Limits
    throttle: ThrottleRates
    throttle_leaders: bool
    brokers: tuple[BrokerPreview, ...]
    shapes: tuple[ShapeCost, ...]  # both, for comparison; limits decide
    how_long: HowLong | None  # None if the size of a partition that is copied is not known
    coordinators: CoordinatorMoves | None  # None if no internal leader moves
    partitions: tuple[PartitionSteps, ...] | UnsetType = UNSET

    @property
    def in_force(self) -> ShapeCost:
        return next(cost for cost in self.shapes if cost.shape is self.limits.shape)

    @property
    def moves(self) -> bool:
        return bool(self.in_force.alters or self.in_force.elections)

    @property
    def idle(self) -> bool:
        return any(each.kind is FindingKind.NOTHING_TO_DO for each in self.findings)

    @property
    def problems(self) -> tuple[Finding, ...]:
        return self.of(Severity.PROBLEM)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.severity is severity)

    def with_findings(self, *more: Finding) -> Self:
        return msgspec.structs.replace(self, findings=in_order((*self.findings, *more)))

    def without(self, leave_out: Callable[[Finding], bool]) -> Self:
        kept = tuple(each for each in self.findings if not leave_out(each))
        return msgspec.structs.replace(self, findings=kept)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by severity, and those of one severity by their place in the plan's file."""
    return tuple(sorted(findings, key=_severity_and_place))


def _severity_and_place(finding: Finding) -> tuple[int, float, int]:
    line, column = (inf, 0) if (at := finding.place) is None else (at.line, at.column)
    return _SEVERITIES.index(finding.severity), line, column


class PreviewBase:
    """The parts of a preview that do not depend on the terms, computed once.

    `under` simulates the whole run, at about 0.2 ms per step; memory is about 500 bytes per moving
    partition. `source` is the name of the plan's file, cleaned for the terminal; `need` is for a
    throttle too, where the terms have one; `rate` is bytes a second into each broker, None for what
    is known; `check` finds what speaks against the plan itself, None for `check_plan`.
    """

    def __init__(
        self,
        plan: Plan,
        facts: ClusterFacts,
        *,
        source: str = "",
        need: NeededPermission = TO_START,
        rate: Rate | None = None,
        check: Callable[[Allowances], tuple[Finding, ...]] | None = None,
    ) -> None:
        self.plan, self.facts = plan, facts
        self._source, self._need = source, need
        self._check = cache(check or partial(check_plan, plan, facts.seen))
        self._snapshot = snapshot = facts.seen
        self._summary = summarise(plan, snapshot)
        self._shares = broker_shares(plan, snapshot)
        self._coordinators = coordinator_moves(plan, snapshot)
        self._moves = moves_of(plan, snapshot)
        self._gains = {each.broker: each.gains for each in self._shares if each.gains}
        self.known = Capacity(facts.prior, given=rate)
        self._warnings = (*log_dir_warnings(self._gains, snapshot.log_dirs), *self._unreadable())
        self._sample = _sample(self._moves.wanted)
        self._growing = GrowingPartitions(snapshot, self._moves.wanted)
        largest = max((one.size for one in self._growing.wanted), default=0)
        self._case = Case(tuple(self._gains), largest, len(snapshot.brokers))

    def under(
        self, terms: Terms, on_decision: OnDecision | None = None, *, roughly: bool = False
    ) -> PlanPreview:
        """Preview the plan under some terms; roughly, 10,000 partitions take 0.3 seconds."""
        limits, throttle = terms.limits, terms.throttle
        snapshot = self._snapshot
        in_force = throttle.shared_evenly(self._gains)
        rates = self._rates(in_force)
        inbound = snapshot.inbound if throttle else None
        if roughly := roughly and len(self._moves.wanted) > _EXACT:
            joining_s = self.known.joining_s
            run = simulate_in_bundles(
                self._moves.wanted, limits, rates, joining_s, inbound, self._moves.racks
            )
        else:
            run = self._simulate(self._moves.wanted, limits, rates, on_decision, inbound)
        brokers = tuple(self._brokers(run, rates))
        shapes = [self._cost(limits, run.peak_extra_replicas)]
        for shape in SHAPES:
            if shape is not limits.shape:
                other = _shaped(limits, shape)
                shapes.append(self._cost(other, self._peak_extra(other, rates, roughly=roughly)))
        known = not self._moves.sizes_unknown
        findings = [*start_findings(self.plan, self.facts, terms, self._need, self._check)]
        findings += self._warnings
        findings += filter(None, (_room_warning(each) for each in brokers if each.gains))
        findings += [*self._never_fit(limits), *self._held_by_cordons(limits)]
        if throttle:
            throttled = ThrottledRun(
                self._growing,
                in_force,
                limits,
                run,
                leaders=terms.throttle_leaders,
                asked=throttle,
                slow=terms.allowed.slow,
            )
            findings += throttle_findings(throttled)
        return PlanPreview(
            plan=self._source,
            cluster=self.facts.cluster,
            findings=in_order(findings),
            summary=self._summary,
            bytes_to_copy=self._moves.bytes_to_copy if known else None,
            sizes_unknown=self._moves.sizes_unknown,
            limits=limits,
            throttle=throttle,
            throttle_leaders=terms.throttle_leaders,
            brokers=brokers,
            shapes=tuple(shapes),
            how_long=self._how_long(run, limits, rates) if known else None,
            coordinators=self._coordinators,
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
        whole = RestOfRun((), wanted, self._moves.racks)
        return simulate_rest_of_run(
            whole, limits, StepOverhead(self.known.joining_s), rates.copies(), on_decision, inbound
        )

    def _peak_extra(self, limits: Limits, rates: Rates, *, roughly: bool) -> int:
        """Estimate the peak of a large plan from a sample, which limits bind alike."""
        sampled = self._sample[::_EVERY_NTH] if roughly else self._sample
        run = self._simulate(sampled, limits, rates)
        if 2 * run.most_in_flight < len(sampled):
            return run.peak_extra_replicas
        return run.peak_extra_replicas * len(self._moves.wanted) // max(1, len(sampled))

    def _how_long(self, run: SimulatedOutcome, limits: Limits, rates: Rates) -> HowLong:
        return HowLong(
            time_s=rates.time_of(run.copying_s, run.waiting_s, self._moves.bytes_in),
            basis=rates.basis,
            pacesetter=least_time(self._moves.wanted, limits, rates),
            copying_s=run.copying_s,
            waiting_s=run.waiting_s,
            batches=run.batches,
        )

    def _brokers(self, run: SimulatedOutcome, rates: Rates) -> Iterator[BrokerPreview]:
        moved = self._moves
        throttled = {each.broker: each.bytes_s for each in rates.limits_of(self._gains)}
        for share in self._shares:
            broker = share.broker
            known = not moved.unknown[broker]
            disk = disk_of(self._snapshot.log_dirs.get(broker, ()))
            bytes_in, bytes_out = moved.bytes_in[broker], moved.bytes_out[broker]
            room = disk.room if known else None
            yield BrokerPreview(
                **msgspec.structs.asdict(share),
                bytes_in=bytes_in if known else None,
                bytes_out=bytes_out if known else None,
                throttle_bytes_s=throttled.get(broker),
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


def start_findings(
    plan: Plan,
    facts: ClusterFacts,
    terms: Terms,
    need: NeededPermission = TO_START,
    check: Callable[[Allowances], tuple[Finding, ...]] | None = None,
) -> Iterator[Finding]:
    """Yield what speaks against a plan whatever its figures are; see `PreviewBase`."""
    throttles = need.throttles if terms.throttles else None
    need = msgspec.structs.replace(need, throttles=throttles, canary=terms.canary)
    yield from missing_permissions(facts.permitted, facts.obstacles, need)
    yield from (
        check_plan(plan, facts.seen, terms.allowed) if check is None else check(terms.allowed)
    )
    yield from facts.standing
    if throttles is not None and facts.throttled_by:
        yield Finding(need.moves or throttles, FindingKind.ONE_THROTTLE, (), facts.throttled_by)


def _room_warning(each: BrokerPreview) -> Finding | None:
    after, peak, disk = each.room_after_bytes, each.room_at_peak_bytes, each.disk_bytes
    if after is None or peak is None or disk is None:
        return None
    least = min(after, peak)
    when = "" if after <= peak else " before old replicas leave it"
    gain = f"broker {each.broker} gets {as_bytes(each.bytes_in)}, has room for "
    if least <= 0:
        text = f"{gain}{as_bytes(each.room_bytes)} now, and would be full{when}"
        lacking = f": {as_bytes(-least)} too much" if least else ""
        return warning(FindingKind.DISK_FULL, f"{text}{lacking}")
    if least < LOW * disk:
        left = f"{as_bytes(least)}, {least / disk:.0%} of its disk"
        text = f"{gain}{as_bytes(each.room_bytes)} now, and would have {left}, left{when}"
        return warning(FindingKind.DISK_LOW, text)
    return None


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
    if shape is Shape.GENTLE:
        return msgspec.structs.replace(limits, shape=shape)
    order = order_without_gentle(limits.order)
    return msgspec.structs.replace(
        limits, shape=shape, extra_replicas=None, cut_together=None, order=order
    )
