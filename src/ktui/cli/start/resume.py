"""`ktui resume`: a new engine continues a run where its journal ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from ktui.cli.context.claim import claim_request, ownership_options
from ktui.cli.context.target import check_cluster, choose_target, cluster_names_of_run, warn_of_tls
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.recording import run_recorded_option
from ktui.cli.options.run import parse_until, until_option
from ktui.cli.output.gate import gate_line, shut_gate
from ktui.cli.process.launch import Launch, launch_left_run
from ktui.cli.process.left_run import read_left_run, reopens
from ktui.cli.run.runs import local_time
from ktui.cli.start.follow import EXIT_CODES, is_headless, show_run
from ktui.cluster.clock import SystemClock
from ktui.execution.forecast.progress_text import end_lines, run_ending
from ktui.execution.host.catalog import find_run
from ktui.execution.host.state_dir import StateDir


@click.command("resume")
@common.run_argument
@common.cluster_options
@until_option
@run_recorded_option
@click.option("--headless", is_flag=True, help="Show a progress line instead of the live view.")
@click.option("--json", is_flag=True, help="Print each new event as a line of JSON.")
@click.option("--concurrent", is_flag=True, help="Allow another live run on the cluster.")
@ownership_options
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    name: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    until: str | None,
    record: bool | None,
    headless: bool,
    json: bool,
    concurrent: bool,
    take_over: bool,
    no_ownership: bool,
    state: StateDir,
) -> None:
    """Resume RUN after a crash, an interrupt or a failure.

    The connection to the cluster is that of the start, unless an option names another. A pause from
    an interrupt is lifted; a pause from `ktui pause` stays. Recording is on or off as at the start,
    unless an option changes that for this time.

    Exit codes are those of `ktui start`.
    """
    until_at = parse_until(until, SystemClock().now())
    run_dir = find_run(state, name)
    left = read_left_run(run_dir)
    if left.damage is not None:
        print_note(f"damaged: {left.damage}. The run goes on from what comes before")
    if left.run.ended and not reopens(run_dir, left.run):
        print_note("\n".join(end_lines(left.run)))
        sys.exit(EXIT_CODES[run_ending(left.run)])
    if left.run.until is not None and until_at is None:
        print_note(
            f"its --until {local_time(left.run.until)} no longer holds. Set a time again: "
            "--until TIME"
        )
    shut = shut_gate(state, left.begun.cluster_id)
    if shut is not None:
        print_note(f"{gate_line(shut, state, name)}. Until then only cancels are submitted")
    where = choose_target(
        *cluster_names_of_run((bootstrap_server, command_config, context), left.begun)
    )
    warn_of_tls(where.cluster)
    asyncio.run(check_cluster(where, left.begun.cluster_id))
    owner = claim_request(
        where.cluster, state, left.begun.cluster_id, name, off=no_ownership, take_over=take_over
    )
    launch = Launch(
        state=state,
        name=name,
        cluster_id=left.begun.cluster_id,
        names=where.names,
        until=until_at,
        concurrent=concurrent,
        record=record,
        owner=owner,
    )
    code = show_run(
        lambda: launch_left_run(launch),
        where,
        state,
        headless=is_headless(headless=headless, json=json),
        json=json,
        after=left.run.seq,
    )
    sys.exit(code)
