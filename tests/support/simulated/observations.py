"""Observations made by hand, each described in one line, and polls of simulated clusters."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import msgspec

from ktui.cluster.broker import Broker
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec
from support.simulated.moving_clusters import TARGET, Replicas, a_cluster, tp, wait
from support.simulated.witness import CountingReader

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


def a_partition(
    tp: TopicPartition = T0,
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    isr: tuple[int, ...] | None = None,
    topic_id: str | None = "",
    **more: Any,
) -> PartitionState:
    """Return a partition, by default all in sync and led by its first replica."""
    values: dict[str, Any] = {
        "isr": replicas if isr is None else isr,
        "leader": replicas[0] if replicas else None,
        "leader_epoch": 1,
    }
    named = f"id-of-{tp.topic}" if topic_id == "" else topic_id
    return PartitionState(tp, named, replicas, **{**values, **more})


def a_move(
    tp: TopicPartition = T0,
    original: tuple[int, ...] = (1, 2, 3),
    target: tuple[int, ...] = (4, 2, 3),
    **more: Any,
) -> PartitionState:
    """Return a partition that the controller lists as moving from `original` to `target`."""
    adding = tuple(b for b in target if b not in original)
    removing = tuple(b for b in original if b not in target)
    values: dict[str, Any] = {"isr": original, "leader": original[0]}
    return a_partition(
        tp, (*target, *removing), adding=adding, removing=removing, **{**values, **more}
    )


def an_observation(
    partitions: Iterable[PartitionState] = (),
    at_s: float = 0.0,
    *,
    brokers: Collection[int] = range(1, 10),
    down: Collection[int] = (),
    ends: Mapping[tuple[TopicPartition, int], int | Reading] | None = None,
    starts: Mapping[TopicPartition, int | Reading] | None = None,
    sizes: Mapping[tuple[TopicPartition, int], int | Reading] | None = None,
    **more: Any,
) -> Observation:
    """Return a poll at `at_s` seconds after START; plain figures were read at that time."""
    values: dict[str, Any] = {
        "cluster_id": "a-cluster",
        "controller": min(brokers, default=None),
        "brokers": {b: Broker(b, "127.0.0.1", 9000 + b, alive=b not in down) for b in brokers},
        "partitions": {state.tp: state for state in partitions},
        "ends": {Replica(*key): _reading(value, at_s) for key, value in (ends or {}).items()},
        "starts": {tp: _reading(value, at_s) for tp, value in (starts or {}).items()},
        "sizes": {Replica(*key): _reading(value, at_s) for key, value in (sizes or {}).items()},
        "at": START + timedelta(seconds=at_s),
        "monotonic_s": at_s,
        "took_s": 0.01,
    }
    return Observation(**{**values, **more})


def _reading(value: int | Reading, at_s: float) -> Reading:
    return value if isinstance(value, Reading) else Reading(value, at_s)


def folded(observations: Iterable[Observation], progress: Progress | None = None) -> Progress:
    """Fold all observations in order."""
    return reduce(fold, observations, progress or Progress())


def at(observation: Observation, at_s: float) -> Observation:
    """Return the same poll at another second; its figures keep the time of their read."""
    return msgspec.structs.replace(
        observation, at=START + timedelta(seconds=at_s), monotonic_s=at_s
    )


class Recorder:
    """Polls a cluster repeatedly; between two recordings anything may happen to the cluster."""

    def __init__(self, cluster: SimulatedCluster, interest: Interest = NO_INTEREST) -> None:
        assert isinstance(cluster.clock, VirtualClock)
        self._clock = cluster.clock
        self._observer = Observer(cluster.reader(), cluster.clock)
        self._interest = interest

    def record(self, seconds: float = 1.0, *, poll_s: float = 1.0) -> list[Observation]:
        """Let `seconds` pass, and poll at the beginning of each `poll_s` of them."""
        return asyncio.run(self._record(round(seconds / poll_s), poll_s))

    async def _record(self, polls: int, poll_s: float) -> list[Observation]:
        seen = []
        for _ in range(polls):
            looking = asyncio.create_task(self._observer.poll(self._interest))
            await self._clock.advance(poll_s)
            seen.append(await looking)
        return seen


def recorded(
    cluster: SimulatedCluster, seconds: float = 1.0, *, poll_s: float = 1.0
) -> list[Observation]:
    """Poll a cluster for this many seconds; nobody else polls it."""
    return Recorder(cluster).record(seconds, poll_s=poll_s)


def moving(
    seconds: float = 60.0,
    *,
    targets: Mapping[str, Replicas] | None = None,
    poll_s: float = 1.0,
    from_s: float = 0.0,
    messages: int = 100_000,
    inbound_s: float = 100.0,
    copied_s: float = 1_000.0,
) -> list[Observation]:
    """Record how partitions move from brokers 1, 2 and 3.

    Args:
        seconds: how long to record; the last poll is before the end.
        targets: the target of each partition by name; by default orders-0 to TARGET.
        poll_s: seconds between polls.
        from_s: the second of the first poll, at which the moves begin.
        messages: messages in each partition at second 0.
        inbound_s: messages per second written to each partition.
        copied_s: messages per second that each broker copies.
    """
    moved = targets or {"orders-0": TARGET}
    cluster = a_cluster(resting=moved, messages=messages, inbound_s=inbound_s, copied_s=copied_s)
    wait(cluster, from_s)
    cluster.do(layout.Alter({tp(name): target for name, target in moved.items()}))
    return recorded(cluster, seconds, poll_s=poll_s)


ORDERS = TopicPartition("orders", 0)
MESSAGES = 10_000  # messages in each partition; a new replica copies 100 of them per second
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
