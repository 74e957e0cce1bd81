"""`ktui status`: show the state of one run, or all its events."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from ktui.cli.context.errors import FAILED
from ktui.cli.options import common
from ktui.cli.output.gate import gate_line, shut_gate
from ktui.cli.output.json_form import encode, event_line
from ktui.cli.run.runs import local_time
from ktui.cli.run.status_json import status_json
from ktui.cli.run.status_text import status_text
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import UNTOLD, Estimate
from ktui.execution.forecast.wait_text import wait_reasons
from ktui.execution.host.catalog import RunState, find_run, run_state
from ktui.execution.host.heartbeat import last_look_at, silence
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.event_text import event_sentence
from ktui.execution.run.events import JournalEntry


@click.command("status")
@common.run_argument
@click.option("--events", is_flag=True, help="Show every event of the run, one line each.")
@common.state_dir_option
@click.option("--json", is_flag=True, help="Print one JSON object; with --events, one per line.")
def command(name: str, *, events: bool, state: StateDir, json: bool) -> None:
    """Show RUN: its limits, its engine, the current batch, and the partitions in trouble.

    Exit code 1 if its journal is damaged: only events before the damage are shown.
    """
    run_dir = find_run(state, name)
    if events:
        damage = _print_events(run_dir, json=json)
    else:
        damage = _print_status(run_dir, state, json=json)
    if damage is not None:
        click.echo(f"ktui: {clean(damage)}", err=True)
        sys.exit(FAILED)


def _print_status(run_dir: RunDir, state: StateDir, *, json: bool) -> str | None:
    owner = holder(run_dir)
    with RunFollower(run_dir.journal) as follower:
        entries = follower.refresh()
    run, estimate = follower.run, Estimate(follower.run, EarlierRuns(state))
    estimate.take(entries)
    now, last_look = SystemClock().now(), last_look_at(run_dir)
    estimate.look(now)
    copied = estimate.copied if run_state(run, owner) is RunState.RUNNING else UNTOLD
    gate = None if run.started is None else shut_gate(state, run.started.cluster_id)
    waits = wait_reasons(run, estimate.pace, now, owned=owner is not None)
    if json:
        shown = status_json(
            run,
            owner,
            follower.damage,
            copied,
            cancel_gate=gate,
            last_look=last_look,
            reasons=waits,
        )
        click.echo(encode(shown))
    else:
        shut = None if gate is None else gate_line(gate, state, run.name)
        silent = silence(run, owner, last_look, now)
        click.echo(status_text(run, owner, copied, shut, silent, waits))
    return follower.damage


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
