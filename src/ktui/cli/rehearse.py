"""The options of a rehearsal, and the commands that start what was rehearsed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.config import Context
from ktui.cli.context.option import Grouped, GroupedCommand, add_option
from ktui.cli.context.terminal import BAD_INPUT, NOT_ALL_DONE, BadInput, has_terminal, print_note
from ktui.cli.options import common
from ktui.cli.options.common import given_options, parse_amount, state_dir_option, state_option
from ktui.cli.options.plan import allowance_options, rate_option, read_plan_argument
from ktui.cli.options.run import (
    BY,
    START_AT,
    WHILE,
    WINDOW,
    RunChoices,
    rehearsed_run_options,
    run_choices,
    schedule_options,
    until_option,
)
from ktui.cli.options.throttle import (
    EXCLUDE,
    LEADERS,
    SLI_COMMAND,
    SLI_PROMETHEUS,
    THROTTLE,
    limits_beyond_context,
    throttle_options,
)
from ktui.cli.output.plan_check import finding_line
from ktui.cli.rehearsal_report import Report, rehearsal_json, rehearsal_text
from ktui.cli.snapshot import TwinReading, twin_notes, twin_of_cluster, twin_reading_options
from ktui.cluster.text import clean
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.execution.run.options import Schedule
from ktui.pacing.limits import INTERNAL, OF_ONE_BROKER, Limits, limit_text
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.quantities import Rate, Seconds, Share, Size, as_count
from ktui.rehearsal.summary import Settings
from ktui.rehearsal.twin import (
    FAULT_FORMS,
    Fault,
    FaultProblem,
    Twin,
    load_twin,
    parse_fault,
    twin_of,
)
from ktui.rehearsal.twins import (
    MAX_INFLOW,
    MAX_TIME,
    MIN_ROOM,
    Prepared,
    Thresholds,
    check,
    prepare,
    rehearse,
)
from ktui.simulated.layout import ClusterSpec
from ktui.simulated.scenario.file import FASTEST

EVENT = "--event"


class _RehearseOptions(RunChoices, frozen=True, kw_only=True):
    events: tuple[str, ...]
    thresholds: Thresholds
    record: Path | None

    def rehearsed_run(
        self, context: Context, path: Path, plan: Plan, allowed: Allowances
    ) -> NewRun:
        """Return the run to rehearse, without what only the real world has."""
        for option, given in (
            (SLI_COMMAND, self.throttle.sli_command),
            (SLI_PROMETHEUS, self.throttle.sli_prometheus),
        ):
            if given:
                raise BadInput(f"{option}: a twin does not change its figure. Use --canary instead")
        if self.schedule.while_command:
            raise BadInput(
                f"{WHILE}: a rehearsal runs in simulated time and cannot run a command. Leave it "
                "out"
            )
        new = self.new_run(
            context, default_name(path), plan, plan_name=clean(path.name), allowed=allowed
        )
        options = msgspec.structs.replace(new.options, record=False)
        return msgspec.structs.replace(new, options=options, rate=None)  # it is the twin's

    def faults(self, spec: ClusterSpec) -> tuple[Fault, ...]:
        return tuple(_fault(text, spec) for text in self.events)


class _TwinSource(msgspec.Struct, frozen=True, kw_only=True):
    twin: Path | Cluster
    reading: TwinReading
    state: StateDir

    @property
    def context(self) -> Context:
        """The context whose limits and throttle a start would take; an empty one for a file."""
        return Context() if isinstance(self.twin, Path) else self.twin.context


def _twin_source(
    *, file: Path | None, choice: ClusterChoice, reading: TwinReading, state: StateDir
) -> _TwinSource:
    if file is None:
        return _TwinSource(twin=choice.cluster(), reading=reading, state=state)
    of_cluster = [
        f"--{name.replace('_', '-')}"
        for name, value in choice._asdict().items()
        if value is not None
    ]
    if (named := reading.named or next(iter(of_cluster), None)) is not None:
        raise BadInput(f"{named}: with --on, nothing is read from a cluster. Leave one of them out")
    return _TwinSource(twin=file, reading=reading, state=state)


def _fault(text: str, spec: ClusterSpec) -> Fault:
    try:
        return parse_fault(text, spec)
    except FaultProblem as problem:
        raise BadInput(f"{EVENT} {text!r}: {problem}") from None


def _thresholds(*, min_room: int | float | None, **others: Any) -> Thresholds:  # noqa: PYI041 - which it is tells a share
    if isinstance(min_room, float):
        return Thresholds(min_room_share=min_room, **others)
    return Thresholds(min_room=min_room, **others)


def _room(text: str) -> int | float:
    if text.endswith("%"):
        return parse_amount(MIN_ROOM, Share, text)
    return parse_amount(MIN_ROOM, Size, text)


_threshold_options = Grouped(
    "thresholds",
    _thresholds,
    add_option(
        f"{MAX_TIME} TIME",
        "Exit code 3 if the plan takes longer on a twin.",
        "max_time_s",
        reads=partial(parse_amount, MAX_TIME, Seconds),
    ),
    add_option(
        f"{MAX_INFLOW} RATE",
        "Exit code 3 if more bytes a second than this are copied into a broker.",
        reads=partial(parse_amount, MAX_INFLOW, Rate),
    ),
    add_option(
        f"{MIN_ROOM} SHARE|SIZE",
        "Exit code 3 if less stays free on the disk of a broker of the plan: 10%, or 50GiB.",
        reads=_room,
    ),
)

_source = Grouped(
    "source",
    _twin_source,
    add_option(
        "--on FILE",
        "Rehearse on this twin, a scenario file. Only its cluster and its topics count.",
        "file",
        type=click.Path(path_type=Path),
    ),
    cluster_options,
    twin_reading_options,
    state_dir_option,
)
_choices = run_choices(
    _RehearseOptions,
    throttle_options,
    rehearsed_run_options,
    schedule_options,
    until_option,
    rate_option,
    add_option(
        f"{EVENT} EVENT",
        "Let something happen: 'kill 5 at 40%' of the work, or 'load x2 at 10m' after the "
        f"start. Also {', '.join(FAULT_FORMS[1:])}. May be repeated.",
        "events",
        multiple=True,
    ),
    _threshold_options,
    add_option(
        "--record DIR",
        "Record the usual twin in this folder, marked as simulated; in the view, too.",
        type=click.Path(file_okay=False, path_type=Path),
    ),
)


_AS_GIVEN = (
    cluster_options.names
    | allowance_options.names
    | throttle_options.without("throttle", "budget", "slo").names
    | rehearsed_run_options.names
    | {"until"}
)
"""The options of a rehearsal that a start has, too, without those that may change meanwhile."""


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a start of a rehearsed plan has, beside its limits, its throttle and its schedule."""

    path: Path
    given: tuple[str, ...]
    context: Context  # the context whose limits and throttle hold without options
    state: StateDir
    exclude_internal: bool

    def lines(self, settings: Settings) -> tuple[str, ...]:
        """Return the command of the start, and those for what a run gets once it has begun."""
        return tuple(clean(line) for line in self._lines(settings))

    def _lines(self, settings: Settings) -> Iterator[str]:
        state = state_option(self.state)
        options = limits_beyond_context(settings.limits, self.context.limits)
        if self.exclude_internal:
            options[INTERNAL] = EXCLUDE
        words = [
            str(self.path),
            *self._with_throttle(settings.throttle),
            *(word for option, value in options.items() for word in (f"--{option}", value)),
            *_schedule(settings.schedule),
        ]
        yield f"ktui start {shlex.join(words)}{state}"
        run = default_name(self.path)
        for words in _of_brokers(settings.limits):
            yield f"ktui limits {shlex.join([run, *words])}{state}"

    def _with_throttle(self, throttle: str) -> Iterator[str]:
        rates = parse_throttle_rates(throttle)
        yield from (word for word in self.given if rates or word != LEADERS)
        if rates != parse_throttle_rates(str(self.context.throttle or "none")):
            yield from (THROTTLE, throttle)


def _schedule(schedule: Schedule) -> Iterator[str]:
    if schedule.start_at is not None:
        yield from (START_AT, _moment(schedule.start_at))
    if schedule.window:
        yield from (WINDOW, schedule.window)
    if schedule.by is not None:
        yield from (BY, _moment(schedule.by))


def _moment(at: datetime) -> str:
    return at.astimezone().isoformat(timespec="seconds")


def _of_brokers(limits: Limits) -> Iterator[list[str]]:
    for each in limits.brokers:
        words = ["--broker", str(each.broker)]
        for option in OF_ONE_BROKER:
            own = limits.own_of(option)
            if each.broker in own:
                words += [f"--{option}", limit_text(option, own[each.broker])]
        yield words


USUAL_SPEED = 10.0  # seconds of the twin in a second of the view


@click.command("rehearse", cls=GroupedCommand)
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@common.json_option
@allowance_options
@add_option("--headless", "Print the report as soon as it is done, without the view.")
@common.speed_option(
    0.1, FASTEST, f"In the view: simulate N seconds in each second; {USUAL_SPEED:g} by default."
)
@_source
@_choices
def command(
    path: Path,
    *,
    source: _TwinSource,
    json: bool,
    headless: bool,
    speed: float | None,
    allowed: Allowances,
    how: _RehearseOptions,
) -> None:
    """Carry out PLAN on a simulated twin of its cluster, and show what it would do. Sends nothing.

    On a terminal, the live view shows the usual twin, marked as SIMULATED, and one may break it
    there. With --headless, --json or a threshold, and without a terminal, there is a report.

    The twin is a snapshot of the cluster, taken now, or with --on a file that `ktui snapshot` or
    you have made: then no cluster is needed.

    The engine, its limits and its throttles are those of `ktui start`. Where the copy rate is not
    known, a report is about three twins: a slow, a usual and a fast one.

    Exit code of a report: 0 when every partition comes to its target on each twin and all
    thresholds hold, 3 when not, 2 when a start would be refused or an option cannot be used.
    """
    in_view = _in_view(speed, headless=headless, json=json, how=how)
    plan_source, plan = read_plan_argument(path)
    twin = _twin(source, plan)
    if how.rate is not None:
        twin = twin.at(float(how.rate))
    faults = how.faults(twin.spec)
    prepared = prepare(how.rehearsed_run(source.context, path, plan, allowed), twin)
    for finding in prepared.preview.findings:
        print_note(finding_line(plan_source, finding))
    if prepared.rehearsal is None:
        _end_without_rehearsal(prepared)
    rehearsal = msgspec.structs.replace(prepared.rehearsal, faults=faults)
    start = StartCommand(
        path=path,
        given=tuple(given_options(_AS_GIVEN)),
        context=source.context,
        state=source.state,
        exclude_internal=how.exclude_internal,
    )
    if in_view:
        from ktui.cli.rehearse_live import LivePlan, show_rehearsal  # noqa: PLC0415 - slow to import

        live = LivePlan(
            plan=plan_source,
            rehearsal=rehearsal,
            twin=twin,
            given_rate=how.rate is not None,
            findings=prepared.preview.findings,
            start=start,
            record=how.record,
        )
        click.echo(show_rehearsal(live, speed or USUAL_SPEED))
        return
    if sys.stderr.isatty():
        twins = as_count(len(twin.paces), "twin")
        print_note(f"rehearsing {as_count(len(plan.partitions), 'partition')} on {twins}")
    rehearsed = rehearse(rehearsal, twin, start=how.now, record=how.record)
    report = Report(
        plan=plan_source,
        twin=twin,
        given_rate=how.rate is not None,
        findings=prepared.preview.findings,
        twins=rehearsed,
        checks=check(rehearsed, how.thresholds),
        start=start.lines(rehearsed[0].summary.settings),
    )
    click.echo(rehearsal_json(report) if json else rehearsal_text(report))
    sys.exit(0 if report.holds else NOT_ALL_DONE)


def _in_view(speed: float | None, *, headless: bool, json: bool, how: _RehearseOptions) -> bool:
    asks = {"--headless": headless, "--json": json, "a threshold": how.thresholds != Thresholds()}
    asked = next((option for option, given in asks.items() if given), None)
    if asked is None:
        return has_terminal()
    if speed is not None:
        raise BadInput(
            f"--speed is for the view, and {asked} asks for a report, which comes as fast as it "
            "can. Leave one of them out"
        )
    return False


def _twin(source: _TwinSource, plan: Plan) -> Twin:
    """Return the twin to rehearse on: that of a file, or one of the cluster as it is now."""
    if isinstance(source.twin, Path):
        return load_twin(source.twin)
    taken = twin_of_cluster(source.twin, plan, source.reading, source.state)
    for line in twin_notes(taken):
        print_note(line)
    return twin_of(source.twin.name, taken.spec, taken.info)


def _end_without_rehearsal(prepared: Prepared) -> NoReturn:
    if prepared.preview.problems:
        print_note("a start would be refused, so nothing was rehearsed")
        sys.exit(BAD_INPUT)
    print_note("nothing to do")
    sys.exit(0)
