"""`ktui record`: record a cluster without a view, for `ktui replay`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.context.errors import BadInput
from ktui.cli.context.lazy_group import LazyGroup, refuse_options_before_verb
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.recording import recorder, recording_options
from ktui.cli.record.copy import copy_redacted
from ktui.cli.record.loop import StopCondition, record
from ktui.cli.record.pruning import given_limits, prune_as_configured
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir

_VERBS = {"prune": "ktui.cli.record.prune:command"}


@click.command("record", cls=LazyGroup, verbs=_VERBS, invoke_without_command=True)
@cluster_options
@common.topics_option("Also record every partition of this topic; may be repeated.")
@common.poll_interval_option
@click.option("--for", "for_", metavar="TIME", help="Stop after this time, such as 90s or 2h.")
@click.option(
    "--until-idle",
    is_flag=True,
    help="Stop once nothing has moved, and no run has been active, for 10 s.",
)
@recording_options
@click.option(
    "--older-than",
    metavar="TIME",
    help="Prune the state directory first, and again each day: remove recordings older than this, "
    "such as 30d.",
)
@click.option(
    "--keep",
    metavar="SIZE",
    help="Prune the state directory first, and again each day: remove the oldest recordings beyond "
    "this size, such as 20GB.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    metavar="RECORDING",
    help="Copy this file or folder instead of recording a cluster; needs --redact and --to.",
)
@click.option("--json", is_flag=True, help="Print one line of JSON for each poll.")
@common.state_dir_option
@click.pass_context
def command(  # noqa: PLR0913 - an option each
    context: click.Context,
    choice: ClusterChoice,
    *,
    topics: tuple[str, ...],
    poll_interval: float | None,
    for_: str | None,
    until_idle: bool,
    to: Path | None,
    redact: bool,
    older_than: str | None,
    keep: str | None,
    source: Path | None,
    json: bool,
    state: StateDir,
) -> None:
    """Record the reassignments of a cluster to files, until Ctrl-C.

    A recording holds what a live view sees. It includes the events of runs whose engines are on
    this machine. Changes nothing on the cluster. `ktui record prune` removes old recordings.

    Exit code 0 if the recording is complete, 1 if it had to stop early, 130 if it was interrupted
    before the end that --for or --until-idle sets.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_verb(context)
        return
    until = StopCondition(_seconds(for_), idle=until_idle)
    limits = given_limits(older_than, keep)
    if source is not None:
        if any(choice) or topics or poll_interval or for_ or until_idle or limits:
            raise BadInput(
                "--from copies a recording, so it takes no cluster, no limits and no polling "
                "options. Give it with --redact and --to alone"
            )
        _copy(source, to, state, redact=redact, json=json)
        return
    if limits is not None and to is not None:
        raise BadInput(
            "--older-than and --keep prune the state directory, and --to records elsewhere. Leave "
            "them out, or prune that folder: ktui record prune --recordings DIR"
        )
    cluster = choice.cluster()
    clock, named = SystemClock(), cluster.name
    for warning in prune_as_configured(state, limits):
        print_note(warning)
    limited = limits is not None
    records = recorder(
        state, to, clock, cluster=named, verb="record", redact=redact, limited=limited
    )
    interval_s = poll_interval or cluster.context.poll_interval
    code = asyncio.run(
        record(
            cluster, records, state, frozenset(topics), interval_s, until, limits=limits, json=json
        )
    )
    sys.exit(code)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = common.parse_time("--for", text)
    if seconds <= 0:
        raise BadInput("--for: give a time above 0, such as 90s or 2h")
    return seconds


def _copy(source: Path, to: Path | None, state: StateDir, *, redact: bool, json: bool) -> None:
    if not redact:
        raise BadInput(
            "--from makes a copy without names, and needs --redact. To keep the names, copy the "
            "files yourself"
        )
    if to is None:
        raise BadInput("--from needs a folder for the copy. Name one with --to DIR")
    copy_redacted(source, to, state, json=json)
