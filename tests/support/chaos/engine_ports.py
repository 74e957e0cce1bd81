"""What an engine of a chaos run gets in place of its clock, observer, writer and journal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.execution.errors import JournalProblem
from ktui.execution.journal.commands import Answer
from ktui.execution.run.events import AnyRunEvent
from ktui.simulated.clock import VirtualClock
from ktui.simulated.writer import SimulatedWriter
from support.chaos.faults import Fault
from support.chaos.who import ENGINE, POLL, Poll
from support.runs.engine_runs import Replicas
from support.runs.killed import Killed
from support.runs.witnessed import WitnessedJournal
from support.simulated.witness import WitnessedWriter

if TYPE_CHECKING:
    from support.chaos.run import ChaosRun


class SteppedClock(VirtualClock):
    """A clock whose wall time sometimes steps."""

    def step(self, seconds: float) -> None:
        self._start += timedelta(seconds=seconds)


class JudgedObserver(Observer):
    """Notifies the judge of each poll."""

    def __init__(self, run: ChaosRun) -> None:
        super().__init__(run.reader, run.clock)
        self._run = run

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        live = ENGINE.get() == self._run.engines  # another process may have taken the run
        self._run.looks += live
        poll = Poll()
        token = POLL.set(poll)
        try:
            seen = await super().poll(interest)
        finally:
            poll.over = True
            POLL.reset(token)
        if live and ENGINE.get() == self._run.engines:
            self._run.saw(seen)
            self._run.judge.looked()
            self._run.tempt()
        return seen

    async def aclose(self) -> None:
        # a request made at the instant of a kill begins, and is then cancelled
        await asyncio.sleep(0)
        await super().aclose()


class ArrivingWriter(WitnessedWriter):
    """Reports requests as they arrive; `ChaosWriter` has reported that they left."""

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,  # noqa: ARG002 - it has left
    ) -> Mapping[TopicPartition, WriteResult]:
        self._targets = dict(targets)
        return await SimulatedWriter.alter_reassignments(
            self, targets, allow_replication_factor_change=allow_replication_factor_change
        )

    async def elect_preferred_leaders(
        self,
        partitions: Any,
        *,
        leaves_within_s: float | None = None,  # noqa: ARG002 - it has left
    ) -> Mapping[TopicPartition, WriteResult]:
        self._targets = {}
        return await SimulatedWriter.elect_preferred_leaders(self, partitions)


def chaotic_journal(journal: WitnessedJournal, run: ChaosRun) -> WitnessedJournal:
    """At random appends, lock the journal for a while, break it, or kill its engine."""
    append, tell, clock = journal.append, journal.answer, run.clock
    assert isinstance(clock, SteppedClock)

    def appended(events: Sequence[AnyRunEvent]) -> Any:
        faults = run.faults
        if events and run.dies:
            run.dies = False
            raise Killed
        if events and faults.strikes(Fault.BUSY_JOURNAL, 0.01):
            clock.pass_time(faults.dice.choice((1.0, 7.0, 90.0)))
        if events and faults.strikes(Fault.BROKEN_JOURNAL, 0.003):
            raise JournalProblem("the disk reports an error")
        if events and faults.strikes(Fault.KILLED, 0.003):
            raise Killed
        return append(events)

    def answered(number: int, answer: Answer) -> None:
        tell(number, answer)
        if answer.accepted and answer.words.startswith("the run is being left"):
            run.judge.told_to_leave.add(ENGINE.get())

    journal.append = appended  # type: ignore[method-assign]
    journal.answer = answered  # type: ignore[method-assign]
    return journal
