"""A lab as the stage of sequences: brokers can be killed, and one can wait until it is quiet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from functools import partial
from typing import Any

from ktui.cli.lab import connect
from ktui.cluster.errors import Means, Unreachable, means
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict, WriteResult
from ktui.cluster.settings import CORDONED, EVERY
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests import configs as settings
from ktui.kafka.requests.reassignments import create_request, read_create_results
from ktui.kafka.transport.translate_errors import Purpose, name_of
from ktui.lab import control
from ktui.lab.layout import Lab, ProgressReport
from ktui.lab.up import wait_until_ready
from support.contract.sequence_runner import batches, play
from support.contract.sequences import Played, Sequence
from support.contract.world import LIMIT_S, RealWorld, change, setting, until
from support.kafka.labs import is_before_43

_LOOKING = Purpose("looking which replicas are held back")
_ASKING = Purpose("asking whether partitions can be added")
_QUIET_S = 0.8
_LOOK_S = 0.2
_HEARTBEATS_S = 5.0  # two heartbeats: by them the controller learns which log dirs are cordoned

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

    async def cordon(self, broker: int, *, cordoned: bool) -> None:
        if is_before_43(self._lab):
            return
        op = ConfigOp.SET if cordoned else ConfigOp.DELETE
        value = EVERY if cordoned else None
        await change(self, setting(ConfigScope.BROKER, str(broker), CORDONED, op, value))

        async def shown() -> bool:
            log_dirs = (await self.reader.log_dirs(broker, ())).log_dirs
            return all(each.cordoned is cordoned for each in log_dirs)

        await until(shown)
        await asyncio.sleep(_HEARTBEATS_S)

    async def would_add(self, topic: str, count: int) -> WriteResult:
        def validation() -> Any:
            request = create_request(topic, count, None, LIMIT_S)
            request.validate_only = True
            return request

        answer = await self._wire.ask(_ASKING, validation)
        ((_, code, message),) = read_create_results(answer)
        if not code:
            return WriteResult(Verdict.ACCEPTED)
        verdict = Verdict.UNKNOWN if means(code, Means.UNDECIDED) else Verdict.REFUSED
        return WriteResult(verdict, name_of(code), message or "")

    async def settle(self) -> None:
        """Wait until nothing has changed for a while and every free replica is in its ISR."""
        last, since, end = None, time.monotonic(), time.monotonic() + LIMIT_S
        while True:
            look = await self._look()
            waited_for = await self._waited_for(look)
            now = time.monotonic()
            if look != last or waited_for:
                last, since = look, now
            elif now - since >= _QUIET_S:
                return
            assert now < end, f"not quiet after {LIMIT_S} s: {waited_for or look}"
            await asyncio.sleep(_LOOK_S)

    async def _waited_for(self, look: Look) -> list[PartitionState] | str:
        """Return the partitions that are behind, or why nobody can say yet.

        A broker may be listed as alive shortly after it was killed, and before it listens.
        """
        alive = await self._alive()
        try:
            held = await self._held(alive)
        except Unreachable as error:
            return str(error)
        return _behind(look, held, alive)

    async def _alive(self) -> set[int]:
        described = await self.reader.describe_cluster()
        return {broker.id for broker in described.brokers.values() if broker.alive}

    async def _held(self, brokers: Iterable[int]) -> Mapping[str, frozenset[str]]:
        """Return the replicas held back in each topic, as far as all brokers know of it.

        A broker may still answer with what a setting was a moment ago.
        """
        known = await asyncio.gather(*map(self._held_at, brokers))
        return {
            topic: frozenset.intersection(*(held[topic] for held in known))
            for topic in self._topics
        }

    async def _held_at(self, broker: int) -> dict[str, frozenset[str]]:
        request = partial(settings.topics_request, self._topics)
        answer = await self._wire.ask(_LOOKING, request, broker=broker)
        configs = {found.resource_name: settings.topic_config(found) for found in answer.results}
        return {
            topic: frozenset(configs[topic].follower_throttled_replicas.split(","))
            for topic in self._topics
        }

    async def _look(self) -> Look:
        moving = await self.reader.list_reassignments()
        described = await self.reader.describe_topics(self._topics)
        return dict(described.partitions), dict(moving)


def _behind(
    look: Look, held: Mapping[str, frozenset[str]], alive: set[int]
) -> list[PartitionState]:
    """Return the partitions with a replica that can join the ISR but has not joined yet."""
    return [
        state
        for tp, state in look[0].items()
        if state.leader is not None
        and any(
            broker in alive and f"{tp.partition}:{broker}" not in held[tp.topic]
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


async def play_on(
    lab: Lab, plan: Many[Sequence], report: ProgressReport = lambda _: None
) -> list[Played]:
    """Play all sequences, and return them in the order of the plan."""
    found: dict[str, Played] = {}
    for together in batches(plan):
        stage = RealStage(lab)
        try:
            for played in await play(stage, together):
                found[played.sequence.name] = played
        finally:
            await stage.aclose()
        report(f"{len(found)} of {len(plan)} sequences on {lab.layout.kafka_version}")
    return [found[sequence.name] for sequence in plan]
