"""Read what a broker holds, with the runs of the state directory that take it away."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import aclosing
from typing import Any

import click

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import Verb
from ktui.cli.plan.make_options import EXCLUDE, parse_patterns
from ktui.execution.broker.facts import read_broker, read_metadata
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.broker.status import BrokerStatus, find_status, unknown_broker
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.state_dir import StateDir

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
    disks: bool = True,
    exclude: Collection[str] = (),
) -> BrokerStatus:
    """Read what a broker holds, and why.

    Args:
        cluster: the cluster.
        state: the state directory whose runs take replicas away.
        broker: the broker's id.
        fresh: whether the metadata has to be proven to be no older than the call.
        disks: whether to ask the broker itself; without that, it need not be known.
        exclude: the topics that are left out, as names or shell patterns.

    Raises:
        BadInput: the cluster does not know the broker.
        ClusterError: the cluster cannot be read.
        RunProblem: the state directory cannot be read.
    """
    async with aclosing(cluster.reader()) as reader:
        read = read_broker if disks else read_metadata
        facts = await read(reader, broker, fresh=fresh)
    if disks and not facts.known:
        raise BadInput(unknown_broker(broker, facts.brokers))
    runs = [(run, owner is not None) for run, owner in unfinished_runs(state, facts.cluster_id)]
    removal = RemovalFile(state, facts.cluster_id, broker).load()
    return find_status(facts, runs, fresh=fresh, removal=removal, exclude=exclude)
