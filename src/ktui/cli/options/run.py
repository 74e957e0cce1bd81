"""The options of a run beside its limits: when it goes on, what of trouble; and of a cancel."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import click
import msgspec
from msgspec import UNSET, UnsetType

from ktui.cli.context.claim import take_over_option
from ktui.cli.context.config import Context
from ktui.cli.context.option import Grouped, Option, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cli.options.common import parse_amount, scope_options
from ktui.cli.options.outward import (
    NONE,
    metrics_file_option,
    on_event_option,
    resolved_command,
    run_recorded_option,
)
from ktui.cli.options.throttle import (
    GivenLimits,
    ThrottleOptions,
    complete_limits,
    new_run_limits,
    new_run_limits_options,
    with_throttle,
)
from ktui.cluster.clock import SystemClock
from ktui.execution.host.launch import NewRun
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.options import RunOptions, WindowProblem, parse_window
from ktui.execution.run.states import CancelKind
from ktui.json_text import checked_moment
from ktui.ops.cancel import CancelRequest
from ktui.planning.check.check import leave_out_internal
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan
from ktui.progress.memory import STALLED_AFTER_S
from ktui.quantities import Rate, Seconds, parse_clock, parse_moment, parse_quantity

OPTION = "--until"
_FIX = "Give a time such as 15:00, or a date and time: 2026-11-21T15:00, 2026-11-21T15:00+01:00"

headless_option = add_option("--headless", "Show a progress line instead of the live view.")
concurrent_option = add_option("--concurrent", "Allow another live run on the cluster.")


def moment_to_come(option: str, text: str, now: datetime | None = None) -> datetime:
    """Read the time that an option gives; `15:00` is the next such time."""
    now = now or SystemClock().now()
    moment = _next(text.strip(), now) or parse_moment(text.strip())
    if moment is None:
        raise BadInput(f"{option} {text!r}: is not a time. {_FIX}")
    if moment <= now:
        raise BadInput(f"{option} {text}: is in the past. {_FIX}")
    try:
        return checked_moment(moment)
    except ValueError as problem:
        raise BadInput(f"{option} {text}: {problem}. {_FIX}") from None


until_option = add_option(
    f"{OPTION} TIME",
    "Submit only steps that are expected to end by then. TIME is 15:00, or a date and time "
    "in ISO 8601; local unless it has an offset.",
    reads=partial(moment_to_come, OPTION),
)


def _next(text: str, now: datetime) -> datetime | None:
    """Return the next moment at which local clocks show this time of day."""
    clock = parse_clock(text)
    if clock is None:
        return None
    hour, minute, second = clock
    local = now.astimezone().replace(tzinfo=None)  # without an offset, which may change tonight
    today = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return (today if today > local else today + timedelta(days=1)).astimezone()


LEAST_POLL_S, MOST_POLL_S = 0.1, 60.0
_DEFAULTS = RunOptions()
URGENT_FIRST = "--urgent-first"
MADE_BY_KTUI = {"default_map": {"urgent_first": True}}
"""The context settings of verbs that start plans which ktui makes itself."""


def _stall_timeout(text: str) -> float:
    if (seconds := parse_amount("--stall-timeout", Seconds, text)) >= STALLED_AFTER_S:
        return seconds
    least = f"{STALLED_AFTER_S:g} s"
    raise BadInput(f"--stall-timeout: give {least} or more. A stall shows only after {least}")


def _poll(text: str) -> float:
    if LEAST_POLL_S <= (seconds := parse_amount("--poll", Seconds, text)) <= MOST_POLL_S:
        return seconds
    raise BadInput(f"--poll: give a time from {LEAST_POLL_S:g}s to {MOST_POLL_S:g}s")


_RUN_OPTIONS = (
    add_option(
        "--on-stall",
        "What to do with a step whose new broker stays offline: wait (default), or cancel "
        "the step.",
        default=_DEFAULTS.on_stall,
    ),
    add_option(
        "--stall-timeout TIME",
        "How long that broker may be offline, at least 30s. Default: 5m.",
        "stall_timeout_s",
        reads=_stall_timeout,
    ),
    add_option(
        "--on-foreign-change",
        "What to do with a waiting partition that someone else changed: skip it (default), "
        "or replan its way to the target from there.",
        default=_DEFAULTS.on_foreign_change,
    ),
    add_option("--stop-on-failure", "Begin nothing more once a partition has failed."),
    add_option(
        f"{URGENT_FIRST}/--no-urgent-first",
        "Let partitions under min ISR, or with one copy in sync, go before all others. For "
        "them, P, L, M, B, S, V and W count only urgent partitions.",
        default=_DEFAULTS.urgent_first,
    ),
    add_option(
        "--most-under-min-isr N",
        "Take no step while more than N partitions outside the run are under min ISR.",
        type=click.IntRange(0),
    ),
    add_option(
        "--most-offline N",
        "Take no step while more than N partitions outside the run are offline.",
        type=click.IntRange(0),
    ),
    on_event_option,
    metrics_file_option,
    run_recorded_option,
    add_option(
        "--poll TIME", "Time between polls of the cluster. Default: 1s.", "poll_s", reads=_poll
    ),
)


def _run_options(**given: Any) -> RunOptions:
    return RunOptions(**{name: value for name, value in given.items() if value is not None})


run_options = Grouped("options", _run_options, *_RUN_OPTIONS)

rehearsed_run_options = run_options.without("on_event", "metrics_file", "record")
"""The same without those by which a run writes to files and calls commands."""


START_AT, WINDOW, WHILE = "--start-at", "--window", "--while"
BY, WITHIN = "--by", "--within"

_LONGEST_S = 365 * 86_400.0

_OPTIONS = (
    add_option(
        f"{START_AT} TIME",
        "Take no step before then. TIME is 22:00, or a date and time in ISO 8601; local "
        "unless it has an offset. none: at once.",
    ),
    add_option(
        f"{WINDOW} FROM-TO[,DAY,...]",
        "Take only steps that are expected to end in this window of local time, such as "
        "22:00-05:00, or 22:00-05:00,Sat,Sun where it opens on these days only. none: at any time.",
    ),
    add_option(
        f"{WHILE} CMD",
        "Take no step while CMD fails. It runs every 5 s, without a shell, and is killed "
        "after 10 s. none: no command.",
        "while_",
    ),
    add_option(
        f"{BY} TIME",
        "Copy at the lowest rate with which the run is done by TIME (22:00, or ISO 8601). A "
        "throttle that you name stays the maximum. none: as fast as limits and throttle allow.",
    ),
    add_option(f"{WITHIN} DURATION", "Like --by, as a time from now: 90m, 8h, 1h30m."),
)


def _schedule(
    start_at: str | None, window: str | None, while_: str | None, by: str | None, within: str | None
) -> SetSchedule:
    changed = SetSchedule(
        start_at=_moment(START_AT, start_at),
        window=_window(window),
        while_command=UNSET if while_ is None else resolved_command(WHILE, while_),
        by=_by(by, within),
    )
    begins, ends = changed.start_at, changed.by
    if isinstance(begins, datetime) and isinstance(ends, datetime) and ends <= begins:
        raise BadInput(f"{BY}: the run would be done before it starts. Give a time after it")
    return changed


def _moment(option: str, text: str | None) -> datetime | UnsetType | None:
    if text is None:
        return UNSET
    return None if text == NONE else moment_to_come(option, text)


def _by(by: str | None, within: str | None) -> datetime | UnsetType | None:
    if within is None:
        return _moment(BY, by)
    if by is not None:
        raise BadInput(f"{BY} and {WITHIN} name the same time. Give one of them")
    try:
        seconds = float(parse_quantity(Seconds, within))
    except ValueError as error:
        raise BadInput(f"{WITHIN} {within!r}: {error}") from None
    if not 0 < seconds <= _LONGEST_S:
        raise BadInput(f"{WITHIN} {within}: is not between 1 s and 365 days")
    return SystemClock().now() + timedelta(seconds=seconds)


def _window(text: str | None) -> str | UnsetType:
    if text is None:
        return UNSET
    try:
        return "" if text == NONE else str(parse_window(text))
    except WindowProblem as problem:
        raise BadInput(f"{WINDOW}: {problem}") from None


schedule_options = Grouped("schedule", _schedule, *_OPTIONS)


class RunChoices(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is to be carried out, checked as far as no cluster is needed."""

    limits: GivenLimits  # those that were given; they can be used
    exclude_internal: bool
    throttle: ThrottleOptions
    rate: Rate | None  # bytes a second into each broker for estimates, where an option names them
    now: datetime
    options: RunOptions = RunOptions()  # without throttle and schedule
    schedule: SetSchedule = SetSchedule()
    until: datetime | None = None
    concurrent: bool = False

    def new_run(
        self,
        context: Context,
        name: str,
        plan: Plan,
        *,
        plan_name: str,
        allowed: Allowances,
        source: str = "",
    ) -> NewRun:
        """Return the run of a plan, with what the context says where no option does."""
        plan, left_out = leave_out_internal(plan) if self.exclude_internal else (plan, ())
        options = with_throttle(self.options, self.throttle, context)
        schedule = self.schedule.applied_to(options.schedule)
        return NewRun(
            name=name,
            plan=plan,
            plan_name=plan_name,
            source=source,
            limits=complete_limits(context.limits, self.limits),
            allowed=allowed,
            options=msgspec.structs.replace(options, schedule=schedule),
            concurrent=self.concurrent,
            until=self.until,
            rate=self.rate,
            left_out=left_out,
        )


def run_choices(kind: type[RunChoices], *options: Option | Grouped) -> Grouped:
    """Return a decorator that adds options to a verb, and passes them as `how`, of this kind."""

    def choose(*, limits: GivenLimits, **others: Any) -> RunChoices:
        limits, excludes = new_run_limits(limits)
        now = SystemClock().now()
        return kind(limits=limits, exclude_internal=excludes, now=now, **others)

    return Grouped("how", choose, new_run_limits_options, *options)


REMOVE_CANCEL = "--remove-cancel"
_KINDS = ("--stop", "--rollback", "--trim")

cancel_options = Grouped(
    "chosen",
    dict,
    add_option("--stop", "Cancel what is in flight (KIP-455), and submit no further steps."),
    add_option(
        "--rollback", "Restore the original replicas, their order and their leader (KIP-236)."
    ),
    add_option("--trim", "Stop, and drop replicas beyond the original number."),
    scope_options,
    add_option(
        "--all",
        "Every partition. Unless the run has ended, also shut the cluster's cancel gate.",
        "everything",
    ),
    add_option(REMOVE_CANCEL, "Open the cancel gate that --all has shut (KIP-236)."),
    add_option("--dry-run", "Show what would be done, and change nothing."),
    take_over_option,
)


def read_cancel_request(values: dict[str, Any]) -> CancelRequest | None:
    """Return the cancel that its options ask for; None if the gate is to be opened."""
    kinds = [kind for kind in CancelKind if values[kind.value]]
    scope, everything = values["scope"], values["everything"]
    dry_run, take_over = values["dry_run"], values["take_over"]
    if values["remove_cancel"]:
        if kinds or everything or any(scope) or dry_run or take_over:
            raise BadInput(
                f"{REMOVE_CANCEL} cannot be combined with other cancel options: it opens the "
                "cancel gate, and cancels nothing. Give it alone"
            )
        return None
    if len(kinds) != 1:
        names = ", ".join(_KINDS)
        what = f"{names} exclude each other" if kinds else f"none of {names} was given"
        raise BadInput(f"{what}. Give one of them, or {REMOVE_CANCEL}")
    if everything and any(scope):
        raise BadInput(
            "--all already covers every partition. Give either --all, or --topic, --partition and "
            "--broker"
        )
    return CancelRequest(
        kind=kinds[0],
        **scope._asdict(),
        everything=everything,
        dry_run=dry_run,
        take_over=take_over,
    )


def check_scope_given(request: CancelRequest) -> None:
    """Check that a cancel has a scope."""
    if not request.scope_words:
        raise BadInput(
            "no scope was given. Give --topic T, --partition T:P, --broker ID, or --all for every "
            "partition"
        )
