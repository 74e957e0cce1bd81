"""`ktui throttle`: show or change how fast a run may copy, and show its settings on Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.doctor.permissions import check_throttle_permitted
from ktui.cli.options import common
from ktui.cli.options.throttle import parse_rates_option
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table
from ktui.cli.output.throttle_json import ThrottleJson, throttle_json
from ktui.cli.process.send_command import run_with_engine, send_command
from ktui.cluster.ports import ConfigScope
from ktui.cluster.text import clean
from ktui.execution.host.catalog import find_run
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import LeaveThrottles, SetThrottle
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_standing import (
    changed_settings,
    left_throttle_text,
    prior_value_text,
    throttle_wait_text,
)
from ktui.planning.names import join_some
from ktui.quantities import as_rate

MOST_ENTRIES = 10
"""Entries shown of a list; --json has all."""


class RunThrottleJson(msgspec.Struct, frozen=True):
    """The output of `ktui throttle RUN --json` without a change."""

    schema_version: int
    run: str
    throttle: ThrottleJson


@click.command("throttle")
@common.run_argument
@click.argument("rate", metavar="[RATE]", required=False)
@click.option(
    "--leave-behind",
    is_flag=True,
    help="End a run that has nothing left to move, and leave its throttle where it cannot be "
    "removed.",
)
@common.state_dir_option
@common.json_option
def command(
    name: str, rate: str | None, *, leave_behind: bool, state: StateDir, json: bool
) -> None:
    """Show the throttle of RUN and all that it has set, or change its RATE.

    RATE is the bytes a second that each broker may receive for replicas being added: 50MB, or
    50MB,3=20MB with another rate for broker 3, or none to lift the throttle. A new rate takes
    effect at once, also for steps in flight. Waits up to 30 s for the engine's answer.
    """
    if leave_behind and rate is not None:
        raise BadInput("--leave-behind: takes no RATE. Give one of the two")
    run_dir = find_run(state, name)
    if rate is not None:
        rates = parse_rates_option("RATE", rate)
        run = run_with_engine(run_dir)
        if rates:
            check_throttle_permitted(run)
        send_command(run_dir, SetThrottle(rates), json=json)
        return
    if leave_behind:
        _check_over(run_with_engine(run_dir))
        send_command(run_dir, LeaveThrottles(), json=json)
        return
    with RunFollower(run_dir.journal) as follower:
        follower.refresh()
    owned = holder(run_dir) is not None
    click.echo(_as_json(follower.run, owned=owned) if json else _as_text(follower.run, owned=owned))


def _check_over(run: Run) -> None:
    """Check that nothing is left to move: by then all that can be unthrottled is."""
    if run.over < len(run.tracks):
        raise BadInput(
            f"--leave-behind: run {run.name} still moves partitions, and removes its throttle "
            f"after them. To lift it now: ktui throttle {run.name} none"
        )


def _as_json(run: Run, *, owned: bool) -> str:
    return encode(RunThrottleJson(SCHEMA_VERSION, run.name, throttle_json(run, owned=owned)))


def _as_text(run: Run, *, owned: bool) -> str:
    blocks = ["\n".join(_facts(run, owned=owned))]
    rows = list(_rows(run))
    if rows:
        blocks.append(table(("ON", "SETTING", "OURS", "BEFORE"), rows))
    return "\n\n".join(blocks)


def _facts(run: Run, *, owned: bool) -> Iterator[str]:
    throttled = run.throttled
    words = throttled.rates.with_leaders(throttled=run.options.throttle_leaders)
    none = "" if changed_settings(throttled) else "; not set on any broker or topic now"
    yield f"throttle of {run.name}: {words}{none}"
    if throttled.refusal:
        yield f"refused: {clean(throttled.refusal)}"
    if waits := throttle_wait_text(run):
        yield f"{waits}. If that never changes: ktui throttle {run.name} --leave-behind"
    if not owned and (why := left_throttle_text(run)):
        yield f"{why}; to resume it: ktui resume {run.name}"


def _rows(run: Run) -> Iterator[tuple[str, ...]]:
    for (resource, name), ours in changed_settings(run.throttled).items():
        if resource.scope is ConfigScope.BROKER:
            there = " or ".join(map(_rate, sorted(ours.values)))
        else:
            there = join_some(sorted(ours.values), told=MOST_ENTRIES)
        sure = " (not confirmed)" if ours.unsure else ""
        on = f"{resource.scope} {resource.name}"
        yield on, name, f"{there or 'none'}{sure}", clean(_rate(prior_value_text(ours.before)))


def _rate(text: str) -> str:
    """Add a unit to a rate; return any other text unchanged."""
    return f"{text} ({as_rate(int(text))})" if text.isdecimal() else text
