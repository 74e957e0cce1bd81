"""The options of a rehearsal, and the commands that start what was rehearsed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.common import (
    Verb,
    given_options,
    grouped,
    parse_time,
    state_dir_option,
    state_option,
)
from ktui.cli.options.limits import EXCLUDE, limits_beyond_context, limits_options_without
from ktui.cli.options.new_run import RunChoices, run_choices
from ktui.cli.options.plan import allowance_options, rate_option
from ktui.cli.options.run import (
    BY,
    START_AT,
    WHILE,
    WINDOW,
    rehearsed_run_options,
    schedule_options,
    until_option,
)
from ktui.cli.options.throttle import (
    LEADERS,
    SLI_COMMAND,
    SLI_PROMETHEUS,
    THROTTLE,
    throttle_options,
)
from ktui.cli.twin.snapshot import TwinReading, twin_reading_options
from ktui.cluster.text import clean
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.execution.run.options import Schedule
from ktui.pacing.limits import INTERNAL, OF_ONE_BROKER, Limits, limit_text
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.rehearsal.faults import FAULT_FORMS, Fault, FaultProblem, parse_fault
from ktui.rehearsal.summary import Settings
from ktui.rehearsal.twins import MAX_INFLOW, MAX_TIME, MIN_ROOM, Thresholds
from ktui.simulated.layout import ClusterSpec
from ktui.units import Rate, Share, Size, parse_typed

EVENT = "--event"


class RehearseOptions(RunChoices, frozen=True, kw_only=True):
    """How a plan is rehearsed; `now` is the time at which the twin begins."""

    events: tuple[str, ...]
    thresholds: Thresholds
    record: Path | None
    """The folder of the recording; None for none."""

    def rehearsed_run(
        self, context: Context, path: Path, plan: Plan, allowed: Allowances
    ) -> NewRun:
        """Return the run to rehearse, without what only the real world has.

        Raises:
            BadInput: an option needs the real world, or contradicts the context.
        """
        for option, given in (
            (SLI_COMMAND, self.throttle.sli_command),
            (SLI_PROMETHEUS, self.throttle.sli_prometheus),
        ):
            if given:
                raise BadInput(f"{option}: a twin does not change its figure. Use --canary instead")
        if self.schedule.while_command:
            raise BadInput(
                f"{WHILE}: a rehearsal runs no command, for its time is not yours. Leave it out"
            )
        new = self.new_run(
            context, default_name(path), plan, plan_name=clean(path.name), allowed=allowed
        )
        options = msgspec.structs.replace(new.options, record=False)
        return msgspec.structs.replace(new, options=options, rate=None)  # it is the twin's

    def faults(self, spec: ClusterSpec) -> tuple[Fault, ...]:
        """Return the faults, checked against a cluster.

        Raises:
            BadInput: one cannot be used.
        """
        return tuple(_fault(text, spec) for text in self.events)


class TwinSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the twin comes from."""

    twin: Path | Cluster
    """A file, or the cluster."""
    reading: TwinReading
    state: StateDir

    @property
    def context(self) -> Context:
        """The context whose limits and throttle a start would take; an empty one for a file."""
        return Context() if isinstance(self.twin, Path) else self.twin.context


def _twin_source(
    *, file: Path | None, choice: ClusterChoice, reading: TwinReading, state: StateDir
) -> TwinSource:
    """Choose the file or the cluster.

    Raises:
        BadInput: both or none are named, or the connection settings cannot be used.
        FileProblem: the config file cannot be used, or has no such context.
    """
    if file is None:
        return TwinSource(twin=choice.cluster(), reading=reading, state=state)
    of_cluster = [
        f"--{name.replace('_', '-')}"
        for name, value in choice._asdict().items()
        if value is not None
    ]
    if (named := reading.named or next(iter(of_cluster), None)) is not None:
        raise BadInput(f"{named}: with --on, nothing is read from a cluster. Leave one of them out")
    return TwinSource(twin=file, reading=reading, state=state)


def _fault(text: str, spec: ClusterSpec) -> Fault:
    try:
        return parse_fault(text, spec)
    except FaultProblem as problem:
        raise BadInput(f"{EVENT} {text!r}: {problem}") from None


def _thresholds(
    *, max_time: str | None, max_inflow: str | None, min_room: str | None
) -> Thresholds:
    share = min_room is not None and min_room.endswith("%")
    return Thresholds(
        max_time_s=None if max_time is None else parse_time(MAX_TIME, max_time),
        max_inflow=_number(MAX_INFLOW, Rate, max_inflow),
        min_room=None if share else _whole(_number(MIN_ROOM, Size, min_room)),
        min_room_share=_number(MIN_ROOM, Share, min_room) if share else None,
    )


def _number(option: str, kind: type, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(parse_typed(kind, text))
    except ValueError as error:
        raise BadInput(f"{option} {text!r}: {error}") from None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


_threshold_options = grouped(
    "thresholds",
    _thresholds,
    {
        "max_time": click.option(
            MAX_TIME, metavar="TIME", help="Exit code 3 if the plan takes longer on a twin."
        ),
        "max_inflow": click.option(
            MAX_INFLOW,
            metavar="RATE",
            help="Exit code 3 if more is copied into a broker at a time, in bytes a second.",
        ),
        "min_room": click.option(
            MIN_ROOM,
            metavar="SHARE|SIZE",
            help="Exit code 3 if less stays free on the disk of a broker of the plan: 10%, or "
            "50GiB.",
        ),
    },
)

_source = grouped(
    "source",
    _twin_source,
    {
        "file": click.option(
            "--on",
            "file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Rehearse on this twin, a scenario file. Only its cluster and its topics count.",
        ),
        "choice": cluster_options,
        "reading": twin_reading_options,
        "state": state_dir_option,
    },
)
_choices: Callable[[Verb[Any]], Verb[Any]] = run_choices(
    RehearseOptions,
    limits_options_without(),
    throttle_options,
    rehearsed_run_options,
    schedule_options,
    until_option,
    rate_option,
    click.option(
        EVENT,
        "events",
        metavar="EVENT",
        multiple=True,
        help="Let something happen: 'kill 5 at 40%' of the work, or 'load x2 at 10m' after the "
        f"start. Also {', '.join(FAULT_FORMS[1:])}. May be repeated.",
    ),
    _threshold_options,
    click.option(
        "--record",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Record the usual twin in this folder, marked as simulated; in the view, too.",
    ),
)


def rehearse_options(verb: Verb[Any]) -> Verb[Any]:
    """Add the options of a rehearsal; passes `source`, a `TwinSource`, and `how`."""
    return _source(_choices(verb))


@click.command()
@cluster_options
@allowance_options
@throttle_options
@rehearsed_run_options
@until_option
def _started(**_options: object) -> None:
    """Have the options of a start that a rehearsal takes as they are, for their names."""


_RATES = frozenset({"throttle", "budget", "slo"})
_AS_GIVEN = frozenset(option.name or "" for option in _started.params) - _RATES


def options_as_given() -> tuple[str, ...]:
    """Return the options of the present command line that its start has, too.

    Limits, rates and schedule are not among them: they may change while a rehearsal goes on.
    """
    return tuple(given_options(_AS_GIVEN))


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a start of a rehearsed plan has, beside its limits, its throttle and its schedule."""

    path: Path
    """The plan."""
    given: tuple[str, ...]
    """Options, as they were given."""
    context: Context
    """The context whose limits and throttle hold without options."""
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
    """Yield the options of each broker that has limits of its own."""
    for each in limits.brokers:
        words = ["--broker", str(each.broker)]
        for option in OF_ONE_BROKER:
            own = limits.own_of(option)
            if each.broker in own:
                words += [f"--{option}", limit_text(option, own[each.broker])]
        yield words
