"""Read and cordon brokers from a view, which asks the operator between reading and sending."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import ClusterPorts, ClusterReader
from ktui.execution.broker.cordon import Cordoner, CordonState, down_words
from ktui.execution.broker.facts import BrokerFacts, read_broker
from ktui.execution.errors import RunProblem, RunRefused

OpenPorts = Callable[[], AbstractAsyncContextManager[ClusterPorts]]
"""Opens the ports for a change.

It raises RunRefused where another state directory owns the cluster.
"""


class BrokerAccess:
    """Reads what brokers hold, and cordons them.

    Args:
        reader: reads the cluster.
        clock: the time.
        change: opens the ports for a change; None where nothing may be changed.
    """

    def __init__(
        self, reader: ClusterReader, clock: Clock, change: OpenPorts | None = None
    ) -> None:
        self._reader, self.clock, self._change = reader, clock, change

    @property
    def may_change(self) -> bool:
        """Whether cordons can be changed."""
        return self._change is not None

    async def read(self, broker: int) -> tuple[BrokerFacts, bool]:
        """Read what a broker holds, and return whether the metadata was proven to be current.

        Raises:
            ClusterError: the cluster cannot be read.
        """
        try:
            return await read_broker(self._reader, broker, fresh=True), True
        except ClusterError:  # perhaps only the proof: it needs a permission of its own
            return await read_broker(self._reader, broker), False

    async def read_cordon(self, broker: int) -> CordonState:
        """Read the cordon of a broker, for a question about its change.

        Raises:
            RunRefused: the cordon cannot be changed: the reason and the fix.
            RunProblem: the broker's settings cannot be read.
            ClusterError: the broker does not answer.
        """
        async with self._open() as ports:
            return await (await self._cordoner(ports, broker)).read()

    async def cordon(self, seen: CordonState) -> CordonState:
        """Cordon all log dirs of a broker, if its cordon is still as the operator has seen it.

        Raises:
            RunRefused: it is not, or Kafka refuses; nothing was changed.
            RunProblem: it is not set, or not in force.
            ClusterError: nothing was sent.
        """
        async with self._open() as ports:
            cordoner = await self._cordoner(ports, seen.broker)
            now = await _unchanged(cordoner, seen)
            return await cordoner.cordon(now, now.with_cordons(()))

    async def uncordon(self, seen: CordonState) -> CordonState:
        """Delete the cordon of a broker, if it is still as the operator has seen it.

        Raises:
            RunRefused: it is not, or Kafka refuses; nothing was changed.
            RunProblem: the broker does not report it as gone, or its properties file has one.
            ClusterError: nothing was sent.
        """
        async with self._open() as ports:
            cordoner = await self._cordoner(ports, seen.broker)
            await _unchanged(cordoner, seen)
            after = await cordoner.uncordon()
        if after.cordoned:
            raise RunProblem(f"the setting is removed, but {after.by_file}")
        return after

    def _open(self) -> AbstractAsyncContextManager[ClusterPorts]:
        if self._change is None:
            raise RunRefused("nothing was sent: this view is read-only")
        return self._change()

    async def _cordoner(self, ports: ClusterPorts, broker: int) -> Cordoner:
        online = (await ports.reader.describe_cluster()).online
        if broker not in online:
            raise RunRefused(f"nothing was sent: {down_words(broker, online)}")
        return Cordoner(ports, broker, self.clock)


async def _unchanged(cordoner: Cordoner, seen: CordonState) -> CordonState:
    """Read the cordon again, and return it if the setting is the one that was seen."""
    now = await cordoner.read()
    if now.setting != seen.setting:
        raise RunRefused(
            f"nothing was sent: the cordon of broker {seen.broker} has changed meanwhile, from "
            f"{seen.value} to {now.value}. Look again, then decide"
        )
    return now
