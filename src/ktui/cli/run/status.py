"""`ktui status`: show the state of one run or all its events, or follow it in plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click

from ktui.cli.context.errors import FAILED
from ktui.cli.options import common
from ktui.cli.output.event_json import event_line
from ktui.cli.output.json_form import encode_record
from ktui.cli.run.runs import local_time
from ktui.cli.run.status_text import status_text
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.ports import Verdict
from ktui.cluster.text import clean
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.progress_text import end_lines, progress_line
from ktui.execution.forecast.run_details import ProgressAsSeen, read_details
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
    JournalEntry,
    PlannedPart,
    SettingsFound,
)
from ktui.execution.run.text import event_sentence
from ktui.execution.run.tool_plans import tool_commands

_POLL_S = 0.5
PROGRESS_S = 30.0
"""Seconds between two lines of progress, at least."""


class RunLines:
    """A run in lines: each change of it once, and its progress now and then."""

    def __init__(self, client: RunClient, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._follower = RunFollower(client.folder.journal, self._clock)
        earlier = EarlierRuns.beside(client.folder)
        self._seen = ProgressAsSeen(client, earlier, self._clock)
        self._progress, self._progress_s = "", 0.0
        self._over = False

    @property
    def died(self) -> bool:
        """Whether the run has no engine, and its last engine gave no reason."""
        run = self._follower.run
        return self._over and not run.ended and run.left is None

    def begin(self) -> list[str]:
        """Return how the run stands, in a line; what has happened so far is not repeated."""
        self._read()
        self._progress_s = self._clock.monotonic()
        self._progress = self._progress_now()
        return [self._timed(self._progress)]

    def next(self) -> list[str]:
        """Return the lines of what has changed; those of the end once no engine has the run."""
        alive = self._client.owner is not None  # asked first: its last words come before
        lines = [_line(entry) for entry in self._read() if _is_change(entry.event)]
        if not alive:
            self._over = True
            return lines + self._end()
        if self._clock.monotonic() - self._progress_s >= PROGRESS_S:
            self._progress_s = self._clock.monotonic()
            before, self._progress = self._progress, self._progress_now()
            lines += [self._timed(self._progress)] if self._progress != before else []
        return lines

    @property
    def over(self) -> bool:
        """Whether nothing more follows."""
        return self._over

    def close(self) -> None:
        """Close the journal."""
        self._follower.close()

    def _read(self) -> list[JournalEntry]:
        return self._follower.refresh()

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


def _line(entry: JournalEntry) -> str:
    return f"{entry.at.astimezone():%H:%M:%S} {event_sentence(entry.event)}"


def _is_change(event: AnyRunEvent) -> bool:
    """Whether an event is worth a line: intents, and requests that were accepted, are not.

    The end is told in lines of its own.
    """
    match event:
        case Answered() | Configured():
            return event.verdict is not Verdict.ACCEPTED
        case PlannedPart() | Elect() | SettingsFound() | Configure() | EngineLeft() | Ended():
            return False
    return True


@click.command("status")
@common.run_argument
@click.option("--events", is_flag=True, help="Show every event of the run, one line each.")
@click.option(
    "--lines",
    is_flag=True,
    help="Follow the run while it has an engine: a plain line for each change, without colours or "
    "redrawing.",
)
@click.option(
    "--command",
    "tool",
    is_flag=True,
    help="Show the commands of kafka-reassign-partitions.sh that would do the same.",
)
@common.state_dir_option
@click.option("--json", is_flag=True, help="Print one JSON object; with --events, one per line.")
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
        entries = journal.entries()
        for line in _as_json(run_dir.name, entries) if json else _as_text(entries):
            click.echo(line)
        return journal.damage


def _as_json(run: str, entries: Iterable[JournalEntry]) -> Iterable[str]:
    return (event_line(run, entry) for entry in entries)


def _as_text(entries: Iterable[JournalEntry]) -> Iterable[str]:
    return (f"{e.seq:>6}  {local_time(e.at)}  {event_sentence(e.event)}" for e in entries)
