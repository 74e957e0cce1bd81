"""`ktui status`: show the state of one run, or all its events."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from ktui.cli.context.errors import FAILED
from ktui.cli.options import common
from ktui.cli.output.event_json import event_line
from ktui.cli.output.json_form import encode_record
from ktui.cli.run.runs import local_time
from ktui.cli.run.status_lines import follow_lines
from ktui.cli.run.status_text import status_text
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.forecast.run_details import read_details
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.text import (
    event_sentence,
)
from ktui.execution.run.tool_plans import tool_commands


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
