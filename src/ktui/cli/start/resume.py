"""`ktui resume`: a new engine continues a run where its journal ends."""

from __future__ import annotations

import asyncio
import sys

import click

from ktui.cli.context.claim import claim_request, ownership_options
from ktui.cli.context.cluster import ClusterChoice, Target, check_cluster, warn_of_tls
from ktui.cli.context.terminal import print_note
from ktui.cli.doctor.permissions import find_missing_for_throttle
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.outward import metrics_file_option, on_event_option
from ktui.cli.options.recording import run_recorded_option
from ktui.cli.options.run import concurrent_option, headless_option, parse_until, until_option
from ktui.cli.output.gate import gate_line, shut_gate
from ktui.cli.process.launch import Launch, launch_left_run
from ktui.cli.run.runs import local_time
from ktui.cli.start.follow import EXIT_CODES, is_headless, show_run
from ktui.cluster.clock import SystemClock
from ktui.execution.forecast.progress_text import end_lines, run_ending
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import OwnedElsewhere
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.run import Run
from ktui.execution.run.scope import CancelScope


@click.command("resume")
@common.run_argument
@cluster_options
@until_option
@run_recorded_option
@on_event_option
@metrics_file_option
@headless_option
@click.option("--json", is_flag=True, help="Print each new event as a line of JSON.")
@concurrent_option
@ownership_options
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    name: str,
    choice: ClusterChoice,
    *,
    until: str | None,
    record: bool | None,
    on_event: str | None,
    metrics_file: str | None,
    headless: bool,
    json: bool,
    concurrent: bool,
    take_over: bool,
    no_ownership: bool,
    state: StateDir,
) -> None:
    """Resume RUN after a crash, an interrupt or a failure.

    The connection to the cluster is that of the start, unless an option names another. A pause from
    an interrupt is lifted; a pause from `ktui pause` stays. Recording, --on-event and
    --metrics-file are as at the start, unless an option changes that for this time.

    Exit codes are those of `ktui start`.
    """
    until_at = parse_until(until, SystemClock().now())
    client = RunClient.find(state, name)
    left = _read_left(client)
    if left.damage is not None:
        print_note(f"damaged: {left.damage}. The run goes on from what comes before")
    if left.run.ended and not _reopens(client, left.run):
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
    where = choice.or_of_run(left.begun).target()
    warn_of_tls(where.cluster)
    asyncio.run(_check_cluster(where, left))
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
        on_event=on_event,
        metrics_file=metrics_file,
        owner=owner,
    )
    code = show_run(
        lambda: launch_left_run(launch),
        where,
        state,
        headless=is_headless(headless=headless, json=json),
        json=json,
        after=left.run.seq,
        on_event=on_event,
    )
    sys.exit(code)


def _read_left(client: RunClient) -> BegunRun:
    if (owner := client.owner) is not None:
        raise OwnedElsewhere(client.name, owner)
    left = client.read_begun()
    refuse_exported(left.run)
    return left


async def _check_cluster(where: Target, left: BegunRun) -> None:
    """Check that the cluster is the run's, and warn of permissions that its throttle lacks.

    The run is resumed without them, too: it may have steps in flight.
    """
    await check_cluster(where, left.begun.cluster_id)
    if left.run.throttles:
        rates = left.run.throttled.rates
        for finding in await find_missing_for_throttle(left.run, where.cluster, rates):
            print_note(f"warning: {finding.sentence}")


def _reopens(client: RunClient, run: Run) -> bool:
    return any(
        not CancelScope(run, command.kind, command.topics, command.partitions).idle
        for command in client.unanswered()
        if isinstance(command, CancelMoves)
    )
