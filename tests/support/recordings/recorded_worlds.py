"""Recordings of simulated clusters on which others move partitions, all decided by a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import FOLLOWER_REPLICAS, LEADER_REPLICAS
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import (
    VERSIONS,
    BrokerSpec,
    ClusterSpec,
    OutsideEvent,
    ScheduledEvent,
    TopicSpec,
)
from support.recordings.tapes import Tape
from support.simulated.moving_clusters import Replicas, throttle

BROKERS = range(1, 7)
TOPICS = ("orders", "payments")
_DENIED = ("describe_topics", "list_reassignments", "log_offsets", "log_dirs", "describe_cluster")
_GAPS = (*(1.0, 2.0, 3.0, 5.0, 5.0) * 8, *(10.0, 15.0) * 3, 29.0, 30.0, 31.0, 59.0, 60.0, 61.0)
"""Seconds between polls, on both sides of the limits for stalled and for near."""


class World:
    """A cluster of a few partitions, all its events, and the sessions that observe it.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(f"world {seed}")  # noqa: S311 - a test's dice
        self.cluster_id = f"world-{seed:05}"
        topics = {name: self._some_partitions() for name in TOPICS}
        self._partitions = [
            TopicPartition(name, n) for name, found in topics.items() for n in range(len(found))
        ]
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(self._spec(topics), self.clock, seed=seed)
        for _ in range(dice.randint(4, 16)):
            self._schedule(float(dice.randint(0, 200)), self._act(topics))
        self.polls = dice.randint(10, 45)
        self.tapes = [self._tape(number) for number in range(dice.choice((1, 1, 2, 2, 3)))]

    def _tape(self, number: int) -> Tape:
        """Begin a session, on a machine whose clocks differ from the cluster's."""
        dice = self.dice
        ahead = {"ms": dice.randint(0, 10**9), "at": dice.choice((0, 0, -40_000, 3_500))}
        return Tape(self.cluster_id, f"{dice.getrandbits(128):032x}-{number}", **ahead)

    def _schedule(self, at_s: float, act: OutsideEvent) -> None:
        self.cluster.schedule(ScheduledEvent(at_s, act))
        if isinstance(act, layout.Deny):
            self.cluster.schedule(ScheduledEvent(at_s + 25.0, layout.Allow(act.call)))

    def _some_partitions(self) -> tuple[Replicas, ...]:
        return tuple(self._some_brokers() for _ in range(self.dice.randint(1, 2)))

    def _some_brokers(self) -> Replicas:
        return tuple(self.dice.sample(BROKERS, self.dice.choice((1, 2, 3, 3))))

    def _spec(self, topics: dict[str, tuple[Replicas, ...]]) -> ClusterSpec:
        dice = self.dice
        return ClusterSpec(
            name=self.cluster_id,
            version=dice.choice(VERSIONS),
            brokers=tuple(BrokerSpec(id=b, net_in=1e6) for b in BROKERS),
            topics=tuple(
                TopicSpec(
                    name=name,
                    replicas=replicas,
                    bytes_each=dice.choice((0, 20_000_000, 50_000_000, 90_000_000)),
                    message_bytes=dice.choice((100, 1_000)),
                    inbound=dice.choice((0.0, 0.0, 20_000.0)),
                    configs=dice.choice(({}, {FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"})),
                )
                for name, replicas in topics.items()
            ),
            auto_leader_rebalance=dice.random() < 0.5,
            rebalance_interval_s=20.0,
            lag_time_max_s=dice.choice((3.0, 30.0)),
        )

    def _act(self, topics: dict[str, tuple[Replicas, ...]]) -> OutsideEvent:
        dice, broker = self.dice, self.dice.choice(BROKERS)
        tp, topic, call = dice.choice(self._partitions), dice.choice(TOPICS), dice.choice(_DENIED)
        some: tuple[OutsideEvent, ...] = (
            *(layout.Alter({tp: self._some_brokers()}) for _ in range(8)),
            layout.Alter({tp: None}), layout.Alter({tp: None}),
            layout.Kill(broker), layout.Start(broker),
            layout.Slow(broker, dice.choice((0.0001, 1.0))),
            throttle("follower", broker, dice.choice((1, 10_000, 300_000))),
            throttle("leader", broker, 500_000),
            layout.Deny(call), layout.ElectLeaders((tp,)),
            layout.DeleteTopic(topic),
            layout.CreateTopic(TopicSpec(name=topic, replicas=topics[topic], bytes_each=10**6)),
        )  # fmt: skip
        return dice.choice(some)

    def recorded(self) -> list[Tape]:
        """Play everything, and return what each session recorded."""
        asyncio.run(self._record())
        return [tape for tape in self.tapes if tape.items]

    async def _record(self) -> None:
        looking = [(tape, *self._eyes()) for tape in self.tapes]
        for _ in range(self.polls):
            for tape, observer, interest in looking:
                if len(looking) == 1 or self.dice.random() < 0.6:
                    await self._look(tape, observer, interest)
                    self._pass(self.dice.choice((0.0, 0.0, 0.25)))
            self._pass(self.dice.choice(_GAPS))
        for tape, observer, _ in looking:
            await observer.aclose()
            if self.dice.random() < 0.7:
                tape.end()

    def _eyes(self) -> tuple[Observer, Interest]:
        interest = self.dice.choice((NO_INTEREST, Interest(topics=frozenset(TOPICS))))
        return Observer(self.cluster.reader(), self.clock), interest

    async def _look(self, tape: Tape, observer: Observer, interest: Interest) -> None:
        looking = asyncio.create_task(observer.poll(interest))
        while not looking.done():
            await self.clock.advance(0.0)
            if not looking.done():
                await self.clock.advance(0.25)
        try:
            tape.look(await looking)
        except ClusterError as error:
            tape.lost(self.clock, str(error))

    def _pass(self, seconds: float) -> None:
        self.clock.pass_time(seconds)


def tapes_of(seeds: Iterable[int]) -> list[Tape]:
    """Return the recordings of some worlds."""
    return [tape for seed in seeds for tape in World(seed).recorded()]
