"""A simulated cluster as the stage of sequences."""

from __future__ import annotations

from ktui.simulated import events
from support.contract.simulated_world import SimulatedWorld

_QUIET_S = 10.0


class SimulatedStage(SimulatedWorld):
    """A simulated world, in which ten seconds of virtual time are enough for all to settle."""

    async def kill(self, broker: int) -> None:
        self.cluster.do(events.Kill(broker))
        await self.clock.sleep(self.cluster.spec.session_timeout_s)

    async def restart(self, broker: int) -> None:
        self.cluster.do(events.Start(broker))
        await self.clock.sleep(self.cluster.spec.startup_s)

    async def settle(self) -> None:
        await self.clock.sleep(_QUIET_S)
