"""The faults of one seed, and what an engine of a chaos run gets as its clock and ports."""

from __future__ import annotations

import asyncio
import enum
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.execution import JournalProblem
from ktui.execution.journal.commands import Answer
from ktui.execution.run.events import AnyRunEvent
from ktui.simulated.clock import VirtualClock
from ktui.simulated.writer import SimulatedWriter
from support.runs.engine_runs import Replicas
from support.runs.witnessed import Killed, WitnessedJournal
from support.simulated.witness import WitnessedWriter

if TYPE_CHECKING:
    from support.chaos.run import ChaosRun


class Fault(enum.StrEnum):
    """A kind of fault of a call, an operator or the host."""

    SLOW = "slow call"
    VERY_SLOW = "call of 10 minutes"
    TWICE = "request executed twice"
    LOST_ANSWER = "answer lost"
    NOT_LEFT = "request never left"
    HELD = "request held by a suspended broker"
    DENIED_TOPIC = "one topic denied"
    STALE_METADATA = "stale metadata"
    COMMAND = "command during a call"
    OTHERS_ALTER = "somebody alters during a call"
    BROKERS_FAIL = "brokers fail during a call"
    BUSY_JOURNAL = "journal locked"
    BROKEN_JOURNAL = "journal not writable"
    CLOCK_STEP = "clock stepped"
    LOCK_REMOVED = "lock removed"
    RIVAL = "another process takes over"
    OTHERS_RATES = "somebody else's rates"
    KILLED = "engine killed"
    UNREADABLE = "answer that cannot be read"
    IN_TURN = "two runs in turn"
    CONCURRENT = "two runs at once"
    CORDONS = "somebody cordons brokers"


TYPICAL_S = (0.01, 0.3, 2.0, 10.0)  # longest seconds of slow calls; each seed chooses one
VERY_LONG_S = 600.0
SUSPENDED_S = (70.0, 150.0, 200.0, 400.0)


class Faults(msgspec.Struct):
    """The dice of one seed. Each seed turns half of the kinds off."""

    dice: random.Random
    on: frozenset[Fault]
    typical_s: float
    active: bool = True
    fired: Counter[Fault] = msgspec.field(default_factory=Counter)
    delays_s: float = 0.0  # the sum of all delays in seconds

    def strikes(self, fault: Fault, chance: float) -> bool:
        """Decide whether a fault happens now, and count it."""
        struck = self.active and fault in self.on and self.dice.random() < chance
        self.fired[fault] += struck
        return struck

    def delay_s(self) -> float:
        """Return how many seconds the next half of a call takes."""
        if self.strikes(Fault.VERY_SLOW, 0.001):
            seconds = VERY_LONG_S
        elif self.strikes(Fault.SLOW, 0.5):
            seconds = self.dice.uniform(0.0, self.typical_s)
        else:
            seconds = 0.0
        self.delays_s += seconds
        return seconds


def faults_of(seed: int) -> Faults:
    dice = random.Random(f"faults {seed}")  # noqa: S311 - a test's dice
    kinds = [fault for fault in Fault if fault is not Fault.CORDONS]
    on = frozenset(dice.sample(kinds, len(kinds) // 2))
    faults = Faults(dice, on, dice.choice(TYPICAL_S))
    others = random.Random(f"cordons {seed}")  # noqa: S311 - so that the dice go on as without it
    return replace(faults, on=on | {Fault.CORDONS}) if others.random() < 0.5 else faults


Call = Callable[[], Awaitable[Any]]
Hook = Callable[[Call], Awaitable[Any]]


class Interposed:
    """Forwards every call to a port, through the hook of its method if there is one.

    Args:
        port: a reader or a writer.
        hooks: by the method's name; each receives the call, and awaits it when it chooses.
    """

    def __init__(self, port: Any, **hooks: Hook) -> None:
        self._port = port
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:
        method, hook = getattr(self._port, name), self._hooks.get(name)
        if hook is None:
            return method

        async def hooked(*args: Any, **how: Any) -> Any:
            return await hook(lambda: method(*args, **how))

        return hooked


class Poll(msgspec.Struct):
    """One poll of an engine. The engine knows its reads once the poll is over."""

    over: bool = False


ENGINE: ContextVar[int] = ContextVar("engine", default=0)
"""The engine's number, counted from 1 over all engines of a run."""
POLL: ContextVar[Poll | None] = ContextVar("poll", default=None)


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
