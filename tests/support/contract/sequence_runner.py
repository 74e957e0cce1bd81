"""Play sequences on any cluster, many at once, each step on a quiet cluster."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from itertools import groupby
from typing import Protocol

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigScope, Verdict, WriteResult
from ktui.cluster.settings import CORDONED, EVERY
from ktui.simulated import layout
from support.contract import sequences
from support.contract.sequences import BROKERS, Answer, Outcome, Played, Seen, Sequence
from support.contract.world import (
    RATE,
    THROTTLED,
    SimulatedWorld,
    World,
    change,
    let_go,
    setting,
    until,
)

MESSAGES, MESSAGE_BYTES = 1_200, 1_000
"""More than eighteen fetches can copy.

A throttled broker fetches once in the eleven seconds over which the throttle is measured, however
low its rate is. So the broker stays behind for three minutes.
"""
HELD_RATE = "100"
AT_ONCE = 36
_WHOLE_TOPIC = -1

Answers = dict[int, Answer]
States = tuple[Seen, ...]


class Stage(World, Protocol):
    """A world whose brokers can fail."""

    async def kill(self, broker: int) -> None:
        """Kill a broker, and wait until it is fenced."""
        ...

    async def restart(self, broker: int) -> None:
        """Start a killed broker, and wait until it is alive."""
        ...

    async def cordon(self, broker: int, *, cordoned: bool) -> None:
        """Cordon a broker's log dirs or end that, and wait until the controller knows.

        Before 4.3, which knows no cordons, this does nothing.
        """
        ...

    async def would_add(self, topic: str, count: int) -> WriteResult:
        """Ask whether a topic may have so many partitions, which adds none."""
        ...

    async def settle(self) -> None:
        """Wait until nothing changes by itself any more, except held-back replicas."""
        ...


def batches(plan: Many[Sequence]) -> Iterator[list[Sequence]]:
    """Group the sequences that can be played at once: those with the same steps of brokers."""
    for _, group in groupby(sorted(plan, key=_schedule), key=_schedule):
        together = list(group)
        count = -(-len(together) // AT_ONCE)
        for first in range(count):
            yield together[first::count]


def _schedule(sequence: Sequence) -> str:
    return str(sequence.broker_steps)


async def play(stage: Stage, together: Many[Sequence]) -> list[Played]:
    """Play sequences with the same steps of brokers, each on its own topic."""
    tracks = [_Track(stage, sequence) for sequence in together]
    await change(stage, *(_rate(broker) for broker in BROKERS))
    await asyncio.gather(*(track.prepare() for track in tracks))
    await stage.settle()
    await _look(stage, tracks)
    for number, step in enumerate((*together[0].broker_steps, None)):
        await _play_phase(stage, tracks, number)
        if step is not None:
            await _happen(stage, step)
            await _finish(stage, tracks, [{} for _ in tracks])
    return [Played(track.sequence, tuple(track.outcomes)) for track in tracks]


async def _play_phase(stage: Stage, tracks: list[_Track], number: int) -> None:
    """Play the steps of each sequence between two steps of brokers, one step of each at a time."""
    phases = {track: track.phases[number] for track in tracks}
    for turn in range(max(map(len, phases.values()))):
        busy = [track for track in tracks if turn < len(phases[track])]
        answers = await asyncio.gather(*(track.act(phases[track][turn]) for track in busy))
        await _finish(stage, busy, answers)


async def _finish(stage: Stage, tracks: list[_Track], answers: list[Answers]) -> None:
    """Wait until all is quiet, and record the outcome of the step."""
    await stage.settle()
    seen = await _look(stage, tracks)
    for track, said, partitions in zip(tracks, answers, seen, strict=True):
        track.outcomes.append(Outcome(partitions, said, track.placed()))


async def _happen(stage: Stage, step: sequences.BrokerStep) -> None:
    match step:
        case sequences.Kill(broker):
            await stage.kill(broker)
        case sequences.Restart(broker):
            await stage.restart(broker)
        case sequences.Cordon(broker):
            await stage.cordon(broker, cordoned=True)
        case sequences.Uncordon(broker):
            await stage.cordon(broker, cordoned=False)


async def _look(stage: Stage, tracks: list[_Track]) -> list[States]:
    described = await stage.reader.describe_topics([track.topic for track in tracks])
    moving = await stage.reader.list_reassignments()
    states = {
        tp: state.with_reassignment(moving[tp]) if tp in moving else state
        for tp, state in described.partitions.items()
    }
    return [track.seen(states) for track in tracks]


class _Track:
    """One sequence being played on its own topic."""

    def __init__(self, stage: Stage, sequence: Sequence) -> None:
        self.sequence = sequence
        self.topic = _new_name()
        self.outcomes: list[Outcome] = []
        self._stage = stage
        self._epochs: dict[TopicPartition, int] = {}
        self._partitions = [self._tp(p) for p in range(len(sequence.replicas))]
        self._placed: tuple[int, ...] = ()

    def _tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    @property
    def phases(self) -> list[list[sequences.Change]]:
        """The changes before, between and after the steps of brokers."""
        found: list[list[sequences.Change]] = [[]]
        for step in self.sequence.steps:
            if isinstance(step, sequences.BrokerStep):
                found.append([])
            else:
                found[-1].append(step)
        return found

    async def prepare(self) -> None:
        """Create the topic with its data, its settings and its held replicas."""
        sequence = self.sequence
        await self._stage.create_topic(self.topic, sequence.replicas)
        for tp in self._partitions:
            await self._stage.append(tp, MESSAGES, MESSAGE_BYTES)
        held = (f"{tp.partition}:{b}" for tp in self._partitions for b in sequence.held)
        settings = {THROTTLED: ",".join(held), **sequence.configs}
        wanted = (
            setting(ConfigScope.TOPIC, self.topic, key, ConfigOp.SET, value)
            for key, value in settings.items()
            if value
        )
        await change(self._stage, *wanted)

    async def act(self, step: sequences.Change) -> Answers:
        """Do one step, and return the cluster's answers."""
        writer = self._stage.writer
        match step:
            case sequences.Alter(targets, factor):
                wanted = {self._tp(p): replicas for p, replicas in targets.items()}
                answer = writer.alter_reassignments(wanted, allow_replication_factor_change=factor)
                return self._answers(await answer)
            case sequences.Elect(partitions):
                answer = writer.elect_preferred_leaders([self._tp(p) for p in partitions])
                return self._answers(await answer)
            case sequences.Release():
                await let_go(self._stage, self._partitions[0])
                return {}
            case sequences.AddPartitions():
                return {_WHOLE_TOPIC: self._answer(await self._add(step))}

    async def _add(self, step: sequences.AddPartitions) -> WriteResult:
        """Add partitions, and wait until brokers know them."""
        if step.validate_only:
            return await self._stage.would_add(self.topic, step.count)

        async def there() -> Mapping[TopicPartition, PartitionState] | None:
            found = (await self._stage.reader.describe_topics([self.topic])).partitions
            return found if len(found) == step.count else None

        before = len((await self._stage.reader.describe_topics([self.topic])).partitions)
        result = await self._stage.writer.create_partitions(self.topic, step.count, step.assignment)
        assert result.verdict is not Verdict.UNKNOWN, result
        if result.verdict is Verdict.ACCEPTED:
            now = await until(there, clock=self._stage.clock)
            new = [self._tp(partition) for partition in range(before, step.count)]
            if step.assignment is None:
                self._placed = tuple(len(now[tp].replicas) for tp in new)
            else:
                self._partitions += new
        return result

    def placed(self) -> tuple[int, ...]:
        """Return the numbers of replicas that Kafka has placed since the last call."""
        placed, self._placed = self._placed, ()
        return placed

    def _answers(self, results: Mapping[TopicPartition, WriteResult]) -> Answers:
        """Return the answers by partition, with `topic` for the name of the topic."""
        assert all(result.verdict is not Verdict.UNKNOWN for result in results.values()), results
        return {tp.partition: self._answer(result) for tp, result in sorted(results.items())}

    def _answer(self, result: WriteResult) -> Answer:
        message = result.message.replace(self.topic, "topic")
        return Answer(result.verdict.value, result.code, message)

    def seen(self, states: Mapping[TopicPartition, PartitionState]) -> States:
        """Return the partitions, with the rise of the leader epoch since the last call."""
        return tuple(self._seen(states[tp]) for tp in self._partitions)

    def _seen(self, now: PartitionState) -> Seen:
        assert now.leader_epoch is not None
        before = self._epochs.get(now.tp, now.leader_epoch)
        self._epochs[now.tp] = now.leader_epoch
        return Seen(
            replicas=now.replicas,
            isr=tuple(sorted(now.isr)),
            leader=now.leader,
            epochs=now.leader_epoch - before,
            listed=now.reassigning,
            adding=now.adding,
            removing=now.removing,
            elr=None if now.elr is None else tuple(sorted(now.elr)),
        )


def _new_name() -> str:
    """Return a topic name that was never used before.

    A throttle set on a deleted topic comes back on a new topic of the same name, on each broker
    that restarts (seen from 3.9.1 to 4.3.1).
    """
    return f"sequence-{uuid.uuid4().hex[:12]}"


def _rate(broker: int) -> ConfigChange:
    return setting(ConfigScope.BROKER, str(broker), RATE, ConfigOp.SET, HELD_RATE)


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
