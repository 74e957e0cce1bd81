"""A lab as the stage of sequences: brokers can be killed, and one can wait until it is quiet."""

from __future__ import annotations

import asyncio
import time

from ktui.cli.lab.command import connect
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.lab import control
from ktui.lab.layout import Lab
from ktui.lab.readiness import wait_until_ready
from support.contract.real_world import RealWorld
from support.contract.world import LIMIT_S, until

_QUIET_S = 0.8
_LOOK_S = 0.2

Look = tuple[dict[TopicPartition, PartitionState], dict[TopicPartition, Reassignment]]


class RealStage(RealWorld):
    """The world of a running lab."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(Connection.to(lab.bootstrap_servers))
        self._lab = lab

    async def kill(self, broker: int) -> None:
        await asyncio.to_thread(control.kill, self._lab, broker)

        async def fenced() -> bool:
            return broker not in await self._alive()

        await until(fenced)

    async def restart(self, broker: int) -> None:
        await asyncio.to_thread(control.start, self._lab, broker)

        async def back() -> bool:
            return broker in await self._alive()

        await until(back)

    async def settle(self) -> None:
        """Wait until nothing has changed for a while and every free replica is in its ISR."""
        held = await self._held()
        last, since, end = None, time.monotonic(), time.monotonic() + LIMIT_S
        while True:
            look = await self._look()
            behind = _behind(look, held, await self._alive())
            now = time.monotonic()
            if look != last or behind:
                last, since = look, now
            elif now - since >= _QUIET_S:
                return
            assert now < end, f"not quiet after {LIMIT_S} s: {behind or look}"
            await asyncio.sleep(_LOOK_S)

    async def _alive(self) -> set[int]:
        described = await self.reader.describe_cluster()
        return {broker.id for broker in described.brokers.values() if broker.alive}

    async def _held(self) -> dict[str, str]:
        configs = (await self.reader.topic_configs(self._topics)).configs
        return {topic: config.follower_throttled_replicas for topic, config in configs.items()}

    async def _look(self) -> Look:
        moving = await self.reader.list_reassignments()
        described = await self.reader.describe_topics(self._topics)
        return dict(described.partitions), dict(moving)


def _behind(look: Look, held: dict[str, str], alive: set[int]) -> list[PartitionState]:
    """Return the partitions with a replica that can join the ISR but has not joined yet."""
    return [
        state
        for tp, state in look[0].items()
        if state.leader is not None
        and any(
            broker in alive and f"{tp.partition}:{broker}" not in held[tp.topic].split(",")
            for broker in set(state.replicas).difference(state.isr)
        )
    ]


def without_leader_rebalance(lab: Lab) -> None:
    """Restart the controller with automatic leader balancing switched off permanently."""
    controller = lab.controller
    with lab.properties_file(controller).open("a") as file:
        file.write("auto.leader.rebalance.enable=false\n")
    control.kill(lab, controller.id)
    control.start(lab, controller.id)
    asyncio.run(wait_until_ready(lab, connect, lambda _: None))
