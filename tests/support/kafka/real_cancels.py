"""Partitions cancelled at a chosen stage of a run on a real cluster, compared with the preview."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterWriter, WriteResult
from ktui.execution.cancel_preview import PartitionPreview, preview_partition
from ktui.execution.engine.observed import Observed
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Request
from ktui.execution.run.run import Run
from ktui.execution.run.scope import CancelEffect, tracks_in_scope
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from support.contract.world import LIMIT_S, RealWorld, until
from support.kafka.real_runs import RealRun, described
from support.kafka.slow_topic import BYTES_EACH, hold, let_go
from support.passing import PassingWriter
from support.runs.cancel_stories import Case, Scope, Stage, moment

ORIGINAL, TARGET = (2, 1, 3), (4, 5, 1)
Replicas = tuple[int, ...]


class Tripwire(PassingWriter):
    """A `ClusterWriter` that cancels partitions at one chosen answer before it returns it."""

    def __init__(self, writer: ClusterWriter, called: CalledOff) -> None:
        super().__init__(writer)
        self._called = called
        self._answers: Counter[Request] = Counter()

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        self._called.sent += targets.items()
        results = await super().alter_reassignments(
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
            leaves_within_s=leaves_within_s,
        )
        await self._answered(Request.ALTER, targets)
        return results

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        results = await super().elect_preferred_leaders(partitions, leaves_within_s=leaves_within_s)
        await self._answered(Request.ELECT, partitions)
        return results

    async def _answered(self, request: Request, partitions: Collection[TopicPartition]) -> None:
        called = self._called
        if called.waits_for in partitions and not called.foreseen:
            self._answers[request] += 1
            if self._answers[request] == called.at(request):
                await called.call_off()


class CalledOff:
    """A run of two topics, cancelled at a chosen stage of its first partition.

    `subject` has two partitions. `other` has one, which comes after them, unless the subject should
    still be queued.

    Args:
        case: what is cancelled, and when.
        world: the cluster.
        lab: the lab of the same cluster.
        folder: the folder of the journal.
        prefix: the prefix of the topics' names.
    """

    def __init__(self, case: Case, world: RealWorld, lab: Lab, folder: Path, prefix: str) -> None:
        self.case, self._world = case, world
        self._moment = moment(case)
        queued = case.stage is Stage.QUEUED
        self.subject = f"{prefix}-m-{case.name}"
        self.other = f"{prefix}-{'a' if queued else 'z'}-{case.name}"
        self.tp = TopicPartition(self.subject, 0)
        self.partitions = (
            self.tp,
            TopicPartition(self.subject, 1),
            TopicPartition(self.other, 0),
        )
        self.waits_for = self.partitions[2] if queued else self.tp
        limits = Limits(
            replicas=case.replicas, shape=case.shape, partitions=self._moment.partitions
        )
        targets = dict.fromkeys(self.partitions, TARGET)
        self.run = RealRun(lab, folder, targets, limits, poll_s=0.3)
        self.run.through = lambda writer: Tripwire(writer, self)
        self.sent: list[tuple[TopicPartition, Replicas | None]] = []
        """The reassignments sent to the cluster, in order; None for a cancel."""
        self.sent_before = 0  # how many of `sent` were sent before the run was cancelled
        self.foreseen: dict[TopicPartition, PartitionPreview] = {}

    def at(self, request: Request) -> int | None:
        """Return the number of the answer to this kind of request at which to cancel, or None."""
        at = self._moment.at
        return at[1] if isinstance(at, tuple) and at[0] is request else None

    async def made(self) -> None:
        """Create the topics, with data."""
        await self._world.create_topic(self.subject, [ORIGINAL] * 2)
        await self._world.create_topic(self.other, [ORIGINAL])
        for topic, partitions in ((self.subject, [0, 1]), (self.other, [0])):
            await asyncio.to_thread(
                fill, self._world.connection, topic, partitions, bytes_each=BYTES_EACH
            )
        await self._hold()

    async def played(self) -> None:
        """Execute the run to its end, and cancel it on the way."""
        await self.run.start()
        if self.case.stage is Stage.DONE and self.case.scope is Scope.ALL:
            await self.run.execute()
            await self.call_off()
            await self.run.execute()
            return
        async with asyncio.TaskGroup() as group:
            going = group.create_task(self.run.execute())
            if isinstance(self._moment.at, State):
                await until(self._in_state)
                await self.call_off()
            await until(self._cancels_are_over)
            await let_go(self._world, self.subject, self.other)
            await asyncio.wait_for(going, LIMIT_S)

    async def call_off(self) -> None:
        """Preview the outcome of each partition, and cancel them."""
        with self._journal() as journal:
            folded = Run("run").fold(journal.entries())
        command = self._command()
        tracks = tracks_in_scope(folded, command.topics, command.partitions)
        look = await self._look(frozenset(track.tp for track in tracks))
        for track in tracks:
            self.foreseen[track.tp] = preview_partition(track, self.case.kind, folded.limits, look)
        self.sent_before = len(self.sent)
        self.run.ask(command)

    async def differences(self) -> list[str]:
        """List differences from the preview; for a rollback, from the state before the run."""
        found = await described(self._world.connection, self.subject)
        found |= await described(self._world.connection, self.other)
        wrong = []
        for tp in self.partitions:
            state, track = found[tp], self.run.run.tracks[tp]
            has = (state.replicas, state.leader, track.state)
            if (wanted := self._wanted(tp)) != has:
                wrong.append(f"{self.case.name}: {tp.partition} of {tp.topic}: {has} not {wanted}")
        return wrong + self._sent_otherwise()

    async def left(self) -> tuple[Replicas, int | None]:
        """Return the first partition's replicas and leader now."""
        state = (await described(self._world.connection, self.subject))[self.tp]
        return state.replicas, state.leader

    async def aclose(self) -> None:
        """Remove the topics."""
        for topic in (self.subject, self.other):
            await self._world.delete_topic(topic)

    def _wanted(self, tp: TopicPartition) -> tuple[Replicas, int | None, State]:
        if tp not in self.foreseen:
            return TARGET, TARGET[0], State.DONE
        expected = self.foreseen[tp]
        if expected.effect is CancelEffect.NOTHING:
            return TARGET, TARGET[0], State.DONE
        if (
            expected.effect is CancelEffect.DEQUEUE
            and not expected.steps
            and expected.replicas == ORIGINAL
        ):
            return ORIGINAL, ORIGINAL[0], State.STOPPED
        if self.case.kind is CancelKind.ROLLBACK:
            return ORIGINAL, ORIGINAL[0], State.ROLLED_BACK
        return expected.replicas, expected.leader, State.STOPPED

    def _sent_otherwise(self) -> list[str]:
        wrong = []
        for tp, one in self.foreseen.items():
            steps = [step.target for step in one.steps if step.alters]
            wanted = [*([None] if one.cancels else []), *steps]
            sent = [to for of, to in self.sent[self.sent_before :] if of == tp]
            if sent != wanted:
                wrong.append(
                    f"{self.case.name}: {tp.partition} of {tp.topic} sent {sent}: {wanted}"
                )
        return wrong

    def _command(self) -> CancelMoves:
        match self.case.scope:
            case Scope.PARTITION:
                return CancelMoves(self.case.kind, partitions=(self.tp,))
            case Scope.TOPIC:
                return CancelMoves(self.case.kind, topics=(self.subject,))
            case Scope.ALL:
                return CancelMoves(self.case.kind)

    async def _look(self, partitions: frozenset[TopicPartition]) -> Observed:
        """Poll partitions with a new observer, until the settings of their topics are known."""
        observer = Observer(self._world.reader, SystemClock())
        topics = {tp.topic for tp in partitions}

        async def seen() -> Observed | None:
            look = await observer.poll(Interest(partitions=partitions, fresh=True))
            return Observed(look) if topics <= look.topic_configs.keys() else None

        try:
            return await until(seen)
        finally:
            await observer.aclose()

    async def _in_state(self) -> bool:
        """Return whether the first partition is in the expected state, and the rest is held."""
        tracks, wanted = self.run.run.tracks, self._moment.partitions
        held = [t for t in self.run.run.tracks_in_flight.values() if t.step and t.step.answered]
        there = bool(tracks) and tracks[self.tp].state is self._moment.at
        return there and len(held) == wanted

    async def _cancels_are_over(self) -> bool:
        run = self.run.run
        with self._journal() as journal:
            taken = bool(journal.asked(unanswered=False)) and not journal.asked()
        return taken and not any(
            t.step and t.step.cancelled_by_operator for t in run.tracks_in_flight.values()
        )

    def _journal(self) -> Journal:
        return Journal.open(self.run.path, self.run.clock, read_only=True)

    async def _hold(self) -> None:
        held = [f"{n}:{b}" for n, brokers in self._moment.held.items() for b in brokers]
        if held:
            await hold(self._world, self.subject, *held)
        if self._moment.holds_other:
            await hold(self._world, self.other, "0:4", "0:5")
