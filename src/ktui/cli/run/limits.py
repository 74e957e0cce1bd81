"""`ktui limits`: show or change how much of a run may move at once, and how."""

from __future__ import annotations

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.options import common
from ktui.cli.options.limits import (
    GivenLimits,
    check_limits,
    limit_changes,
    limits_brokers_option,
    limits_change,
)
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table
from ktui.cli.process.send_command import send_command
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.host.undo import undo_limits
from ktui.execution.run.run import Run
from ktui.pacing.limits import CHOICES, NUMBERS, OF_ONE_BROKER, Limits, limit_text


class LimitsJson(msgspec.Struct, frozen=True):
    """The output of `ktui limits RUN --json` without a change."""

    schema_version: int
    run: str
    limits: Limits
    since_batch: int
    """The first decision that the limits bind."""


@click.command("limits")
@common.run_argument
@limits_brokers_option
@limit_changes
@click.option("--undo", is_flag=True, help="Put back the limits from before your last change.")
@common.state_dir_option
@common.json_option
def command(
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
    click.echo(_as_json(run) if json else _as_text(run))


def _as_json(run: Run) -> str:
    return encode(LimitsJson(SCHEMA_VERSION, run.name, run.limits, run.limits_changed_at + 1))


def _as_text(run: Run) -> str:
    rows = [(f"--{option}", _value(run.limits, option)) for option in (*NUMBERS, *CHOICES)]
    own = (
        (f"--broker {broker} --{option}", limit_text(option, value))
        for option in OF_ONE_BROKER
        for broker, value in run.limits.own_of(option).items()
    )
    return table((f"LIMITS OF {run.name}", "IN FORCE"), [*rows, *own])


def _value(limits: Limits, option: str) -> str:
    return limit_text(option, getattr(limits, option.replace("-", "_")))
