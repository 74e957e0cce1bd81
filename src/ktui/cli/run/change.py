"""The verbs that change a run a little: limits, schedule, pause and continue, and a note."""

from __future__ import annotations

from datetime import datetime

import click

from ktui.cli.context.option import GroupedCommand, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cli.options import common
from ktui.cli.options.run import schedule_options
from ktui.cli.options.throttle import (
    GivenLimits,
    check_limits,
    limit_changes,
    limits_brokers_option,
    limits_change,
)
from ktui.cli.output.json_form import encode_record
from ktui.cli.process import send_command
from ktui.cluster.clock import SystemClock
from ktui.columns import table
from ktui.execution.host.client import RunClient, undo_limits, write_note
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Continue, Pause, SetSchedule
from ktui.execution.run.run import Run
from ktui.execution.run.text import chosen_text, schedule_text
from ktui.pacing.limits import CHOICES, NUMBERS, OF_ONE_BROKER, limit_text


@click.command("limits", cls=GroupedCommand)
@common.run_argument
@limits_brokers_option
@limit_changes
@add_option("--undo", "Restore the limits from before your last change.")
@common.state_dir_option
@common.json_option
def limits_command(
    name: str,
    *,
    limits: GivenLimits,
    brokers: tuple[int, ...],
    undo: bool,
    state: StateDir,
    json: bool,
) -> None:
    """Show or change the limits of RUN; unnamed ones keep their value.

    New limits bind from the next decision on. Steps in flight stay as they are. Waits up to 30 s
    for the engine's answer, which names that decision. Without an engine nothing changes: resume
    the run first.

    With --broker, limits are set for one broker alone, and the run's stay as they are.
    """
    if undo and (limits or brokers):
        raise BadInput("--undo: takes no other limits. Give one of the two")
    if not brokers:
        check_limits(limits)
    client = RunClient.find(state, name)
    if undo:
        send_command(client, undo_limits(client.read_live()).command, json=json)
        return
    if limits or brokers:
        send_command(client, limits_change(client.read_live(), limits, brokers), json=json)
        return
    run = client.read().run
    since = run.limits_changed_at + 1  # the first decision that the limits bind
    answer = {"run": run.name, "limits": run.limits, "since_batch": since}
    click.echo(encode_record(answer) if json else _limits_text(run))


def _limits_text(run: Run) -> str:
    rows = [
        (f"--{option}", limit_text(option, getattr(run.limits, option.replace("-", "_"))))
        for option in (*NUMBERS, *CHOICES)
    ]
    own = (
        (f"--broker {broker} --{option}", limit_text(option, value))
        for option in OF_ONE_BROKER
        for broker, value in run.limits.own_of(option).items()
    )
    return table((f"LIMITS OF {run.name}", "IN FORCE"), [*rows, *own])


@click.command("schedule")
@common.run_argument
@schedule_options
@common.state_dir_option
@common.json_option
def schedule_command(name: str, *, schedule: SetSchedule, state: StateDir, json: bool) -> None:
    """Show or change when the steps of RUN may begin, and by when it is done.

    What is not named stays.

    A change holds at once. Steps in flight finish whenever they do. Waits up to 30 s for the
    engine's answer. Without an engine nothing changes: resume the run first.
    """
    client = RunClient.find(state, name)
    if schedule != SetSchedule():
        live = client.read_live()
        if isinstance(schedule.by, datetime):
            # only this asks a cluster: the other verbs load no Kafka client
            from ktui.cli.run.throttle import check_throttle_permitted  # noqa: PLC0415

            check_throttle_permitted(live)
        send_command(client, schedule, json=json)
        return
    run = client.read().run
    begins_at = run.schedule.begins_at(SystemClock().now())
    answer = {"run": run.name, "schedule": run.schedule, "begins_at": begins_at}
    click.echo(encode_record(answer) if json else _schedule_text(run, begins_at))


def _schedule_text(run: Run, begins_at: datetime | None) -> str:
    now = "" if begins_at is None or run.ended else f"\nnow: {run.schedule.reason(begins_at)}"
    chosen = run.throttled.chosen
    rate = "" if chosen is None or run.ended else f"\n{chosen_text(chosen)}"
    return f"steps of {run.name} begin {schedule_text(run.schedule)}{now}{rate}"


@click.command("continue")
@common.run_argument
@common.scope_options
@common.state_dir_option
@common.json_option
def continue_(name: str, *, scope: common.Scope, state: StateDir, json: bool) -> None:
    """Lift pauses of RUN: those of the named topics, partitions and brokers, or else all.

    --broker lifts the pause of each partition that has ever had to do with the broker in RUN.

    Waits up to 30 s for the engine's answer. A run without an engine is not paused: start one with
    `ktui resume`.
    """
    client = RunClient.find(state, name)
    topics, partitions = scope.within(client.read_live(), ever=True)
    send_command(client, Continue(topics=topics, partitions=partitions), json=json)


@click.command("pause")
@common.run_argument
@common.scope_options
@common.state_dir_option
@common.json_option
def pause(name: str, *, scope: common.Scope, state: StateDir, json: bool) -> None:
    """Pause RUN: steps in flight finish, and no new ones are submitted.

    `ktui continue` lifts the pause. Waits up to 30 s for the engine's answer.
    """
    client = RunClient.find(state, name)
    topics, partitions = scope.within(client.read_live())
    send_command(client, Pause(topics=topics, partitions=partitions), json=json)


@click.command("note")
@common.run_argument
@click.argument("text", metavar="TEXT", nargs=-1, required=True)
@common.state_dir_option
def note_command(name: str, text: tuple[str, ...], *, state: StateDir) -> None:
    """Write TEXT among the events of RUN, with your name and the time.

    `ktui status` and `ktui runs` show notes, and so does `e` in the view. The run may be live, wait
    for resume or have ended. Nothing is sent to the cluster.
    """
    write_note(RunClient.find(state, name), " ".join(text))
    click.echo(f"run {name}: noted")
