"""`ktui run status`: the status of a run in words, as JSON, and line by line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence

import click

from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import FAILED
from ktui.cli.options import common
from ktui.cli.output.json_form import encode_record, event_line
from ktui.cli.output.plan_check import gate_line
from ktui.cli.run.runs import local_time, state_in_words
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.ports import Verdict
from ktui.cluster.text import clean
from ktui.columns import Column, column, figures, table_of
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.progress_text import (
    end_lines,
    outage_text,
    progress_line,
    progress_lines,
)
from ktui.execution.forecast.run_details import ProgressAsSeen, RunDetails, read_details
from ktui.execution.host.catalog import RunState
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Configure,
    Configured,
    Elect,
    Ended,
    EngineLeft,
    PlannedPart,
    RateChosen,
    RateHeld,
    SettingsFound,
)
from ktui.execution.run.options import NO_SCHEDULE, local_minute
from ktui.execution.run.plans import tool_commands
from ktui.execution.run.text import (
    KIND_IN_WORDS,
    batch_noun,
    chosen_text,
    event_sentence,
    held_text,
    limits_text,
    reason_text,
    replica_list_text,
    schedule_text,
    scope_text,
)
from ktui.planning.throttle_rates import Objective
from ktui.quantities import as_count, as_duration, as_rate

_MOST_BROKERS = 5  # the brokers that are shown with their rate under an objective

MOST_ROWS = 40  # rows shown of the partitions that wait, and of those that were cancelled

MOST_NOTES = 5  # the last notes shown; `--events` has them all


def status_text(run: RunDetails, state: StateDir) -> str:
    """Describe a run: its settings, its progress, the steps in flight, and all trouble."""
    trouble = as_count(len(run.troubled), "partition")
    off = sorted(run.called_off, key=lambda each: each.state.ended)  # those still moving first
    sections = [
        _head(run, state),
        _progress(run),
        _in_flight(run),
        _rows(f"in trouble: {trouble}", _TROUBLED, run.troubled),
        _rows("waiting for their next step", _WAITING, run.waiting, MOST_ROWS),
        _rows(f"called off: {as_count(len(off), 'partition')}", _CANCELLED, off, MOST_ROWS),
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return "\n".join(map(clean, text.split("\n")))


def _head(run: RunDetails, state: StateDir) -> list[str]:
    batch = f", batch {run.batch:,}" if run.batch else ""
    facts = [*_origin(run), *_ownership(run), *_settings(run), *_health(run, state), *_notes(run)]
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:<{width}}  {value}" for name, value in facts]
    return [f"run {run.name}: {state_in_words(run.state)}{batch}", *lines]


def _origin(run: RunDetails) -> Iterator[tuple[str, str]]:
    if run.plan is None:
        return
    yield "plan", f"{run.plan}, {as_count(run.plan_partitions, 'partition')}"
    for each in run.added:
        count = as_count(each.partitions, "partition")
        yield "added", f"{each.plan}, {count}, {local_time(each.at)}"
    off = ", not owned: others are not kept from it" if run.ownership_off else ""
    yield "cluster", f"{run.cluster_id}{off}"
    yield "started", local_time(run.started_at)


def _ownership(run: RunDetails) -> Iterator[tuple[str, str]]:
    if run.state is RunState.ENDED:
        yield "ended", local_time(run.ended_at)
    elif run.owner is not None:
        yield "owner", str(run.owner)
    elif run.exported is not None:
        yield "exported", f"{local_time(run.at)}, {event_sentence(run.exported)}"
    elif run.state is RunState.SUBMITTED:
        yield "owner", "none: Kafka goes on alone; to end it: ktui reassign --verify"
    else:
        why = f" ({run.left})" if run.left else ""
        yield "owner", f"none{why}; to resume it: ktui resume {run.name}"
    if run.silence is not None:
        yield "engine", run.silence
    if run.extra_replicas is not None:
        yield "replicas", run.extra_replicas


def _settings(run: RunDetails) -> Iterator[tuple[str, str]]:
    batch = f"{batch_noun(run.limits)} {run.limits_since_batch:,}"
    since = f", since {batch}" if run.limits_since_batch > 1 else ""
    yield "limits", f"{limits_text(run.limits)}{since}"
    yield from _throttle(run)
    yield "options", ", ".join(_options(run))
    for by, reason in run.pauses.whole.items():
        yield "paused", f"by {by.words}{f': {reason}' if reason else ''}"
    scope = scope_text(run.pauses.topics, run.pauses.partitions)
    if scope:
        yield "paused", scope


def _throttle(run: RunDetails) -> Iterator[tuple[str, str]]:
    throttle, ended = run.throttle, run.state is RunState.ENDED
    if throttle.bounded:
        yield "throttle", throttle.words
    if throttle.rates.objective is not None and not ended:
        yield from _objective(throttle.rates.objective, throttle.held)
    if throttle.chosen is not None and not ended:
        yield "done by", _promise(run, throttle.chosen)
    if throttle.refusal:
        yield "throttle", f"refused: {throttle.refusal}"
    if throttle.remains is not None:
        yield "throttle", f"{throttle.remains}; see: ktui throttle {run.name}"


def _objective(objective: Objective, held: RateHeld | None) -> Iterator[tuple[str, str]]:
    words = "nothing was copied yet" if held is None else held_text(held, objective)
    yield "objective", f"{objective}: {words}"
    brokers = () if held is None else held.brokers
    receiving = [each for each in brokers if each.rate is not None]
    for each in sorted(receiving, key=lambda each: each.rate or 0)[:_MOST_BROKERS]:
        figure = "none" if each.figure is None else objective.value(each.figure)
        why = "" if each.why is None else f"; {reason_text(each.why, each.rate or 0, objective)}"
        yield f"broker {each.broker}", f"{as_rate(each.rate)}, {objective.name} {figure}{why}"


def _promise(run: RunDetails, chosen: RateChosen) -> str:
    by = "" if run.schedule.by is None else local_minute(run.schedule.by)
    rates = run.throttle.rates
    named = bool(rates) and rates == run.throttle.bounded
    binds = f"; the throttle of {rates.words} is lower" if named and not chosen.late else ""
    return f"{by}: {chosen_text(chosen)}{binds}"


def _options(run: RunDetails) -> Iterator[str]:
    chosen = run.options
    yield f"on stall {chosen.on_stall} (after {as_duration(chosen.stall_timeout_s)})"
    yield f"on foreign change {chosen.on_foreign_change}"
    if chosen.urgent_first:
        yield "urgent first"
    if chosen.stop_on_failure:
        yield "stop on failure"
    if run.until is not None:
        yield f"until {local_time(run.until)}"
    if run.schedule != NO_SCHEDULE:
        yield schedule_text(run.schedule)
    if chosen.most_under_min_isr is not None:
        yield f"at most {chosen.most_under_min_isr:,} others under min ISR"
    if chosen.most_offline is not None:
        yield f"at most {chosen.most_offline:,} others offline"
    if not chosen.record:
        yield "not recorded"
    yield f"a poll every {chosen.poll_s:g} s"


def _health(run: RunDetails, state: StateDir) -> Iterator[tuple[str, str]]:
    if run.outage is not None:
        yield "cluster", f"lost {outage_text(run.outage)}"
    if run.gate.until is not None:
        yield "waits", run.gate.reason
    elif run.gate.shut:
        yield "gate", f"shut: {run.gate.reason}"
    if run.problem is not None:
        yield "journal", run.problem
    if run.recording.on or run.recording.reason:
        yield "recording", run.recording.reason or "on"
    if run.cancel_gate is not None:
        yield "gate", gate_line(run.cancel_gate, state, run.name)


def _notes(run: RunDetails) -> Iterator[tuple[str, str]]:
    for note in run.notes[-MOST_NOTES:]:
        by = f", {note.who}" if note.who else ""
        yield "note", f"{note.text} ({local_time(note.at)}{by})"


def _progress(run: RunDetails) -> list[str]:
    counts = [row for row in run.counts.items() if row[1]]
    return [*progress_lines(run), table_of(_COUNTS, counts)]


def _in_flight(run: RunDetails) -> list[str]:
    if not run.in_flight:
        return ["nothing is in flight"]
    held_up = any(each.held_up_by for each in run.in_flight)
    columns = (*_IN_FLIGHT, _HELD_UP) if held_up else _IN_FLIGHT
    head = f"in flight: {as_count(len(run.in_flight), 'step')}"
    return [head, table_of(columns, run.in_flight)]


def _rows(
    head: str, columns: Sequence[Column[str]], rows: Sequence[object], most: int | None = None
) -> list[str]:
    """Return rows under a head, at most so many; nothing without any."""
    more = [] if most is None or len(rows) <= most else [f"and {len(rows) - most:,} more"]
    return [head, table_of(columns, rows[:most]), *more] if rows else []


def _replicas(heading: str, field: str) -> Column[str]:
    return column(heading, lambda each: replica_list_text(getattr(each, field)))


_COUNTS = (
    column("STATE", lambda row: row[0].words),
    figures("PARTITIONS", lambda row: f"{row[1]:,}"),
)
_PARTITION = column("PARTITION", lambda each: str(each.tp))
_STATE = column("STATE", lambda each: each.state.words)
_SINCE = column("SINCE", lambda each: local_time(each.since))
_REPLICAS, _TARGET = _replicas("REPLICAS", "replicas"), _replicas("TARGET", "target")
_HELD_UP = column("HELD UP", lambda each: each.held_up_by or "-")
_IN_FLIGHT = (
    _PARTITION,
    _STATE,
    figures("BATCH", lambda each: "-" if each.batch is None else f"{each.batch:,}"),
    _REPLICAS,
    _replicas("TO", "step_replicas"),
    figures("ELECT", lambda each: "-" if each.elect is None else str(each.elect)),
    _TARGET,
    _SINCE,
)
_WHY = column("WHY", lambda each: each.reason)
_REASON = column("REASON", lambda each: each.reason or "-")
_ASKED = column("ASKED", lambda each: KIND_IN_WORDS[each.cancel])
_WAITING = (_PARTITION, _STATE, _SINCE, _WHY)
_TROUBLED = (_PARTITION, _STATE, _SINCE, _REPLICAS, _TARGET, _REASON)
_ORIGINAL = _replicas("ORIGINAL", "original")
_CANCELLED = (_PARTITION, _ASKED, _STATE, _SINCE, _REPLICAS, _ORIGINAL, _TARGET)


_POLL_S = 0.5
PROGRESS_S = 30.0  # seconds between two lines of progress, at least


class RunLines:
    """A run in lines: each change of it once, and its progress now and then."""

    def __init__(self, client: RunClient, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._follower = RunFollower(client.folder.journal, self._clock)
        earlier = EarlierRuns.beside(client.folder)
        self._seen = ProgressAsSeen(client, earlier, self._clock)
        self._progress, self._progress_s = "", 0.0
        self.over = False  # nothing more follows

    @property
    def died(self) -> bool:
        """Whether the run has no engine, and its last engine gave no reason."""
        run = self._follower.run
        return self.over and not run.ended and run.left is None

    def begin(self) -> list[str]:
        """Return how the run stands, in a line; what has happened so far is not repeated."""
        self._follower.refresh()
        self._progress_s = self._clock.monotonic()
        self._progress = self._progress_now()
        return [self._timed(self._progress)]

    def next(self) -> list[str]:
        """Return the lines of what has changed; those of the end once no engine has the run."""
        alive = self._client.owner is not None  # asked first: its last words come before
        new = (entry for entry in self._follower.refresh() if _is_change(entry.event))
        lines = [f"{each.at.astimezone():%H:%M:%S} {event_sentence(each.event)}" for each in new]
        if not alive:
            self.over = True
            return lines + self._end()
        if self._clock.monotonic() - self._progress_s >= PROGRESS_S:
            self._progress_s = self._clock.monotonic()
            before, self._progress = self._progress, self._progress_now()
            lines += [self._timed(self._progress)] if self._progress != before else []
        return lines

    def close(self) -> None:
        self._follower.close()

    def _progress_now(self) -> str:
        return progress_line(self._seen.of(self._follower.run))

    def _timed(self, words: str) -> str:
        return f"{self._clock.now().astimezone():%H:%M:%S} {clean(words)}"

    def _end(self) -> list[str]:
        run = self._follower.run
        died = [f"the engine of run {run.name} has died"] if self.died else []
        resume = [] if run.ended else [f"to resume it: ktui resume {run.name}"]
        return [*died, *map(clean, end_lines(run)), *resume]


def follow_lines(client: RunClient) -> int:
    """Print the lines of a run until no engine has it, and return the exit code."""
    lines = RunLines(client)
    try:
        _print(lines.begin())
        _print(lines.next())
        while not lines.over:
            time.sleep(_POLL_S)
            _print(lines.next())
    finally:
        lines.close()
    return FAILED if lines.died else 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
    sys.stdout.flush()


def _is_change(event: AnyRunEvent) -> bool:
    """Whether an event is worth a line. Intents, accepted requests and the end are not."""
    match event:
        case Answered() | Configured():
            return event.verdict is not Verdict.ACCEPTED
        case PlannedPart() | Elect() | SettingsFound() | Configure() | EngineLeft() | Ended():
            return False
    return True


@click.command("status")
@common.run_argument
@add_option("--events", "Show every event of the run, one line each.")
@add_option(
    "--lines",
    "Follow the run while it has an engine: a plain line for each change, without colours or "
    "redrawing.",
)
@add_option(
    "--command", "Show the commands of kafka-reassign-partitions.sh that would do the same.", "tool"
)
@common.state_dir_option
@add_option("--json", "Print one JSON object; with --events, one per line.")
def command(
    name: str, *, events: bool, lines: bool, tool: bool, state: StateDir, json: bool
) -> None:
    """Show RUN: its limits, its engine, the current batch, and the partitions in trouble.

    Exit code 1 if its journal is damaged: only events before the damage are shown. With --lines
    also if its engine has died.
    """
    if tool and (events or json):
        raise click.UsageError("--command excludes --events and --json.")
    if lines and (tool or events or json):
        raise click.UsageError("--lines excludes --command, --events and --json.")
    client, code = RunClient.find(state, name), 0
    if lines:
        damage = client.read_begun().damage
        code = follow_lines(client)
    elif tool:
        begun = client.read_begun()
        damage = begun.damage
        click.echo("\n".join(tool_commands(begun.run)))
    elif events:
        damage = _print_events(client.folder, json=json)
    else:
        found = read_details(client, state)
        damage = found.damage
        click.echo(encode_record(found.details) if json else status_text(found.details, state))
    if damage is not None:
        click.echo(f"ktui: {clean(damage)}", err=True)
        code = FAILED
    sys.exit(code)


def _print_events(run_dir: RunDir, *, json: bool) -> str | None:
    with Journal.open(run_dir.journal, SystemClock(), read_only=True) as journal:
        for entry in journal.entries():
            words = f"{entry.seq:>6}  {local_time(entry.at)}  {event_sentence(entry.event)}"
            click.echo(event_line(run_dir.name, entry) if json else words)
        return journal.damage
