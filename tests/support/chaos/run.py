"""Runs on clusters where every call takes its time and may fail: all of it decided by a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    WriteResult,
)
from ktui.cluster.throttle_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, RATES, REPLICAS
from ktui.execution.cancel_events import Kind
from ktui.execution.commands import (
    Answer,
    CallOff,
    Command,
    Continue,
    Leave,
    LeaveThrottles,
    Pause,
    SetLimits,
    SetThrottle,
)
from ktui.execution.events import Event, Owned
from ktui.execution.journal import Journal
from ktui.execution.options import OnForeignThrottle
from ktui.execution.ownership import take
from ktui.execution.problem import JournalProblem, RunProblem
from ktui.execution.run import Run
from ktui.execution.statedir import StateDir
from ktui.execution.throttle_events import SettingsLeft
from ktui.planning.throttle_rates import rates_from
from ktui.simulated import acts
from ktui.simulated.acts import Act, Due
from ktui.simulated.clock import VirtualClock
from ktui.simulated.writer import SimulatedWriter
from support.chaos.faults import Fault, faults_of
from support.chaos.judge import Judge
from support.chaos.ports import ChaosReader, ChaosWriter
from support.runs import OWNER, Replicas
from support.runs_killed import Killed
from support.runs_troubled import BROKERS, LONGEST_S, OURS, TROUBLED_S, TroubledRun
from support.runs_witnessed import WitnessedJournal
from support.throttle_rules import Others, settings_in
from support.witness import WitnessedWriter

FAULTS_S = 400.0
"""For so long calls take their time."""
PARTITIONS = (10, 13)
"""At least and at most, of each of two topics."""


class SteppedClock(VirtualClock):
    """A clock whose wall time steps now and then."""

    def step(self, seconds: float) -> None:
        self._start += timedelta(seconds=seconds)


class _Judged(Observer):
    """Has the judge know of each look."""

    def __init__(self, run: ChaosRun) -> None:
        super().__init__(run.reader, run.clock)
        self._run = run

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        self._run.looks += 1
        self._run.seen = await super().poll(interest)
        self._run.judge.looked()
        return self._run.seen

    async def aclose(self) -> None:
        await asyncio.sleep(0)  # what was asked in the instant of a death begins, and is cancelled
        await super().aclose()


class _Arriving(WitnessedWriter):
    """Tells of requests as they arrive; that they left was told before."""

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


class ChaosRun(TroubledRun):
    """A run of at least twenty partitions, in the midst of everything at once.

    Args:
        seed: decides everything.
        folder: where the journal is.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.more = random.Random(f"chaos {seed}")  # noqa: S311 - a test's dice
        self.faults = faults_of(seed)
        self.run_dir = StateDir(folder / "state").create_run("run")
        super().__init__(seed, self.run_dir.path)
        self.sending = _Arriving(self.cluster, self.witness)
        self.judge = Judge(self)
        self.chaos_writer = ChaosWriter(
            self.sending, self.cluster, self.faults, self.judge, self.ask
        )
        self.writer = self.chaos_writer
        self.chaos = ChaosReader(self.reader, self.clock, self.faults, self.judge, self.ask)
        self.reader = self.chaos
        self.others = Others(self)
        self.commands_asked: list[str] = []
        self.deaths = 0
        self.live: Journal | None = None

    def _clock(self) -> VirtualClock:
        return SteppedClock(leaping=True)

    def _some_partitions(self) -> tuple[Replicas, ...]:
        return tuple(
            self._some_brokers(self.dice.choice((2, 3, 3)))
            for _ in range(self.dice.randint(*PARTITIONS))
        )

    def _options(self) -> dict[str, Any]:
        dice, chosen = self.more, super()._options()
        rates = dice.choice(("none", "600kB", "900kB,3=500kB", "800kB,2=none"))
        foreign = dice.choice((*OnForeignThrottle,))
        return {**chosen, "throttle": rates_from(rates), "on_foreign_throttle": foreign}

    def _acts(self, topics: dict[str, tuple[Replicas, ...]]) -> list[Due]:
        theirs = self._theirs() if Fault.OTHERS_RATES in self.faults.on else []
        self.faults.fired[Fault.OTHERS_RATES] += len(theirs)
        return [*super()._acts(topics), *theirs]

    def _act(self, topics: dict[str, tuple[Replicas, ...]]) -> Act:
        """Leave what goes wrong with calls to the ports."""
        while True:
            act = super()._act(topics)
            if not isinstance(act, acts.LoseRequest | acts.LoseAnswer | acts.DelayRequest):
                return act

    def _theirs(self) -> list[Due]:
        """Have somebody else verify, which deletes rates and lists, and set rates."""
        dice, done = self.more, []
        for _ in range(dice.randint(1, 4)):
            rates = [ConfigChange(_broker(b), FOLLOWER_RATE, ConfigOp.DELETE) for b in BROKERS]
            lists = [ConfigChange(_topic(t), FOLLOWER_REPLICAS, ConfigOp.DELETE) for t in OURS]
            one = ConfigChange(
                _broker(dice.choice(BROKERS)), FOLLOWER_RATE, ConfigOp.SET, "7000000"
            )
            changes = dice.choice(((*rates, *lists), (one,)))
            done.append(Due(dice.uniform(1.0, 0.9 * TROUBLED_S), acts.Configure(tuple(changes))))
        return done

    def _commands(self) -> list[tuple[float, Command]]:
        return [(FAULTS_S + 60.0, Continue())]

    async def carry_on(self, owner: Owned = OWNER) -> Run:
        """Own the run, as an engine's process does."""
        with take(self.run_dir) as owned:
            owned.watch_journal()
            self.lost = owned.lost
            return await super().carry_on(owner)

    def observer(self) -> Observer:
        return _Judged(self)

    def opened(self) -> Journal:
        journal = super().opened()
        assert isinstance(journal, WitnessedJournal)
        self.live = _chaotic(journal, self)
        return self.live

    def ask(self) -> None:
        """Have an operator ask something now, in the middle of a call."""
        dice, tp = self.more, self.more.choice(list(self.targets))
        kind = dice.choice((Kind.STOP, Kind.ROLLBACK, Kind.TRIM))
        some = tuple(dice.sample(list(self.targets), dice.randint(1, 6)))
        some_limits: dict[str, int | str | None] = {
            "replicas": dice.choice((1, 2, None)),
            "partitions": dice.choice((1, 3, 9)),
        }
        commands: tuple[Command, ...] = (
            SetLimits(some_limits),
            SetThrottle(rates_from(dice.choice(("none", "600kB", "2MB", "700kB")))),
            LeaveThrottles(),
            Leave(),
            Pause(),
            Pause(topics=(tp.topic,)),
            Pause(partitions=some),
            Continue(),
            Continue(),
            CallOff(kind, partitions=some),
            CallOff(kind, partitions=(tp,)),
            CallOff(kind, topics=(tp.topic,)),
        )
        command = dice.choice(commands)
        self.commands_asked.append(type(command).__name__)
        with Journal.open(self.path, self.clock) as journal:
            journal.ask(command, "somebody@here (2)")

    async def to_its_end(self) -> Run:
        """Carry it on through all that happens; whoever leaves it, it is resumed a moment later."""
        await self.start()
        beside = [asyncio.create_task(self._ask()), asyncio.create_task(self._calm())]
        try:
            while True:
                try:
                    run = await self.carry_on()
                except (Killed, RunProblem):
                    self.deaths += 1
                else:
                    if run.ended or self.given_up:
                        return run
                self.judge.told_to_leave, self.judge.disowned_s = False, None
                await self.clock.sleep(self.more.choice((0.0, 0.3, 2.0, 9.0, 60.0)))
        finally:
            await self.chaos_writer.all_arrived()
            for task in beside:
                task.cancel()

    @property
    def given_up(self) -> bool:
        return self.clock.monotonic() >= LONGEST_S

    async def _calm(self) -> None:
        """Deny a topic and step the clock now and then; let the faults end."""
        while self.clock.monotonic() < FAULTS_S:
            await self.clock.sleep(self.more.uniform(5.0, 40.0))
            denies = self.faults.strikes(Fault.DENIED_TOPIC, 0.4)
            self.chaos.denied = self.more.choice(OURS) if denies else None
            self._meddle()
            if self.faults.strikes(Fault.CLOCK_STEP, 0.2):
                assert isinstance(self.clock, SteppedClock)
                self.clock.step(self.more.choice((-3600.0, -5.0, 30.0, 86_400.0)))
        self.faults.active = False
        self.chaos.denied = None

    def _meddle(self) -> None:
        """Have somebody remove the run's lock: from then on another process could own it."""
        if self.faults.strikes(Fault.LOCK_REMOVED, 0.05):
            self.run_dir.lock.unlink(missing_ok=True)
            self.judge.disowned_s = self.clock.monotonic()

    @property
    def words(self) -> str:
        """What happened: the size of the run, the delays, faults, commands and requests."""
        fired = {fault.value: n for fault, n in sorted(self.faults.fired.items()) if n}
        return (
            f"{len(self.targets)} partitions, {self.looks} looks, {self.clock.monotonic():.0f} s "
            f"simulated, {self.faults.delays_s:.0f} s of delays of up to {self.faults.typical_s} "
            f"s; {fired}; asked {self.commands_asked}; sent {dict(self.judge.requests)}; "
            f"{self.deaths} deaths; changed between read and effect "
            f"{dict(+self.judge.changed_since)}"
        )

    def check_settings(self, outcome: Run) -> None:
        """See that every setting is as it would be without the run, at its end."""
        if not outcome.ended:
            return
        left = {
            (event.resource, key)
            for event in self.events
            if isinstance(event, SettingsLeft) and event.reason
            for key in event.keys
        }
        now, without = settings_in(self.cluster), self.others.settings
        for resource in {*now, *without}:
            for key in (*RATES, *REPLICAS):
                if (resource, key) not in self.others.touched | left:
                    told = now.get(resource, {}).get(key), without.get(resource, {}).get(key)
                    assert told[0] == told[1], f"{resource} {key} is {told[0]}, was {told[1]}"


def _broker(number: int) -> ConfigResource:
    return ConfigResource(ConfigScope.BROKER, str(number))


def _topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigScope.TOPIC, name)


def _chaotic(journal: WitnessedJournal, run: ChaosRun) -> WitnessedJournal:
    """Have a journal be locked for a while, break, or its engine die, at random appends."""
    append, tell, clock = journal.append, journal.answer, run.clock
    assert isinstance(clock, SteppedClock)

    def appended(events: Sequence[Event]) -> Any:
        faults = run.faults
        if events and faults.strikes(Fault.BUSY_JOURNAL, 0.01):
            clock.pass_time(faults.dice.choice((1.0, 7.0, 90.0)))
        if events and faults.strikes(Fault.BROKEN_JOURNAL, 0.003):
            raise JournalProblem("the disk reports an error")
        if events and faults.strikes(Fault.KILLED, 0.003):
            raise Killed
        return append(events)

    def answered(number: int, answer: Answer) -> None:
        tell(number, answer)
        run.judge.told_to_leave |= answer.accepted and answer.words.startswith("the run is being")

    journal.append = appended  # type: ignore[method-assign]
    journal.answer = answered  # type: ignore[method-assign]
    return journal
