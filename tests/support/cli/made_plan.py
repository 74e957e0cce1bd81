"""A cluster to make plans for, and `ktui plan VERB` on it."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.inputfile import FileProblem
from ktui.planning.plan import Plan
from ktui.planning.read.read import read_plan
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from support.simulated.moving_clusters import Replicas

GIB = 1024**3
DISK = 100 * GIB
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
ORDERS: tuple[Replicas, ...] = ((1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 3), (5, 3, 1), (3, 1, 2))
PAYMENTS: tuple[Replicas, ...] = ((3, 1, 2), (2, 3, 1))
INTERNAL: tuple[Replicas, ...] = ((2, 3, 4), (3, 4, 5))


def cluster(
    *, racks: dict[int, str] | None = None, internal: bool = False, **orders: str
) -> SimulatedCluster:
    """Return six brokers, of which the last is new: it has nothing.

    Args:
        racks: by broker; a broker without one has none.
        internal: whether the cluster has the topic of Kafka's consumer offsets, too.
        orders: settings of topic orders, with underscores for dots.
    """
    of_orders = {name.replace("_", "."): value for name, value in orders.items()}
    topics = [
        TopicSpec(name="orders", replicas=ORDERS, bytes_each=2 * GIB, configs=of_orders),
        TopicSpec(name="payments", replicas=PAYMENTS, bytes_each=GIB),
    ]
    if internal:
        topics.append(TopicSpec(name="__consumer_offsets", replicas=INTERNAL, bytes_each=GIB))
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=broker, rack=(RACKS if racks is None else racks).get(broker),
                       disk_bytes=DISK) for broker in RACKS
        ),
        topics=tuple(topics),
        auto_leader_rebalance=False,
        shutdown_s=0.0,
    )  # fmt: skip
    return SimulatedCluster(spec, VirtualClock())


def plan(*arguments: str) -> Result:
    """Run `ktui plan`."""
    return CliRunner().invoke(ktui, ["plan", *arguments])


def made(*arguments: str, exit_code: int = 0) -> dict[str, Replicas]:
    """Make a plan, and return the replicas of each of its partitions."""
    result = plan(*arguments)
    assert result.exit_code == exit_code, (result.output, result.exception)
    return targets(read_plan(result.stdout.encode()))


def targets(of: Plan) -> dict[str, Replicas]:
    return {str(each.tp): each.replicas for each in of.partitions}


def made_json(*arguments: str, exit_code: int = 0) -> Any:
    """Make a plan with --json, and return the object."""
    result = plan(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (exit_code, ""), (result.output, result.exception)
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    """Run a verb that makes no plan, and return why."""
    result = plan(*arguments)
    assert result.stdout == ""
    if result.exit_code == 2:
        return result.stderr
    expected = (BadInput, FileProblem)
    assert isinstance(result.exception, expected), (result.output, result.exception)
    return str(result.exception)
