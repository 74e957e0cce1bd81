"""Read what a broker holds, with the runs of the state directory that take it away."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing

import click
import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BadInput
from ktui.execution.broker.facts import BrokerFacts, read_broker, read_metadata
from ktui.execution.broker.holdings import Holdings, claims_on, find_holdings
from ktui.execution.broker.removal import Removal, RemovalFile
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.state_dir import StateDir
from ktui.planning.names import join_named

broker_argument = click.argument("broker", metavar="ID", type=click.IntRange(0))


class BrokerView(msgspec.Struct, frozen=True):
    """A broker, its replicas, and the runs that have to do with them."""

    facts: BrokerFacts
    holdings: Holdings
    without_engine: tuple[str, ...] = ()
    """The unfinished runs that have to do with its replicas, and that no engine carries on."""
    removal: Removal | None = None
    """Its removal, as the state directory remembers it; None for none."""


async def read_view(
    cluster: Cluster, state: StateDir, broker: int, *, fresh: bool = False, disks: bool = True
) -> BrokerView:
    """Read what a broker holds, and why.

    Args:
        cluster: the cluster.
        state: the state directory whose runs take replicas away.
        broker: the broker's id.
        fresh: whether the metadata has to be proven to be no older than the call.
        disks: whether to ask the broker itself; without that, it need not be known.

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
    runs = list(unfinished_runs(state, facts.cluster_id))
    claims = claims_on(broker, [run for run, _ in runs], facts.states)
    holdings = find_holdings(facts, claims, {run.name for run, _ in runs})
    concerned = {each.run for each in holdings.replicas}
    idle = (run.name for run, owner in runs if owner is None and run.name in concerned)
    removal = RemovalFile(state, facts.cluster_id, broker).load()
    return BrokerView(facts, holdings, tuple(sorted(idle)), removal)


def unknown_broker(broker: int, known: Collection[int]) -> str:
    """Return the error for a broker that the cluster does not have."""
    return (
        f"the cluster has {join_named('broker', sorted(known), most=20)}, no broker {broker}. "
        "Before 4.1, Kafka does not name a broker that is down"
    )
