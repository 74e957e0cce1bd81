"""`ktui schedule`: show or change when the steps of a run may begin, and by when it is done."""

from __future__ import annotations

from datetime import datetime

import click

from ktui.cli.doctor.permissions import check_throttle_permitted
from ktui.cli.options import common
from ktui.cli.options.schedule import schedule_options
from ktui.cli.output.json_form import encode_record
from ktui.cli.process.send_command import send_command
from ktui.cluster.clock import SystemClock
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.run import Run
from ktui.execution.run.text import chosen_text, schedule_text


@click.command("schedule")
@common.run_argument
@schedule_options
@common.state_dir_option
@common.json_option
def command(name: str, *, schedule: SetSchedule, state: StateDir, json: bool) -> None:
    """Show or change when the steps of RUN may begin, and by when it is done.

    What is not named stays.

    A change holds at once. Steps in flight finish whenever they do. Waits up to 30 s for the
    engine's answer. Without an engine nothing changes: resume the run first.
    """
    client = RunClient.find(state, name)
    if schedule != SetSchedule():
        live = client.read_live()
        if isinstance(schedule.by, datetime):
            check_throttle_permitted(live)
        send_command(client, schedule, json=json)
        return
    run = client.read().run
    click.echo(_as_json(run) if json else _as_text(run))


def _as_json(run: Run) -> str:
    begins_at = run.schedule.begins_at(SystemClock().now())
    return encode_record({"run": run.name, "schedule": run.schedule, "begins_at": begins_at})


def _as_text(run: Run) -> str:
    begins_at = run.schedule.begins_at(SystemClock().now())
    now = "" if begins_at is None or run.ended else f"\nnow: {run.schedule.reason(begins_at)}"
    chosen = run.throttled.chosen
    rate = "" if chosen is None or run.ended else f"\n{chosen_text(chosen)}"
    return f"steps of {run.name} begin {schedule_text(run.schedule)}{now}{rate}"
