"""A simulated cluster that an observer polls; the test moves time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec
from support.simulated.counting_reader import CountingReader

ORDERS = TopicPartition("orders", 0)
MESSAGES = 10_000
"""Messages in each partition; a new replica copies 100 of them per second."""
MESSAGE_BYTES = 1_000
PATIENCE_S = 0.25
EVERYONE = (1, 2, 3, 4, 5)


def a_topic(name: str, *replicas: tuple[int, ...]) -> TopicSpec:
    return TopicSpec(
        name=name,
        replicas=replicas,
        bytes_each=MESSAGES * MESSAGE_BYTES,
        message_bytes=MESSAGE_BYTES,
    )


class Looking:
    """An observer of a simulated cluster, with a record of its calls and control of time."""

    def __init__(self, topics: Collection[TopicSpec], patience_s: float, version: str) -> None:
        brokers = tuple(BrokerSpec(id=b, net_in=100.0 * MESSAGE_BYTES) for b in EVERYONE)
        spec = ClusterSpec(brokers=brokers, topics=tuple(topics), version=version)
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(spec, self.clock)
        self.reader = CountingReader(self.cluster.reader())
        self.observer = Observer(self.reader, self.clock, patience_s=patience_s)

    async def do(self, *happening: layout.OutsideEvent, then_wait_s: float = 0.0) -> None:
        for act in happening:
            self.cluster.do(act)
        await self.clock.advance(then_wait_s)

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        """Poll once, and let the rest of the second pass."""
        looking = asyncio.create_task(self.observer.poll(interest))
        await self.clock.advance(1.0)
        return await looking


@asynccontextmanager
async def looking(
    *topics: TopicSpec, patience_s: float = PATIENCE_S, version: str = VERSIONS[-1]
) -> AsyncIterator[Looking]:
    look = Looking(topics, patience_s, version)
    yield look
    await look.observer.aclose()


@asynccontextmanager
async def looking_at_a_move(
    *more: TopicSpec, patience_s: float = PATIENCE_S, version: str = VERSIONS[-1]
) -> AsyncIterator[Looking]:
    """Start a move of orders-0 from [2,1,3] to [4,1,3]; broker 4 has 500 messages of it."""
    orders = a_topic("orders", (2, 1, 3))
    async with looking(orders, *more, patience_s=patience_s, version=version) as look:
        await look.do(layout.Alter({ORDERS: (4, 1, 3)}), then_wait_s=5.0)
        yield look
