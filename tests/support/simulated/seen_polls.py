"""Series of observations of a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.simulated.moving_clusters import TARGET, Replicas, a_cluster, tp, wait


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
