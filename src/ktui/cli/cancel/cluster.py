"""`ktui cancel --cluster`: cancel every reassignment that the cluster lists, whoever began it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, closing
from functools import partial
from typing import NoReturn

import click

from ktui.cli.cancel.report import found_text, outcome_text, report_json
from ktui.cli.context.claim import check_no_other_owner, claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.errors import INTERRUPTED
from ktui.cli.options.on_cluster import check_on_cluster
from ktui.cli.output.json_form import encode
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Observer
from ktui.cluster.ports import ClusterReader
from ktui.execution.host.state_dir import StateDir
from ktui.ops.cancel import CancelRequest, ClusterCancel

CANCELLING = "ktui cancel --cluster"
"""The name in an ownership claim, where a run would be."""
_SLOW_BROKER_S = 2.0
"""Seconds that one poll waits for a slow broker's settings."""


def cancel_on_cluster(
    choice: ClusterChoice, state: StateDir, request: CancelRequest, *, json: bool
) -> NoReturn:
    """Cancel the reassignments of a cluster, and end the program.

    The exit code is 0 if everything is stopped or rolling back, 3 if something is not, and 2 if
    nothing was sent.

    Raises:
        BadInput: no such cluster, topic or partition, or the context is read-only.
        ClusterError: the cluster does not answer; nothing was sent.
        RunProblem: the state directory cannot be used, or another one owns the cluster.
    """
    cluster = choice.cluster() if request.dry_run else choice.target().cluster
    sys.exit(asyncio.run(_cancelled(cluster, state, request, json=json)))


async def _cancelled(
    cluster: Cluster, state: StateDir, request: CancelRequest, *, json: bool
) -> int:
    clock = SystemClock()
    async with (
        aclosing(cluster.reader()) as reader,
        aclosing(cluster.writer()) as writer,
        aclosing(Observer(reader, clock, patience_s=_SLOW_BROKER_S)) as observer,
    ):
        refuse_owned = partial(_refuse_owned, cluster, reader, state, request)
        cancel = ClusterCancel(
            observer, writer, clock, state=state, request=request, refuse_owned=refuse_owned
        )
        with closing(cancel):
            if not request.dry_run:
                await refuse_owned()
            seen = await cancel.look()
            named = (request.topics, request.partitions, request.brokers)
            await check_on_cluster(reader, clock, seen, *named)
            cancel.find(seen)
            if not json:
                click.echo(found_text(cancel))
            if not request.dry_run:
                await cancel.carry_out()
    if json:
        click.echo(encode(report_json(cluster.name, cancel)))
    elif outcomes := outcome_text(cancel):
        click.echo(f"\n{outcomes}")
    if cancel.interrupted:
        return INTERRUPTED
    return 0 if request.dry_run or cancel.as_asked else NOT_ALL_DONE


async def _refuse_owned(
    cluster: Cluster, reader: ClusterReader, state: StateDir, request: CancelRequest
) -> None:
    described = await reader.describe_cluster()
    how = claim_request(
        cluster, state, described.cluster_id, CANCELLING, take_over=request.take_over
    )
    if how is not None:
        await check_no_other_owner(how)
