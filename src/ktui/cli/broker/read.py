"""Read what a broker holds, with the runs of the state directory that take it away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import aclosing
from typing import Any

import click

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options.common import Verb
from ktui.cli.plan.make_options import EXCLUDE, parse_patterns
from ktui.execution.broker.status import BrokerStatus, unknown_broker
from ktui.execution.host.state_dir import StateDir
from ktui.ops.broker import runs
from ktui.planning.intents.layout import Layout

broker_argument = click.argument("broker", metavar="ID", type=click.IntRange(0))


def exclude_option(purpose: str) -> Callable[[Verb[Any]], Verb[Any]]:
    """Return the option that leaves topics out, as `exclude`."""
    return click.option(
        EXCLUDE, metavar="T,...", multiple=True, callback=parse_patterns, help=purpose
    )


async def read_view(
    cluster: Cluster,
    state: StateDir,
    broker: int,
    *,
    fresh: bool = False,
    exclude: Collection[str] = (),
) -> BrokerStatus:
    """Read what a broker holds, and why. Args, Raises: as `read_status`.

    Raises:
        BadInput: the cluster does not know the broker.
    """
    async with aclosing(cluster.reader()) as reader:
        status = await runs.read_status(reader, state, broker, fresh=fresh, exclude=exclude)
    if not status.facts.known:
        raise BadInput(unknown_broker(broker, status.facts.brokers))
    return status


def read_plan_layout(cluster: Cluster) -> Layout:
    """Read what plans are made from, and warn of what could not be read.

    Raises:
        ClusterError: the cluster cannot be read.
    """

    async def read() -> Layout:
        async with aclosing(cluster.reader()) as reader:
            return await runs.read_plan_layout(reader, print_note)

    return asyncio.run(read())
