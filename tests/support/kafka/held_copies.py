"""Copies that make no progress until they are released, and a check that nobody altered them."""

from __future__ import annotations

from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.lab.layout import Lab
from support.contract.real_world import RealWorld
from support.contract.world import RATE, change, setting
from support.kafka.metadata_log import Alter, alters, dumped, partitions_among

BYTES_EACH = 512 * 1024
"""Bytes per partition: too many for a single fetch."""


async def slow_down(world: RealWorld, *brokers: int) -> None:
    """Throttle brokers to almost nothing for the replicas that `hold` lists."""
    rates = (setting(ConfigScope.BROKER, str(b), RATE, ConfigOp.SET, "1000") for b in brokers)
    await change(world, *rates)


async def hold(world: RealWorld, topic: str, *replicas: str) -> None:
    """Keep replicas like "0:4" (a partition and a broker) from being copied."""
    listed = ",".join(replicas)
    entry = setting(ConfigScope.TOPIC, topic, FOLLOWER_REPLICAS, ConfigOp.SET, listed)
    await change(world, entry)


async def let_go(world: RealWorld, *topics: str) -> None:
    """Release the held replicas of some topics."""
    lists = (setting(ConfigScope.TOPIC, t, FOLLOWER_REPLICAS, ConfigOp.DELETE) for t in topics)
    await change(world, *lists)


def altered_while_moving(lab: Lab, *topics: str) -> list[Alter]:
    """Return the alters of partitions that were moving already, without cancels."""
    records = list(dumped(lab))
    found = (alter for topic in topics for alter in alters(partitions_among(records, topic)))
    return [alter for alter in found if alter.while_moving and alter.adding]
