"""The report of a rehearsal: its text, and its JSON form, which is a contract."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from ktui.cli.context.terminal import styled
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.snapshot import twin_notes
from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.columns import column, figures, table_of
from ktui.execution import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.execution.run.options import NO_SCHEDULE
from ktui.execution.run.text import limits_text, schedule_text
from ktui.inputfile import FileProblem
from ktui.pacing.limits import MEANINGS, NUMBERS, is_limited
from ktui.planning.check.findings import Finding, Severity
from ktui.planning.plan import Plan, join_all
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.quantities import as_bytes, as_count, as_duration, as_rate
from ktui.rehearsal.aftermath import BrokerUse, SeenStall
from ktui.rehearsal.play import LiveRehearsal
from ktui.rehearsal.summary import FaultOutcome, Summary
from ktui.rehearsal.twin import FAULT_VERBS, Fault, FaultProblem, Pace, Twin, twin_of
from ktui.rehearsal.twins import (
    TO_THE_END,
    Checked,
    RehearsedTwin,
    Thresholds,
    check,
    rehearse_in_background,
)
from ktui.simulated.twin import CannotSnapshot, ClusterTwin
from ktui.tui.run_view.launchers import BadCommand, RehearsedPlan

_MOST_STALLS = 10
_Cells = Callable[[Summary], str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A rehearsal, with its verdict."""

    plan: str  # the plan's file, cleaned for the terminal
    twin: Twin
    given_rate: bool  # whether an option gave the copy rate
    findings: tuple[Finding, ...]
    twins: tuple[RehearsedTwin, ...]  # from the slowest to the fastest
    checks: tuple[Checked, ...]
    start: tuple[str, ...] = ()
    """The commands that carry the plan out with the settings of its end; none in a start's view."""

    @property
    def holds(self) -> bool:
        return all(each.holds for each in self.checks)

    @property
    def usual(self) -> Summary:
        return next(each.summary for each in self.twins if each.pace is Pace.USUAL)

    @property
    def rates_from(self) -> str:
        """Where the copy rates come from: given, recorded or assumed."""
        if self.given_rate:
            return "given"
        return "recorded" if self.twin.recorded else "assumed"


def rehearsal_json(report: Report) -> str:
    """Return the JSON form of a rehearsal. Rates are those into each broker, in bytes a second."""
    rates = report.twin.rates
    answer = {
        "schema_version": SCHEMA_VERSION,
        "simulated": True,
        "plan": report.plan,
        "twin": report.twin.name,
        "cluster_id": report.twin.cluster_id,
        "rates": {
            "slow": rates.low,
            "usual": rates.middle,
            "fast": rates.high,
            "from": report.rates_from,
        },
        "holds": report.holds,
        "checks": report.checks,
        "findings": report.findings,
        "twins": report.twins,
        "start": report.start,
    }
    return encode(answer)


def rehearsal_text(report: Report, *, colours: bool = True) -> str:
    """Return the text of a rehearsal: its settings, figures, stalls, stops, faults, and verdict."""
    blocks = [
        _head(report),
        _figures(report.twins),
        _brokers(report.twins),
        _limits(report.usual),
        _stalls(report.twins),
        iter([_IF_STOPPED, table_of(_STOPS, report.usual.stops)] if report.usual.stops else []),
        *(_fault(each) for each in report.usual.faults),
        (f"{each}: did not happen, for the run was over" for each in report.usual.missed),
        _recording(report.twins),
        _verdict(report, colours=colours),
        _start(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _head(report: Report) -> Iterator[str]:
    rates = report.twin.rates
    span = f" (slow {as_rate(rates.low)}, fast {as_rate(rates.high)})"
    middle = as_rate(rates.middle)
    twins = "a simulated twin" if len(report.twins) == 1 else "simulated twins"
    yield f"{report.plan} on {twins}, {report.twin.name}. Nothing was sent."
    yield (
        f"Rates {report.rates_from}: a broker takes in at most {middle}"
        f"{'' if report.given_rate else span}{_one_copy(report.twin)}"
    )
    settings = report.usual.settings
    yield f"Limits: {limits_text(settings.limits)}"
    yield f"Throttle: {parse_throttle_rates(settings.throttle).words}"
    if settings.schedule != NO_SCHEDULE:
        yield f"Steps begin: {schedule_text(settings.schedule)}"
    yield from (f"Changed {change}" for change in settings.changes)


def _limits(usual: Summary) -> Iterator[str]:
    limits = usual.settings.limits
    yield "What the limits mean:"
    for option, limit in NUMBERS.items():
        if is_limited(limits, option):
            yield f"  {limit.letter}: {limit.meaning}{_here(option, usual)}"
    for word in (limits.shape, limits.mode, limits.order):
        yield f"  {word}: {MEANINGS[word]}"


def _here(option: str, usual: Summary) -> str:
    """Return what a limit comes to in this plan, as far as its figures say."""
    limits, each = usual.settings.limits, usual.bytes_copied // max(1, usual.done)
    if option == "cuts-per-minute":
        return f" ({usual.leader_epoch_bumps:,} in all)"
    if option == "bytes-per-broker" and each > (limits.bytes_per_broker or each):
        return f" (here {as_bytes(each)} each, so about one copy at a time)"
    return ""


def _one_copy(twin: Twin) -> str:
    """Return the share of that rate that a single copy gets, in words."""
    alone = min((1.0 / (1.0 + b.copy_half_at) for b in twin.spec.brokers), default=1.0)
    if alone == 1.0:
        return ""
    return f"; with one copy at a time, {alone:.0%} of that"


def _figures(twins: Sequence[RehearsedTwin]) -> Iterator[str]:
    rows: tuple[tuple[str, _Cells], ...] = (
        ("time", time_of),
        ("at target", lambda s: f"{s.done:,} of {s.partitions:,}"),
        ("copied", lambda s: as_bytes(s.bytes_copied)),
        ("batches", lambda s: f"{s.batches:,}"),
        ("leader epoch bumps", lambda s: f"{s.leader_epoch_bumps:,}"),
        ("highest inflow", lambda s: as_rate(max((b.inflow for b in s.brokers), default=0.0))),
        ("least room", lambda s: as_bytes(min((b.room for b in s.brokers), default=None))),
        ("stalls", lambda s: f"{len(s.stalls):,}"),
    )

    def cell_of(summary: Summary) -> Callable[[tuple[str, _Cells]], str]:
        return lambda row: row[1](summary)

    columns = [figures(twin.pace.upper(), cell_of(twin.summary)) for twin in twins]
    yield table_of((column("TWIN", lambda row: row[0]), *columns), rows)
    paces: dict[str, list[str]] = {}  # of the twins of which the same is true
    for twin in twins:
        for why in twin.summary.why:
            paces.setdefault(why, []).append(twin.pace)
    yield from (f"{join_all(which)}: {why}" for why, which in paces.items())


def time_of(summary: Summary) -> str:
    """Return how long a twin took, or that it took longer than it was watched."""
    shown = as_duration(summary.time_s)
    return shown if summary.complete else f"> {shown}"


def _brokers(twins: Sequence[RehearsedTwin]) -> Iterator[str]:
    worst: dict[int, BrokerUse] = {}
    for use in (each for twin in twins for each in twin.summary.brokers):
        before = worst.get(use.broker, use)
        worst[use.broker] = BrokerUse(
            use.broker,
            max(before.inflow, use.inflow),
            min(before.room, use.room),
            use.disk,
            max(before.extra_replicas, use.extra_replicas),
        )
    yield "What each broker would see at worst, on any twin:"
    yield table_of(_OF_BROKERS, [use for _, use in sorted(worst.items())])


_OF_BROKERS = (
    figures("BROKER", lambda use: str(use.broker)),
    figures("PEAK INFLOW", lambda use: as_rate(use.inflow)),
    figures("LEAST ROOM", lambda use: as_bytes(use.room)),
    figures("FREE", lambda use: f"{use.room / use.disk:.0%}" if use.disk else "-"),
    figures("MOST YET TO DROP", lambda use: f"{use.extra_replicas:,}"),
)


def _stalls(twins: Sequence[RehearsedTwin]) -> Iterator[str]:
    """List each stall once, with the twins that had it and its longest duration."""
    alike: dict[tuple[object, ...], list[tuple[str, SeenStall]]] = {}
    for twin in twins:
        for stall in twin.summary.stalls:
            same = (stall.kind, stall.broker, stall.why)
            alike.setdefault(same, []).append((twin.pace, stall))
    for found in [*alike.values()][:_MOST_STALLS]:
        paces = join_all([*dict.fromkeys(pace for pace, _ in found)])
        stalls = [stall for _, stall in found]
        since, lasted = min(s.since_s for s in stalls), max(s.lasted_s for s in stalls)
        partitions = as_count(max(s.partitions for s in stalls), "partition")
        yield (
            f"{paces}: after {as_duration(since)}, for {as_duration(lasted)}: {partitions} "
            f"{stalls[0].kind.value} at broker {stalls[0].broker}: {stalls[0].why}"
        )
    if len(alike) > _MOST_STALLS:
        yield as_count(len(alike) - _MOST_STALLS, "more stall")


_IF_STOPPED = (
    "If you stopped the run on the usual twin after so long, and then rolled it back (a stop\n"
    "drops the copies in flight; partitions ready to drop their old replicas go back, too):"
)
_STOPS = (
    figures("STOPPED AFTER", lambda stop: as_duration(stop.at_s)),
    figures("AT TARGET", lambda stop: f"{stop.done:,} of {stop.done + stop.left:,}"),
    figures("STILL TO COPY", lambda stop: as_bytes(stop.bytes_left)),
    figures("COPIES DROPPED", lambda stop: as_bytes(stop.in_flight)),
    figures("PARTITIONS BACK", lambda stop: f"{stop.back_partitions:,}"),
    figures("COPIED AGAIN", lambda stop: as_bytes(stop.back_bytes)),
)


def _fault(fault: FaultOutcome) -> Iterator[str]:
    lasted = as_duration(fault.until_s - fault.at_s)
    yield f"{fault.event}: after {as_duration(fault.at_s)}. In the {lasted} that followed:"
    yield from (f"  ktui: {words}" for words in fault.did)
    yield from (f"  to do: {words}" for words in fault.do)
    stop = fault.stop
    yield (
        f"  a rollback then: {as_count(stop.back_partitions, 'partition')} moved back, "
        f"{as_bytes(stop.back_bytes)} copied again"
    )


def _recording(twins: Sequence[RehearsedTwin]) -> Iterator[str]:
    for twin in twins:
        if twin.recording is not None:
            yield f"recorded, as a simulated cluster: {twin.recording}"
        if twin.recording_problem is not None:
            yield f"warning: {twin.recording_problem}"


def _verdict(report: Report, *, colours: bool) -> Iterator[str]:
    for each in report.checks:
        alone = len(report.twins) == 1
        subject, twin = f"{each.threshold} ", "the twin" if alone else f"the {each.pace} twin"
        words = "holds" if each.holds else "does not hold"
        if each.threshold == TO_THE_END:
            subject, words = "", "the plan would not end"
            if each.holds:
                words = "the plan would be carried out"
                twin = twin if alone else "every twin"
        shown = styled(words, fg="green" if each.holds else "red") if colours else words
        yield f"{subject}{shown} on {twin}: {each.found}"


def _start(report: Report) -> Iterator[str]:
    if report.start:
        yield "To carry it out so, with these limits and this throttle:"
        yield from (f"  {line}" for line in report.start)


T = TypeVar("T")


async def on_own_loop(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, in a thread; cancelling this cancels it."""
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    called_off = threading.Event()

    async def work() -> T:
        task = asyncio.current_task()
        if task is not None:
            running.append((asyncio.get_running_loop(), task))
        if called_off.is_set():
            raise asyncio.CancelledError
        return await make()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(work())))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        called_off.set()
        for loop, task in running:
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.gather(thread, return_exceptions=True)
        raise


class ShownTwin:
    """Carries out on the twin what the operator of the view asks for."""

    def __init__(self, on_stage: LiveRehearsal) -> None:
        self.on_stage = on_stage

    @property
    def verbs(self) -> Sequence[str]:
        return FAULT_VERBS

    def check(self, event: str) -> None:
        try:
            self.on_stage.parse(event)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None

    def let_happen(self, event: str) -> str:
        try:
            fault = self.on_stage.let_happen(event)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None
        return f"{fault.text}: {_when(fault, self.on_stage.now_s)}"

    @property
    def outcome(self) -> str:
        return self.on_stage.outcome


def _when(fault: Fault, now_s: float) -> str:
    if fault.at.share is not None:
        return f"it happens at {fault.at.share:.0%} of the work"
    after_s = fault.at.after_s or 0.0
    return f"it happens in {as_duration(after_s - now_s)}" if after_s > now_s else "it has happened"


TakeTwin = Callable[[Plan], Awaitable[ClusterTwin]]


class ClusterRehearser:
    """Rehearses plans on twins of one cluster; keeps the last snapshot, to try other limits."""

    def __init__(self, name: str, take: TakeTwin, *, measure_s: float, clock: Clock) -> None:
        self._name, self._take, self._measure_s, self._clock = name, take, measure_s, clock
        self._taken: tuple[Plan, ClusterTwin] | None = None

    async def rehearse(
        self, wanted: NewRun, progress: Callable[[str], None], *, new_snapshot: bool
    ) -> RehearsedPlan:
        """Take a snapshot of the cluster, and rehearse a plan on its twins; nothing is sent.

        Cancelling this ends it. `new_snapshot`: even if the last snapshot is of this plan.
        """
        options = msgspec.structs.replace(wanted.options, record=False)
        if (problem := options.figure_problem(options.throttle.objective)) is not None:
            raise RunProblem(problem)
        taken = await self._snapshot(wanted.plan, progress, new_snapshot=new_snapshot)
        twin = twin_of(self._name, taken.spec, taken.info)
        over: list[Pace] = []

        def finished(pace: Pace | None = None) -> None:
            over.extend(() if pace is None else (pace,))
            paces = (f"{each}{' (done)' if each in over else ''}" for each in twin.paces)
            progress(f"playing the plan on its twins: {', '.join(paces)}")

        finished()
        prepared, twins = await rehearse_in_background(
            msgspec.structs.replace(wanted, options=options),
            twin,
            start=self._clock.now(),
            finished=finished,
        )
        if not twins:
            why = (
                "; ".join(each.sentence for each in prepared.preview.problems)
                or "there is nothing to do"
            )
            raise RunProblem(f"nothing was rehearsed: {why}")
        report = Report(
            plan=clean(wanted.plan_name),
            twin=twin,
            given_rate=False,
            findings=prepared.preview.findings,
            twins=twins,
            checks=check(twins, Thresholds()),
        )
        at = f"{taken.info.taken.astimezone():%H:%M:%S}"
        notes = [f"the twins are those of a snapshot taken at {at}", *map(clean, twin_notes(taken))]
        warnings = [
            f"{each.severity}: {clean(each.sentence)}"
            for each in report.findings
            if each.severity is not Severity.NOTE
        ]
        blocks = ["\n".join(warnings), rehearsal_text(report, colours=False), "\n".join(notes)]
        return RehearsedPlan(
            report="\n\n".join(filter(None, blocks)),
            time=_rehearser_time(twins),
            holds=report.holds,
        )

    async def _snapshot(
        self, plan: Plan, progress: Callable[[str], None], *, new_snapshot: bool
    ) -> ClusterTwin:
        if self._taken is not None and self._taken[0] == plan and not new_snapshot:
            return self._taken[1]
        measures = f", and measuring for {as_duration(self._measure_s)} what producers write"
        progress(f"reading the cluster{measures if self._measure_s else ''}")
        try:
            taken = await self._take(plan)
        except (CannotSnapshot, FileProblem) as problem:
            raise RunProblem(str(problem)) from None
        self._taken = plan, taken
        return taken


def _rehearser_time(twins: Sequence[RehearsedTwin]) -> str:
    times = {each.pace: time_of(each.summary) for each in twins}
    if len(times) == 1:
        return times[Pace.USUAL]
    return f"{times[Pace.USUAL]} ({times[Pace.FAST]} to {times[Pace.SLOW]})"
