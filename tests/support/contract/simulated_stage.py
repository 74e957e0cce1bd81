"""A simulated cluster as the stage of sequences."""

from __future__ import annotations

from ktui.cluster.ports import ConfigOp, ConfigScope, WriteResult
from ktui.cluster.settings import CORDONED, EVERY
from ktui.simulated import layout
from support.contract.simulated_world import SimulatedWorld
from support.contract.world import change, setting

_QUIET_S = 10.0


class SimulatedStage(SimulatedWorld):
    """A simulated world, in which ten seconds of virtual time are enough for all to settle."""

    async def kill(self, broker: int) -> None:
        self.cluster.do(layout.Kill(broker))
        await self.clock.sleep(self.cluster.spec.session_timeout_s)

    async def restart(self, broker: int) -> None:
        self.cluster.do(layout.Start(broker))
        await self.clock.sleep(self.cluster.spec.startup_s)

    async def cordon(self, broker: int, *, cordoned: bool) -> None:
        if self.cluster.controller.rules.cordons_log_dirs:
            op = ConfigOp.SET if cordoned else ConfigOp.DELETE
            scope, value = ConfigScope.BROKER, EVERY if cordoned else None
            await change(self, setting(scope, str(broker), CORDONED, op, value))

    async def would_add(self, topic: str, count: int) -> WriteResult:
        tried, partitions = f"{topic}-tried", self.cluster.controller.topics[topic].partitions
        await self.make_topic(tried, [known.replicas for known in partitions])
        result = await self.writer.create_partitions(tried, count)
        await self.delete_topic(tried)
        return result

    async def settle(self) -> None:
        await self.clock.sleep(_QUIET_S)
